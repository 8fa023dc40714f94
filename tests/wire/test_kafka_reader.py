"""The Kafka reader and writer against a client that does what a broker rarely does; no broker, no kafka-python."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

import pytest

from streamgp.errors import BrokerUnavailableError, DeliveryError, FencedError, LogError
from streamgp.wire.clock import ManualClock
from streamgp.wire.connector import Connector
from streamgp.wire.kafka_client import NoOffsetError, OffsetGoneError, TruncatedError
from streamgp.wire.kafka_reader import SILENT_S, KafkaReader
from streamgp.wire.kafka_writer import KafkaWriter
from streamgp.wire.log import Message, Outgoing, Partition, Start, Subscription

T0: Partition = ("t", 0)


class FakeConsumer:
    """Serves what it is told, in turn: batches, or errors."""

    def __init__(self, *turns: object, first: int = 0, end: int = 100) -> None:
        self.turns = list(turns)
        self.polls = 0
        self.first, self.end = first, end
        self.sought: list[tuple[Partition, int]] = []
        self.partitions: list[Partition] = []
        self.expected: set[str] = set()
        self.unanswered_s: float | None = 0.0
        self.closed = 0

    def poll(self, timeout_s: float, max_records: int) -> dict[Partition, list[Message]]:
        self.polls += 1
        turn = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        if isinstance(turn, Exception):
            raise turn
        if callable(turn):
            turn = turn()
        assert isinstance(turn, dict)
        if not turn:
            time.sleep(min(timeout_s, 0.01))
        return turn

    def assign(self, partitions: list[Partition]) -> None:
        self.partitions = list(partitions)

    def subscribe(self, topics: list[str]) -> None:
        self.partitions = [(topic, 0) for topic in topics]

    def assigned(self) -> list[Partition]:
        return list(self.partitions)

    def expect(self, topics: set[str]) -> None:
        self.expected = set(topics)

    def size(self, topic: str) -> int:
        return 2

    def seek(self, partition: Partition, offset: int) -> None:
        self.sought.append((partition, offset))

    def pause(self, topics: frozenset[str]) -> None:
        self.paused = topics

    def commit(self, offsets: Mapping[Partition, int], timeout_s: float) -> None:
        raise LogError("the group is rebalancing")

    def bounds(self, partitions: list[Partition], which: Start, timeout_s: float) -> dict[Partition, int]:
        return dict.fromkeys(partitions, self.first if which == "earliest" else self.end)

    def place(self, partition: Partition) -> tuple[int, int] | None:
        return (7, self.end)

    def close(self) -> None:
        self.closed += 1


def batch(*offsets: int) -> dict[Partition, list[Message]]:
    return {T0: [Message("t", 0, offset, "A", b"%d" % offset) for offset in offsets]}


def reader_of(
    client: FakeConsumer | Callable[[], FakeConsumer], *, balanced: bool = False, start: Start = "earliest"
) -> KafkaReader:
    make = client if callable(client) else lambda: client
    reader = KafkaReader(make, [Subscription("t")], group="g", balanced=balanced, start=start)
    reader._connector.get(5.0)
    return reader


def test_an_error_again_and_again_is_no_hot_loop_and_no_flood(caplog: pytest.LogCaptureFixture) -> None:
    """R27, C20: growing lines, bounded tries; it is counted."""
    client = FakeConsumer(BrokerUnavailableError("not now"))
    reader = reader_of(client)
    with caplog.at_level(logging.WARNING):
        assert reader.poll(1.0) == []
    assert client.polls <= 6
    assert reader.stats.errors == client.polls
    for _ in range(25):
        reader.poll(0.0)
    assert len(caplog.records) < 10


def test_an_error_that_stays_is_raised() -> None:
    reader = reader_of(FakeConsumer(LogError("the broker denies access")))
    with pytest.raises(LogError, match="denies access"):
        reader.poll(1.0)


def test_a_batch_that_was_delivered_before_is_dropped_for_a_member_only() -> None:
    """R23, R22: after an expulsion the group's offset is older than what this reader has delivered."""
    for balanced, expected in ((True, [0, 1, 2, 3, 4]), (False, [0, 1, 2, 1, 2, 3, 4])):
        reader = reader_of(FakeConsumer(batch(0, 1, 2), batch(1, 2), batch(3, 4), {}), balanced=balanced)
        assert [m.offset for _ in range(4) for m in reader.poll(0.05)] == expected


def test_a_seek_back_is_not_taken_for_a_repetition() -> None:
    reader = reader_of(FakeConsumer(batch(0, 1, 2), batch(1, 2), {}), balanced=True)
    reader.poll(0.1)
    reader.seek({T0: 1})
    assert [m.offset for m in reader.poll(0.1)] == [1, 2]


@pytest.mark.parametrize(("start", "goal"), [("earliest", 40), ("latest", 100)])
def test_a_gap_is_counted(start: Start, goal: int) -> None:
    client = FakeConsumer(OffsetGoneError({T0: 25}), batch(goal), {}, first=40)
    reader = reader_of(client, start=start)
    assert [m.offset for _ in range(2) for m in reader.poll(0.1)] == [goal]
    assert client.sought == [(T0, goal)]
    assert reader.stats.lost == {T0: 15}


@pytest.mark.parametrize(("parting", "goal"), [(33, 33), (None, 100)])
def test_a_broker_that_lost_what_was_read_is_followed(parting: int | None, goal: int) -> None:
    client = FakeConsumer(TruncatedError({T0: parting}), {})
    reader = reader_of(client)
    reader.poll(0.1)
    assert client.sought == [(T0, goal)]
    assert not reader.stats.lost


def test_a_group_without_offsets_begins_at_the_start_or_where_this_reader_was() -> None:
    client = FakeConsumer(NoOffsetError([T0]), batch(3, 4), NoOffsetError([T0]), {}, first=3)
    reader = reader_of(client, balanced=True)
    assert [m.offset for _ in range(3) for m in reader.poll(0.1)] == [3, 4]
    assert client.sought == [(T0, 3), (T0, 5)]


def test_refused_commits_are_counted_and_told_rarely(caplog: pytest.LogCaptureFixture) -> None:
    """R01."""
    client = FakeConsumer({})
    reader = reader_of(client)
    reader.poll(0.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            reader.commit({T0: 1})
    assert reader.stats.refused_commits == 50
    assert len(caplog.records) < 10
    client.unanswered_s = None
    begun = time.monotonic()
    reader.commit({T0: 1})
    assert time.monotonic() - begun < 0.1
    assert reader.stats.refused_commits == 51


def test_whether_anybody_answers_is_told_as_of_now_also_between_two_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """R04: the thread that polls may stand in a commit for as long as the broker keeps silent."""
    client = FakeConsumer({})
    reader = reader_of(client)
    clock = ManualClock()
    monkeypatch.setattr(reader, "_clock", clock)
    monkeypatch.setattr(reader, "_answered_s", clock.monotonic_s())
    reader.poll(0.0)
    for unanswered_s, connected, silent_s in (
        (0.0, True, 0.0),
        (SILENT_S - 0.1, True, SILENT_S - 0.1),
        (SILENT_S, False, SILENT_S),
        (30.0, False, 30.0),
        (None, False, 31.0),  # the client gave that connection up
        (None, False, 50.0),
        (0.0, True, 0.0),
    ):
        clock.advance(60.0 if unanswered_s == 0.0 else silent_s - (reader.stats.silent_s or 0.0))
        client.unanswered_s = unanswered_s
        assert (reader.stats.connected, reader.stats.silent_s) == (connected, pytest.approx(silent_s))


def test_who_is_silent_has_no_end_and_is_no_end_of_the_input() -> None:
    client = FakeConsumer({}, end=7)
    reader = reader_of(client)
    reader.poll(0.0)
    assert (reader.stats.behind, reader.stats.exhausted) == (0, True)
    client.unanswered_s = SILENT_S
    reader.poll(0.0)
    assert (reader.stats.behind, reader.stats.exhausted) == (None, False)


def test_lag_counts_past_what_is_no_message() -> None:
    """Markers of transactions take offsets: the client's own place is ahead of the last message's."""
    reader = reader_of(FakeConsumer({}, end=9))
    reader.poll(0.0)
    assert reader.stats.behind == 2 * (9 - 7)
    assert reader.stats.positions == {T0: 7, ("t", 1): 7}


def test_a_client_that_comes_too_late_is_closed() -> None:
    client = FakeConsumer({})

    def slowly() -> FakeConsumer:
        time.sleep(0.3)
        return client

    reader = KafkaReader(slowly, [Subscription("t")], group=None, balanced=False, start="earliest")
    assert reader.poll(0.0) == []
    reader.close()
    end = time.monotonic() + 5.0
    while not client.closed and time.monotonic() < end:
        time.sleep(0.01)
    assert client.closed == 1


def test_the_connector_tries_again_and_gives_up_on_what_will_not_mend() -> None:
    """R03: the pauses grow; a final error is raised at every question."""
    tries, pauses = 0, []

    class Pauses(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)  # as asked for: a busy machine makes any of them longer
            return super().wait(timeout)

    def make() -> str:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise BrokerUnavailableError("away")
        raise LogError("wrong password")

    connector = Connector(make, dispose=lambda _: None)
    connector._closing = Pauses()
    assert connector.get(0.0) is None
    for _ in range(2):
        with pytest.raises(LogError, match="wrong password"):
            connector.get(10.0)
    assert pauses == sorted(pauses) == [0.1, 0.2, 0.4]
    assert tries == 4


class Receipt:
    def __init__(self, error: Exception | None = None, done: bool = True) -> None:
        self.exception = error
        self.is_done = done

    def get(self, timeout: float) -> object:
        if not self.is_done:
            time.sleep(min(timeout, 0.02))
            raise TimeoutError
        if self.exception is not None:
            raise self.exception
        return None


class FakeProducer:
    def __init__(self, fate: Callable[[Outgoing], Receipt]) -> None:
        self.fate = fate
        self.sent: list[Outgoing] = []
        self.did: list[str] = []
        self.fenced = False
        self.expected: set[str] = set()

    def expect(self, topics: set[str]) -> None:
        self.expected |= topics

    def send(self, record: Outgoing) -> Receipt:
        receipt = self.fate(record)
        self.sent.append(record)
        return receipt

    def begin(self) -> None:
        self.did.append("begin")

    def commit(self, offsets: Mapping[str, Mapping[Partition, int]]) -> None:
        self.did.append(f"commit {dict(offsets)}")

    def abort(self) -> None:
        self.did.append("abort")
        if self.fenced:
            raise FencedError("another process")

    def close(self) -> None:
        self.did.append("close")


def writer_of(client: FakeProducer, *, transactional_id: str | None = None) -> KafkaWriter:
    return KafkaWriter(
        lambda: client, transactional_id=transactional_id, delivery_timeout_s=0.3, transaction_timeout_s=1.0
    )


def records(*values: bytes) -> list[Outgoing]:
    return [Outgoing("t", "A", value) for value in values]


def test_a_client_is_told_of_all_topics_before_it_is_asked_for_the_first() -> None:
    """One request for all of them: a start waited a tenth of a second for each."""
    producer = FakeProducer(lambda _: Receipt())
    writer = writer_of(producer)
    writer.write([Outgoing(topic, "A", b"1") for topic in ("t", "u", "t")])
    writer.flush(1.0)
    assert producer.expected == {"t", "u"}
    writer.close()
    consumer = FakeConsumer({})
    reader = KafkaReader(
        lambda: consumer, [Subscription("t"), Subscription("u")], group=None, balanced=False, start="earliest"
    )
    reader.poll(1.0)
    assert consumer.expected == {"t", "u"}
    reader.close()


def test_every_receipt_is_looked_at() -> None:
    """R05: a client that returns normally and fails later; written = acknowledged + failed + pending."""

    def fate(record: Outgoing) -> Receipt:
        if record.value == b"refused":
            raise LogError("not sent: too large")
        return Receipt(OSError("expired") if record.value == b"late" else None, done=record.value != b"lost")

    writer = writer_of(FakeProducer(fate))
    writer.write(records(b"1", b"late", b"refused", b"2", b"lost", b"3"))
    with pytest.raises(DeliveryError, match="3 records were not confirmed") as caught:
        writer.flush(0.2)
    assert [(r.value, reason) for r, reason in caught.value.failed] == [
        (b"refused", "not sent: too large"),
        (b"late", "OSError: expired"),
    ]
    assert caught.value.pending == 1
    assert (writer.stats.written, writer.stats.acknowledged, writer.stats.failed) == (6, 3, 2)


def test_records_wait_in_order_while_the_client_cannot_take_them() -> None:
    away = {"now": True}

    def fate(record: Outgoing) -> Receipt:
        if away["now"]:
            raise BrokerUnavailableError("no metadata yet")
        return Receipt()

    client = FakeProducer(fate)
    writer = writer_of(client)
    writer.write(records(b"1", b"2"))
    assert client.sent == []
    away["now"] = False
    writer.write(records(b"3"))
    writer.flush(1.0)
    assert [r.value for r in client.sent] == [b"1", b"2", b"3"]


def test_records_that_found_no_broker_in_time_are_given_up() -> None:
    client = FakeProducer(lambda record: Receipt())

    def nobody() -> FakeProducer:
        raise BrokerUnavailableError("away")

    writer = KafkaWriter(nobody, transactional_id=None, delivery_timeout_s=0.2, transaction_timeout_s=1.0)
    writer.write(records(b"1"))
    with pytest.raises(DeliveryError, match="1 record was not confirmed: no broker answered in time"):
        writer.flush(3.0)
    assert client.sent == []
    writer.close()


def test_a_transaction_whose_record_failed_is_aborted() -> None:
    client = FakeProducer(lambda record: Receipt(OSError("lost")))
    writer = writer_of(client, transactional_id="id")
    with pytest.raises(DeliveryError, match="lost"), writer.transaction():
        writer.write(records(b"1"))
    assert client.did == ["begin", "abort"]
    writer.flush(0.0)  # told once
    client.fenced = True
    with pytest.raises(FencedError), writer.transaction():
        writer.write(records(b"1"))


def test_a_transaction_commits_offsets_after_its_records() -> None:
    client = FakeProducer(lambda record: Receipt())
    writer = writer_of(client, transactional_id="id")
    with writer.transaction() as transaction:
        writer.write(records(b"1"))
        transaction.commit_offsets("g", {T0: 5})
    assert client.did == ["begin", "commit {'g': {('t', 0): 5}}"]
    assert writer.stats.acknowledged == 1


def test_an_empty_poll_of_a_client_that_is_behind_is_no_end() -> None:
    """kafka-python may bring nothing while its fetches are under way."""
    client = FakeConsumer({}, end=9)
    reader = reader_of(client)
    assert reader.poll(0.0) == []
    assert (reader.stats.behind, reader.stats.exhausted) == (4, False)  # two partitions, 2 each
    assert reader.poll(0.0, without=frozenset({"t"})) == []
    assert reader.stats.exhausted  # of what it was to read
    client.end = 7
    assert reader.poll(0.0) == []
    assert (reader.stats.behind, reader.stats.exhausted) == (0, True)
    client.unanswered_s = None
    assert reader.poll(0.0) == []
    assert (reader.stats.behind, reader.stats.exhausted) == (None, False)
    reader.close()
