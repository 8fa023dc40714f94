"""Where a reader begins, goes on, and ends."""

from __future__ import annotations

import time

import pytest

from streamgp.wire.log import Log, Message, Outgoing, Subscription, TopicSpec, Writer
from streamgp.wire.partitioner import partition_of
from tests.wire.conformance.common import PATIENCE_S, put, quiet, read, rows, until


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


def test_positions_come_to_the_ends_of_a_moment_though_more_keeps_coming(log: Log, topic: str) -> None:
    """Past the marks of transactions, ended and broken off: who waits for all that was there learns that it is read."""
    reader, more = log.reader([Subscription(topic)]), log.writer()
    writer = log.writer(transactional_id=f"{topic}-tx")
    with writer.transaction():
        writer.write(rows(topic, 14))
    with pytest.raises(ZeroDivisionError):
        _broken_off(writer, rows(topic, 14))
    writer.close()
    ends, found = reader.ends(), 0
    end = time.monotonic() + PATIENCE_S
    while any(reader.stats.positions.get(place, 0) < at for place, at in ends.items()):
        assert time.monotonic() < end, (reader.stats.positions, ends)
        more.write([Outgoing(topic, "Dublin", b"more")])
        found += len(reader.poll(0.02))
    assert found >= 14
    more.close()


def _broken_off(writer: Writer, records: list[Outgoing]) -> None:
    with writer.transaction():
        writer.write(records)
        raise ZeroDivisionError
