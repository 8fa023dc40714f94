"""What every log must do, written once; a module that has a ``log`` and a ``prefix`` fixture runs it by import."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from streamgp.errors import DeliveryError, FencedError, LogError
from streamgp.wire.log import Log, Message, Outgoing, Reader, Subscription, TopicSpec, Writer
from streamgp.wire.partitioner import partition_of

PATIENCE_S = 15.0
STATIONS = ("Malin Head", "Dublin", "Belmullet", "Roche's Pt", "Köln", "北京", "Clones")


def read(reader: Reader, wanted: int, *, max_records: int = 500) -> list[Message]:
    """Poll until so many messages have come, and then once more: no message may follow."""
    messages: list[Message] = []
    end = time.monotonic() + PATIENCE_S
    while len(messages) < wanted and time.monotonic() < end:
        messages += reader.poll(0.2, max_records)
    assert len(messages) == wanted, f"{len(messages)} of {wanted} came"
    return messages


def quiet(reader: Reader) -> None:
    """Nothing more comes, and the reader knows that it has read all."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        assert reader.poll(0.1) == []
        if reader.stats.behind == 0:
            return
    pytest.fail(f"behind is {reader.stats.behind} although nothing comes")


def until(condition: Callable[[], bool], *readers: Reader) -> list[Message]:
    """Poll the readers in turn until the condition holds; what came meanwhile."""
    messages: list[Message] = []
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        for reader in readers:
            messages += reader.poll(0.1)
    return messages


def put(log: Log, records: list[Outgoing]) -> None:
    writer = log.writer()
    writer.write(records)
    writer.flush(PATIENCE_S)
    assert writer.stats.acknowledged == len(records)
    writer.close()


def rows(topic: str, count: int, keys: tuple[str, ...] = STATIONS) -> list[Outgoing]:
    return [Outgoing(topic, keys[i % len(keys)], b"%d" % i) for i in range(count)]


@pytest.fixture
def topic(log: Log, prefix: str) -> str:
    """A topic of three partitions."""
    name = f"{prefix}.rows"
    assert log.create_topics([TopicSpec(name, partitions=3)]) == [name]
    return name


# -- topics, keys, order


def test_topics_are_made_once(log: Log, topic: str) -> None:
    assert log.create_topics([TopicSpec(topic, partitions=5)]) == []
    assert log.topics()[topic] == 3


def test_records_of_a_key_stay_in_order_on_the_partition_that_every_kafka_client_picks(log: Log, topic: str) -> None:
    """R13: the partition is that of the plain key."""
    put(log, rows(topic, 700))
    messages = read(log.reader([Subscription(topic)]), 700)
    for station in STATIONS:
        mine = [m for m in messages if m.key == station]
        assert [int(m.value or b"") for m in mine] == sorted(int(m.value or b"") for m in mine)
        assert {m.partition for m in mine} == {partition_of(station, 3)}
    for partition in range(3):
        offsets = [m.offset for m in messages if m.partition == partition]
        assert offsets == list(range(len(offsets)))
    assert {m.topic for m in messages} == {topic}


def test_max_records_is_kept(log: Log, topic: str) -> None:
    put(log, rows(topic, 50))
    reader = log.reader([Subscription(topic)])
    seen: list[Message] = []
    while len(seen) < 50:
        batch = reader.poll(1.0, 7)
        assert len(batch) <= 7
        seen += batch
    assert len({(m.partition, m.offset) for m in seen}) == 50


def test_one_key_is_read_from_its_partition_alone(log: Log, topic: str) -> None:
    put(log, rows(topic, 70))
    home = partition_of("Dublin", 3)
    expected = sum(1 for r in rows(topic, 70) if partition_of(r.key, 3) == home)
    reader = log.reader([Subscription(topic, key="Dublin")])
    messages = read(reader, expected)
    assert {m.partition for m in messages} == {home}
    quiet(reader)
    assert reader.ends() == {(topic, home): expected}


def test_a_partition_can_be_named(log: Log, topic: str) -> None:
    put(log, [Outgoing(topic, "Dublin", b"x", partition=p) for p in (2, 0, 2)])
    messages = read(log.reader([Subscription(topic)]), 3)
    assert sorted((m.partition, m.offset) for m in messages) == [(0, 0), (2, 0), (2, 1)]


def test_content_is_carried_as_it_is(log: Log, topic: str) -> None:
    """Headers, tombstones, empty values, unicode keys and large records."""
    sent = [
        Outgoing(topic, "北京", b"x", headers=(("reason", b"late"), ("field", b""))),
        Outgoing(topic, "北京", None),
        Outgoing(topic, "北京", b""),
        Outgoing(topic, "北京", bytes(range(256)) * 3_500),
    ]
    before_ms = time.time_ns() // 1_000_000
    put(log, sent)
    got = read(log.reader([Subscription(topic, key="北京")]), 4)
    assert [(m.key, m.value, m.headers) for m in got] == [(r.key, r.value, r.headers) for r in sent]
    assert all(before_ms - 5 <= m.timestamp_ms <= time.time_ns() // 1_000_000 + 5 for m in got)


def test_keys_and_values_are_not_swapped_or_left_out() -> None:
    """R13, C19: no key, an empty key, and value before key are refused with a clear message."""
    with pytest.raises(TypeError, match="key must be text"):
        Outgoing("t", None, b"{}")  # type: ignore[arg-type]  # what the type forbids is refused at run time too
    with pytest.raises(TypeError, match="swapped"):
        Outgoing("t", b"{}", "Dublin")  # type: ignore[arg-type]  # as above
    with pytest.raises(TypeError, match="value must be bytes"):
        Outgoing("t", "Dublin", '{"v": 1}')  # type: ignore[arg-type]  # as above
    with pytest.raises(ValueError, match="empty"):
        Outgoing("t", "", b"{}")


# -- where a reader begins, goes on, and ends


@pytest.mark.parametrize("balanced", [False, True])
def test_a_new_group_starts_at_the_oldest_record(log: Log, topic: str, balanced: bool) -> None:
    """R11, C19: 500 rows lie in the topic before the group exists."""
    put(log, rows(topic, 500))
    read(log.reader([Subscription(topic)], group=f"{topic}-g", balanced=balanced), 500)


def test_latest_starts_at_the_end(log: Log, topic: str) -> None:
    put(log, rows(topic, 20))
    reader = log.reader([Subscription(topic)], start="latest")
    until(lambda: len(reader.stats.positions) == 3, reader)
    put(log, [Outgoing(topic, "Dublin", b"new")])
    assert [m.value for m in read(reader, 1)] == [b"new"]


@pytest.mark.parametrize("balanced", [False, True])
def test_a_group_goes_on_where_it_committed(log: Log, topic: str, balanced: bool) -> None:
    """R26: what is read but not committed comes again, what is committed does not; another group sees all."""
    put(log, rows(topic, 30))
    group = f"{topic}-g"
    first = log.reader([Subscription(topic)], group=group, balanced=balanced)
    messages = read(first, 30)
    halves = {p: sum(m.partition == p for m in messages) // 2 for p in range(3)}
    first.commit({(topic, p): offset for p, offset in halves.items()})
    assert first.stats.refused_commits == 0
    first.close()
    second = log.reader([Subscription(topic)], group=group, balanced=balanced)
    again = read(second, 30 - sum(halves.values()))
    for partition, offset in halves.items():
        assert min(m.offset for m in again if m.partition == partition) == offset
    second.close()
    read(log.reader([Subscription(topic)], group=f"{topic}-other"), 30)


def test_seek_goes_back_and_forward_and_beats_the_group(log: Log, topic: str) -> None:
    put(log, [Outgoing(topic, "Dublin", b"%d" % i) for i in range(10)])
    home = (topic, partition_of("Dublin", 3))
    reader = log.reader([Subscription(topic)], group=f"{topic}-g")
    reader.seek({home: 6})  # before the first poll
    assert [m.offset for m in read(reader, 4)] == [6, 7, 8, 9]
    reader.seek({home: 2})
    assert [m.offset for m in read(reader, 8)] == list(range(2, 10))
    reader.seek({home: 10})
    quiet(reader)
    with pytest.raises(ValueError, match="at least 0"):
        reader.seek({home: -1})


def test_a_record_that_failed_is_tried_again_before_anything_later_is_committed(log: Log, topic: str) -> None:
    """R26, C20: record 5 fails once; a seek back brings 5 again, and the committed offset never passes it."""
    put(log, [Outgoing(topic, "Dublin", b"%d" % i) for i in range(10)])
    home = (topic, partition_of("Dublin", 3))
    reader = log.reader([Subscription(topic, key="Dublin")], group=f"{topic}-g")
    assert [m.offset for m in read(reader, 10)] == list(range(10))
    reader.commit({home: 5})
    reader.seek({home: 5})
    assert [m.offset for m in read(reader, 5)] == [5, 6, 7, 8, 9]
    reader.close()
    assert read(log.reader([Subscription(topic, key="Dublin")], group=f"{topic}-g"), 5)[0].offset == 5


def test_ends_are_those_of_now(log: Log, topic: str) -> None:
    reader = log.reader([Subscription(topic)])
    until(lambda: len(reader.stats.positions) == 3, reader)
    assert reader.ends() == {(topic, p): 0 for p in range(3)}
    put(log, rows(topic, 21))
    assert sum(reader.ends().values()) == 21
    assert set(reader.ends()) == {(topic, p) for p in range(3)}


def test_behind_counts_what_waits(log: Log, topic: str) -> None:
    """R32: a reader that is far behind knows it."""
    put(log, rows(topic, 40))
    reader = log.reader([Subscription(topic)])
    read(reader, 40)
    quiet(reader)
    assert sum(reader.stats.positions.values()) == 40
    assert reader.stats.messages == 40


def test_exhausted_is_a_poll_after_which_nothing_waits_in_what_was_read(log: Log, topic: str, prefix: str) -> None:
    """Not while messages come, not while some wait; topics that are left alone do not count."""
    other = f"{prefix}.other"
    log.create_topics([TopicSpec(other)])
    put(log, rows(topic, 40))
    reader = log.reader([Subscription(topic), Subscription(other)])
    assert not reader.stats.exhausted
    while reader.stats.messages < 40:
        assert not (reader.poll(0.25, 7) and reader.stats.exhausted)
        assert not (reader.stats.exhausted and reader.stats.messages < 40)
    until(lambda: reader.stats.exhausted, reader)
    put(log, rows(topic, 10))
    end = time.monotonic() + PATIENCE_S
    alone = frozenset({topic})
    while not (reader.poll(0.1, without=alone) == [] and reader.stats.exhausted) and time.monotonic() < end:
        pass
    assert reader.stats.exhausted
    assert reader.stats.messages == 40
    read(reader, 10)
    assert not reader.stats.exhausted


def test_a_topic_is_left_alone_when_told(log: Log, topic: str, prefix: str) -> None:
    """Back pressure: what is left alone comes later, whole and in order; other topics come meanwhile."""
    other = f"{prefix}.other"
    log.create_topics([TopicSpec(other)])
    put(log, rows(topic, 30) + rows(other, 10))
    reader = log.reader([Subscription(topic), Subscription(other)])
    seen: list[Message] = []
    end = time.monotonic() + PATIENCE_S
    while len(seen) < 10 and time.monotonic() < end:
        seen += reader.poll(0.2, without=frozenset({topic}))
    assert {m.topic for m in seen} == {other}
    assert reader.poll(0.2, without=frozenset({topic})) == []
    assert sum(m.topic == topic for m in read(reader, 30)) == 30


def test_a_topic_left_alone_in_the_middle_of_a_batch_goes_on(log: Log, topic: str, prefix: str) -> None:
    """R04: a backlog larger than what a reader holds; again and again it is put off with records fetched and unread."""
    other = f"{prefix}.other"
    log.create_topics([TopicSpec(other)])
    put(log, rows(topic, 900) + rows(other, 1))
    reader = log.reader([Subscription(topic), Subscription(other)])
    seen, end = until(lambda: sum(reader.stats.positions.values()) > 100, reader), time.monotonic() + PATIENCE_S
    for k in range(5):
        put(log, rows(other, 3))
        came: list[Message] = []
        while len([m for m in seen + came if m.topic == other]) < 4 + 3 * k and time.monotonic() < end:
            came += reader.poll(0.1, 20, without=frozenset({topic}))
        assert {m.topic for m in came} <= {other}
        seen += came
        seen += reader.poll(0.1, 20)
    while len(seen) < 916 and time.monotonic() < end:
        seen += reader.poll(0.1)
    offsets = [(m.topic, m.partition, m.offset) for m in seen]
    assert len(offsets) == len(set(offsets)) == 916


# -- waiting and ending


def test_an_empty_poll_waits_as_long_as_it_was_told(log: Log, topic: str) -> None:
    reader = log.reader([Subscription(topic)])
    until(lambda: reader.stats.behind == 0, reader)
    begun = time.monotonic()
    assert reader.poll(0.0) == []
    assert time.monotonic() - begun < 0.2
    begun = time.monotonic()
    assert reader.poll(0.4) == []
    assert 0.35 < time.monotonic() - begun < 1.5


def test_a_poll_ends_as_soon_as_a_record_comes(log: Log, topic: str) -> None:
    reader = log.reader([Subscription(topic)])
    until(lambda: reader.stats.behind == 0, reader)
    timer = threading.Timer(0.2, put, (log, [Outgoing(topic, "Dublin", b"x")]))
    timer.start()
    begun = time.monotonic()
    assert len(reader.poll(10.0)) == 1
    assert time.monotonic() - begun < 5.0
    timer.join()


def test_close_twice_and_nothing_after(log: Log, topic: str) -> None:
    """R14: within 5 s, on an idle topic."""
    reader, writer = log.reader([Subscription(topic)], group=f"{topic}-g"), log.writer()
    reader.poll(0.1)
    writer.write([Outgoing(topic, "Dublin", b"x")])
    begun = time.monotonic()
    for closing in (reader, writer, reader, writer):
        closing.close()
    assert time.monotonic() - begun < 5.0
    with pytest.raises(LogError, match="closed"):
        reader.poll(0.0)
    with pytest.raises(LogError, match="closed"):
        writer.write([Outgoing(topic, "Dublin", b"x")])


def test_close_from_another_thread_ends_a_long_poll(log: Log, topic: str) -> None:
    """R14: nobody has to wait for a poll's own patience."""
    reader = log.reader([Subscription(topic)])
    until(lambda: reader.stats.behind == 0, reader)
    timer = threading.Timer(0.2, reader.close)
    timer.start()
    begun = time.monotonic()
    assert reader.poll(60.0) == []
    assert time.monotonic() - begun < 5.0
    timer.join()


# -- writing


def test_flush_names_what_failed(log: Log, topic: str) -> None:
    """R05: a record that cannot be written is told, with its reason, and only once; the rest is confirmed."""
    writer = log.writer()
    large = Outgoing(topic, "Dublin", b"x" * 2_000_000)
    writer.write([Outgoing(topic, "Dublin", b"1"), large, Outgoing(topic, "Dublin", b"2")])
    with pytest.raises(DeliveryError, match="1 record") as caught:
        writer.flush(PATIENCE_S)
    assert [record for record, _ in caught.value.failed] == [large]
    assert "arger" in caught.value.failed[0][1]
    assert (writer.stats.written, writer.stats.acknowledged, writer.stats.failed) == (3, 2, 1)
    writer.flush(PATIENCE_S)
    writer.close()
    assert [m.value for m in read(log.reader([Subscription(topic)]), 2)] == [b"1", b"2"]


def test_a_missing_topic_is_named_within_five_seconds(log: Log, prefix: str) -> None:
    """R17: both by a reader and by a writer, with the command that helps."""
    missing = f"{prefix}.nowhere"
    begun = time.monotonic()
    with pytest.raises(LogError, match=r"nowhere.*streamgp topics create"):
        log.reader([Subscription(missing)]).poll(10.0)
    assert time.monotonic() - begun < 5.0
    begun = time.monotonic()
    writer = log.writer()
    with pytest.raises(LogError, match=r"nowhere.*streamgp topics create"):
        write_and_flush(writer, [Outgoing(missing, "Dublin", b"x")])
    assert time.monotonic() - begun < 5.0
    writer.close()


def write_and_flush(writer: Writer, records: list[Outgoing]) -> None:
    writer.write(records)
    writer.flush(PATIENCE_S)


def test_an_empty_flush_and_an_empty_write_do_nothing(log: Log) -> None:
    writer = log.writer()
    writer.flush(1.0)
    writer.write([])
    writer.flush(1.0)
    writer.close()
    assert writer.stats.written == 0


# -- retention


@pytest.mark.parametrize("balanced", [False, True])
def test_a_gap_is_counted_and_reading_goes_on(log: Log, topic: str, balanced: bool) -> None:
    """A reader whose next record retention has removed goes on at the oldest there is, and says what it lost."""
    put(log, [Outgoing(topic, "Dublin", b"%d" % i) for i in range(20)])
    home = (topic, partition_of("Dublin", 3))
    group = f"{topic}-g"
    first = log.reader([Subscription(topic)], group=group, balanced=balanced)
    read(first, 20)
    first.commit({home: 5})
    first.close()
    log.delete_records({home: 12})
    reader = log.reader([Subscription(topic)], group=group, balanced=balanced)
    assert [m.offset for m in read(reader, 8)] == list(range(12, 20))
    assert reader.stats.lost == {home: 7}


def test_a_fresh_reader_of_a_topic_that_lost_its_head_has_lost_nothing(log: Log, topic: str) -> None:
    put(log, [Outgoing(topic, "Dublin", b"%d" % i) for i in range(9)])
    home = (topic, partition_of("Dublin", 3))
    log.delete_records({home: 4})
    reader = log.reader([Subscription(topic)], group=f"{topic}-g")
    assert [m.offset for m in read(reader, 5)] == [4, 5, 6, 7, 8]
    assert not reader.stats.lost


def test_an_offset_beyond_the_end_starts_over(log: Log, topic: str) -> None:
    """A topic that was made anew is shorter than the snapshot remembers: it is read from its start."""
    put(log, [Outgoing(topic, "Dublin", b"%d" % i) for i in range(3)])
    home = (topic, partition_of("Dublin", 3))
    reader = log.reader([Subscription(topic)])
    reader.seek({home: 1000})
    assert [m.offset for m in read(reader, 3)] == [0, 1, 2]


# -- groups


def test_members_share_partitions_and_inherit_them(log: Log, topic: str) -> None:
    """R22: each partition has one reader of the two; the one that stays takes over, from what is committed."""
    group = f"{topic}-g"
    one = log.reader([Subscription(topic)], group=group, balanced=True)
    until(lambda: len(one.stats.positions) == 3, one)
    two = log.reader([Subscription(topic)], group=group, balanced=True)
    until(lambda: len(one.ends()) + len(two.ends()) == 3 and len(two.ends()) >= 1, one, two)
    assert not set(one.ends()) & set(two.ends())
    put(log, rows(topic, 60))
    messages: list[tuple[int, Message]] = []
    end = time.monotonic() + PATIENCE_S
    while len(messages) < 60 and time.monotonic() < end:
        messages += [(1, m) for m in one.poll(0.1)] + [(2, m) for m in two.poll(0.1)]
    assert len({(m.partition, m.offset) for _, m in messages}) == len(messages) == 60
    for number, reader in ((1, one), (2, two)):
        mine = [m for n, m in messages if n == number]
        reader.commit({(m.topic, m.partition): m.offset + 1 for m in mine})
        assert reader.stats.refused_commits == 0
    two.close()
    put(log, rows(topic, 30))
    again = until(lambda: one.stats.messages >= sum(n == 1 for n, _ in messages) + 30, one)
    assert len(again) == 30
    one.close()


def test_offsets_only_grow_through_rebalances(log: Log, topic: str) -> None:
    """R23, R22: nothing is committed, a second member comes and goes twice; no offset is delivered twice here."""
    group = f"{topic}-g"
    put(log, rows(topic, 30))
    one = log.reader([Subscription(topic)], group=group, balanced=True)
    seen = read(one, 30)
    for round_ in range(2):
        two = log.reader([Subscription(topic)], group=group, balanced=True)
        seen += until(lambda two=two: len(one.ends()) < 3 and len(two.ends()) > 0, one, two)[:0]
        two.close()
        until(lambda: len(one.ends()) == 3, one)
        put(log, rows(topic, 9))
        seen += until(lambda n=round_: one.stats.messages >= 30 + 9 * (n + 1), one)
    for partition in range(3):
        offsets = [m.offset for m in seen if m.partition == partition]
        assert all(a < b for a, b in pairwise(offsets))
    one.close()


def test_a_commit_that_is_refused_is_counted(log: Log, topic: str) -> None:
    """R01: a group whose partitions are shared out takes no commit from outside it; nothing is raised."""
    group = f"{topic}-g"
    member = log.reader([Subscription(topic)], group=group, balanced=True)
    until(lambda: len(member.stats.positions) == 3, member)
    stranger = log.reader([Subscription(topic)], group=group)
    stranger.poll(0.1)
    stranger.commit({(topic, 0): 0})
    assert stranger.stats.refused_commits == 1
    member.close()


def test_a_reader_without_a_group_keeps_no_offsets(log: Log, topic: str) -> None:
    reader = log.reader([Subscription(topic)])
    reader.commit({(topic, 0): 3})
    assert reader.stats.refused_commits == 0
    with pytest.raises(ValueError, match="needs a group"):
        log.reader([Subscription(topic)], balanced=True)


# -- transactions


def test_a_transaction_is_seen_whole_with_its_offsets_or_not_at_all(log: Log, topic: str) -> None:
    put(log, rows(topic, 6))
    group = f"{topic}-g"
    writer = log.writer(transactional_id=f"{topic}-tx")
    reader = log.reader([Subscription(topic)])
    read(reader, 6)
    with pytest.raises(LogError, match="transaction"):
        writer.write([Outgoing(topic, "Dublin", b"outside")])
    with pytest.raises(ZeroDivisionError):
        fail_within(writer, group, Outgoing(topic, "Dublin", b"never"))
    with writer.transaction() as transaction:
        writer.write([Outgoing(topic, "Dublin", b"a"), Outgoing(topic, "Clones", b"b")])
        transaction.commit_offsets(group, {(topic, p): end for (_, p), end in reader.ends().items()})
    assert {m.value for m in read(reader, 2)} == {b"a", b"b"}
    quiet(reader)
    writer.close()
    resumed = log.reader([Subscription(topic)], group=group)
    assert {m.value for m in read(resumed, 2)} == {b"a", b"b"}


def fail_within(writer: Writer, group: str, record: Outgoing) -> None:
    with writer.transaction() as transaction:
        writer.write([record])
        transaction.commit_offsets(group, {(record.topic, 0): 1})
        raise ZeroDivisionError


def test_a_later_writer_of_the_same_id_fences_the_earlier(log: Log, topic: str) -> None:
    """C41: of two agents of one station, one is told that it must stop."""
    first = log.writer(transactional_id=f"{topic}-tx")
    with first.transaction():
        first.write([Outgoing(topic, "Dublin", b"first")])
    second = log.writer(transactional_id=f"{topic}-tx")
    with second.transaction():
        second.write([Outgoing(topic, "Dublin", b"second")])
    with pytest.raises(FencedError, match="must stop"), first.transaction():
        first.write([Outgoing(topic, "Dublin", b"ghost")])
    first.close()
    second.close()
    reader = log.reader([Subscription(topic)])
    assert [m.value for m in read(reader, 2)] == [b"first", b"second"]
    quiet(reader)


def test_a_plain_writer_has_no_transactions(log: Log) -> None:
    writer = log.writer()
    with pytest.raises(LogError, match="transactional id"), writer.transaction():
        pass
    writer.close()
