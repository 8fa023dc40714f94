"""What a broker that is not there yet, goes away, comes back or freezes does to readers and writers."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from streamgp.errors import BrokerUnavailableError, DeliveryError
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Message, Outgoing, Reader, Subscription, TopicSpec
from tests.brokers import SOCKETS_ARE_LEFT, OwnBroker

#: stated bound: reading and writing go on this long after the broker serves again
RECOVERY_S = 6.0
QUICK = {"producer": {"delivery_timeout_ms": 2_000, "request_timeout_ms": 1_500}}

pytestmark = SOCKETS_ARE_LEFT


@pytest.fixture(scope="module")
def served(own_broker: OwnBroker) -> OwnBroker:
    """The module's broker, started on a port chosen beforehand by the first test that needs it."""
    if not own_broker.address:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            own_broker.address = f"127.0.0.1:{probe.getsockname()[1]}"
    return own_broker


@pytest.fixture
def log(served: OwnBroker) -> Iterator[KafkaLog]:
    log = KafkaLog(served.address, QUICK)
    yield log
    log.close()


def rows(topic: str, start: int, stop: int) -> list[Outgoing]:
    return [Outgoing(topic, f"s{i % 5}", b"%d" % i) for i in range(start, stop)]


def read(reader: Reader, wanted: int, patience_s: float) -> list[Message]:
    messages: list[Message] = []
    end = time.monotonic() + patience_s
    while len(messages) < wanted and time.monotonic() < end:
        messages += reader.poll(0.25)
    return messages


def test_without_a_broker_nothing_is_confirmed_and_a_reader_waits(log: KafkaLog) -> None:
    """R05, C14: 100 rows, nobody there: 0 acknowledged, 100 failed; never a success."""
    writer, reader = log.writer(), log.reader([Subscription("t.rows")], group="g")
    begun = time.monotonic()
    writer.write(rows("t.rows", 0, 100))
    with pytest.raises(DeliveryError, match="100 records were not confirmed: no broker answered") as caught:
        writer.flush(10.0)
    assert time.monotonic() - begun < 6.0
    assert len(caught.value.failed) == 100
    assert (writer.stats.acknowledged, writer.stats.failed, writer.stats.connected) == (0, 100, False)
    begun = time.monotonic()
    assert reader.poll(0.3) == []
    assert 0.25 < time.monotonic() - begun < 1.0
    assert (reader.stats.connected, reader.stats.behind) == (False, None)
    reader.commit({("t.rows", 0): 1})
    assert reader.stats.refused_commits == 1
    with pytest.raises(BrokerUnavailableError, match="no broker answers"):
        log.topics()


def test_readers_and_writers_may_start_before_the_broker(served: OwnBroker, log: KafkaLog) -> None:
    """What was sought before the first connection holds; what was written waits within its time."""
    patient = KafkaLog(served.address, {"producer": {"delivery_timeout_ms": 60_000}})
    writer, reader = patient.writer(), patient.reader([Subscription("early.rows")], group="g")
    writer.write(rows("early.rows", 0, 3))
    reader.seek({("early.rows", 0): 1})
    assert reader.poll(0.1) == []
    served.start()
    log.create_topics([TopicSpec("early.rows")])
    writer.flush(20.0)
    assert writer.stats.acknowledged == 3
    assert [m.offset for m in read(reader, 2, 10.0)] == [1, 2]
    patient.close()


def test_work_goes_on_when_the_broker_comes_back(served: OwnBroker, log: KafkaLog) -> None:
    """R03, R07: neither reader nor writer is made anew, and every record is in the log once."""
    log.create_topics([TopicSpec("back.rows", partitions=2)])
    patient = KafkaLog(served.address, {"producer": {"delivery_timeout_ms": 60_000}})
    writer, reader = patient.writer(), patient.reader([Subscription("back.rows")], group="g")
    balanced = patient.reader([Subscription("back.rows")], group="shared", balanced=True)
    writer.write(rows("back.rows", 0, 500))
    seen, shared = read(reader, 500, 15.0), read(balanced, 500, 15.0)
    writer.write(rows("back.rows", 500, 1_000))  # some of these are on their way when it stops
    served.stop()
    writer.write(rows("back.rows", 1_000, 1_500))
    away = time.monotonic()
    while time.monotonic() - away < 2.0:
        seen += reader.poll(0.25)
        shared += balanced.poll(0.25)
    assert reader.poll(0.3) == []
    assert (reader.stats.connected, reader.stats.behind) == (False, None)
    reader.commit({("back.rows", 0): 1})
    assert reader.stats.refused_commits == 1
    served.start()
    begun = time.monotonic()
    seen += read(reader, 1_500 - len(seen), 30.0)
    assert time.monotonic() - begun < RECOVERY_S
    writer.flush(30.0)
    shared += read(balanced, 1_500 - len(shared), 30.0)
    for messages in (seen, shared):
        assert Counter(int(m.value or b"") for m in messages) == Counter(range(1_500))
    assert (writer.stats.acknowledged, writer.stats.failed) == (1_500, 0)
    patient.close()


def test_a_partial_outage_is_told_and_only_the_failed_are_sent_again(served: OwnBroker, log: KafkaLog) -> None:
    """C14, R05: up for the first 40 of 100: acknowledged + failed = 100; a resume completes the log."""
    log.create_topics([TopicSpec("part.rows")])
    writer = log.writer()
    writer.write(rows("part.rows", 0, 40))
    writer.flush(10.0)
    served.stop()
    writer.write(rows("part.rows", 40, 100))
    with pytest.raises(DeliveryError) as caught:
        writer.flush(15.0)
    assert (writer.stats.acknowledged, writer.stats.failed) == (40, 60)
    assert caught.value.pending == 0
    served.start()
    resumed = log.writer()
    resumed.write([record for record, _ in caught.value.failed])
    resumed.flush(20.0)
    messages = read(log.reader([Subscription("part.rows")]), 100, 15.0)
    assert sorted(int(m.value or b"") for m in messages) == list(range(100))


def test_a_broker_that_froze_is_no_connection_while_it_lasts_whether_or_not_anybody_polls(
    served: OwnBroker, log: KafkaLog
) -> None:
    """R14, R04: connections stand, nobody answers: kafka-python calls that connected for 30 s."""
    log.create_topics([TopicSpec("silent.rows")])
    writer, reader = log.writer(), log.reader([Subscription("silent.rows")])
    writer.write(rows("silent.rows", 0, 5))
    writer.flush(10.0)
    assert len(read(reader, 5, 10.0)) == 5
    assert read(reader, 1, 1.5) == []
    assert reader.stats.connected
    begun = time.monotonic()
    served.freeze()
    try:
        while reader.stats.connected and time.monotonic() - begun < 20.0:
            time.sleep(0.05)
        silent_s = time.monotonic() - begun
        assert 4.0 < silent_s < 8.0
        assert reader.stats.silent_s == pytest.approx(silent_s, abs=1.5)
        assert reader.poll(0.3) == []
        assert (reader.stats.connected, reader.stats.exhausted, reader.stats.behind) == (False, False, None)
    finally:
        served.thaw()
    writer.write(rows("silent.rows", 5, 6))
    assert len(read(reader, 1, RECOVERY_S)) == 1
    assert reader.stats.connected
    assert (reader.stats.silent_s or 0.0) < 3.0


def test_closing_does_not_wait_for_a_broker_that_froze(served: OwnBroker, log: KafkaLog) -> None:
    """R14: connections stand, nobody answers; each close takes less than 5 s."""
    log.create_topics([TopicSpec("frozen.rows")])
    writer, reader = log.writer(), log.reader([Subscription("frozen.rows")], group="g")
    balanced = log.reader([Subscription("frozen.rows")], group="shared", balanced=True)
    writer.write(rows("frozen.rows", 0, 5))
    writer.flush(10.0)
    assert len(read(reader, 5, 10.0)) == len(read(balanced, 5, 10.0)) == 5
    served.freeze()
    try:
        writer.write(rows("frozen.rows", 5, 10))
        assert reader.poll(0.3) == []
        for closing in (writer, reader, balanced):
            begun = time.monotonic()
            closing.close()
            assert time.monotonic() - begun < 5.0, closing
    finally:
        served.thaw()
