"""What Kafka alone can do to us: poll limits, forks, signals, foreign records, growth, retention."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.record import default_records

from streamgp.errors import LogError, SettingsError
from streamgp.wire import kafka_reader
from streamgp.wire.codec import decode, encode
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Outgoing, Subscription, TopicSpec
from streamgp.wire.records import Observation
from streamgp.wire.topics import topic_plan
from tests.wire.conformance.common import PATIENCE_S, put, read, rows, until, write_and_flush

Make: TypeAlias = Callable[..., KafkaLog]


@pytest.fixture
def log(broker: str) -> Iterator[KafkaLog]:
    log = KafkaLog(broker)
    yield log
    log.close()


@pytest.fixture
def topic(log: KafkaLog, prefix: str) -> str:
    log.create_topics([TopicSpec(f"{prefix}.rows", partitions=3)])
    return f"{prefix}.rows"


@pytest.fixture
def make(broker: str) -> Iterator[Make]:
    """Makes logs with settings, and closes them."""
    made: list[KafkaLog] = []

    def make(**table: Any) -> KafkaLog:
        made.append(KafkaLog(broker, table))
        return made[-1]

    yield make
    for log in made:
        log.close()


# -- work that takes longer than a poll limit


@pytest.mark.parametrize("balanced", [False, True])
def test_work_longer_than_the_poll_limit_costs_nothing(make: Make, topic: str, balanced: bool) -> None:
    """C16, R01: limit 300 ms, the 5th of 10 records takes 900 ms; 10 are learned, 10 committed, nothing raised."""
    log = make(consumer={"heartbeat_interval_ms": 200, "max_poll_interval_ms": 300})
    put(log, rows(topic, 10, keys=("Dublin",)))
    reader = log.reader([Subscription(topic)], group=f"{topic}-g", balanced=balanced)
    learned: list[int] = []
    end = time.monotonic() + 20.0
    while len(learned) < 10 and time.monotonic() < end:
        for message in reader.poll(0.2, 1):
            learned.append(int(message.value or b""))
            if len(learned) == 5:
                time.sleep(0.9)
            reader.commit({(message.topic, message.partition): message.offset + 1})
    extra = [m for _ in range(5) for m in reader.poll(0.2)]
    assert learned == list(range(10))
    assert extra == []
    reader.commit({(message.topic, message.partition): 10})
    reader.close()
    successor = log.reader([Subscription(topic)], group=f"{topic}-g", balanced=balanced)
    until(lambda: successor.stats.behind == 0, successor)
    assert successor.stats.messages == 0
    assert successor.stats.positions[message.topic, message.partition] == 10


def test_silence_longer_than_the_session_is_not_the_end(make: Make, topic: str) -> None:
    """R02: one reading, silence for twice the session timeout, one reading; both come once."""
    log = make(consumer={"heartbeat_interval_ms": 200, "session_timeout_ms": 1_000})
    reader = log.reader([Subscription(topic)], group=f"{topic}-g", balanced=True)
    put(log, [Outgoing(topic, "Dublin", b"1")])
    assert [m.value for m in read(reader, 1)] == [b"1"]
    time.sleep(2.2)
    put(log, [Outgoing(topic, "Dublin", b"2")])
    messages = read(reader, 1)
    assert [m.value for m in messages] == [b"2"]
    reader.commit({(messages[0].topic, messages[0].partition): 2})
    assert reader.stats.refused_commits == 0


# -- processes


def test_a_client_made_before_a_fork_says_so_at_once(log: KafkaLog, topic: str) -> None:
    """R15: its threads live in the parent only; no minute of silence."""
    reader, writer = log.reader([Subscription(topic)], group="g"), log.writer()
    reader.poll(1.0)
    writer.write([Outgoing(topic, "Dublin", b"x")])
    writer.flush(10.0)

    def child(answers: Any) -> None:
        for use in (lambda: reader.poll(5.0), lambda: writer.write([Outgoing(topic, "Dublin", b"y")])):
            begun = time.monotonic()
            try:
                use()
            except LogError as error:
                answers.put((str(error), time.monotonic() - begun))
        answers.close()
        answers.join_thread()
        os._exit(0)

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=child, args=(answers,))
    process.start()
    for text, seconds in (answers.get(timeout=10), answers.get(timeout=10)):
        assert "fork" in text
        assert seconds < 1.0
    process.join(10)
    assert len(read(reader, 1)) == 1  # the parent's own go on


def test_each_of_four_forked_children_makes_its_own(log: KafkaLog, broker: str, topic: str) -> None:
    """R15: readers and writers made and not yet used may cross a fork."""
    writer = log.writer()

    def child(number: int) -> None:
        writer.write([Outgoing(topic, f"s{number}", b"%d" % number)])
        writer.flush(15.0)
        os._exit(0)

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=child, args=(n,)) for n in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert sorted(m.value or b"" for m in read(log.reader([Subscription(topic)]), 4)) == [b"0", b"1", b"2", b"3"]


def test_a_signal_handler_may_close_an_idle_reader(broker: str, topic: str) -> None:
    """R14, C47: SIGTERM to an idle process whose handler closes the reader itself: exit 0 within 5 s."""
    program = textwrap.dedent(
        """
        import signal, sys
        from streamgp.wire.kafka import KafkaLog
        from streamgp.wire.log import Subscription
        log = KafkaLog(sys.argv[1])
        reader = log.reader([Subscription(sys.argv[2])], group="g", balanced=sys.argv[3] == "balanced")
        signal.signal(signal.SIGTERM, lambda *_: reader.close())
        while not reader.poll(1.0) and reader.stats.behind is None:
            pass
        print("idle", flush=True)
        assert reader.poll(600.0) == []
        """
    )
    for mode in ("alone", "balanced"):
        command = [sys.executable, "-c", program, broker, topic, mode]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == b"idle"
            time.sleep(0.3)
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert time.monotonic() - begun < 5.0


# -- records


def test_foreign_bytes_come_through_as_they_are(log: KafkaLog, broker: str, topic: str) -> None:
    """R09, R65: what is no record of ours is raw bytes; none of the batch around it is lost."""
    producer = KafkaProducer(bootstrap_servers=broker)
    for key, value in ((b"\xff\xfe", b"\x80\x04x"), (None, b"no key"), (b"A", None), (b"A", b"{}")):
        producer.send(topic, key=key, value=value, partition=1)
    producer.close(timeout=10)
    messages = read(log.reader([Subscription(topic)]), 4)
    assert [m.value for m in messages] == [b"\x80\x04x", b"no key", None, b"{}"]
    assert [m.key for m in messages] == ["\ufffd\ufffd", None, "A", "A"]


def test_any_language_can_read_what_we_write(log: KafkaLog, broker: str, topic: str) -> None:
    """R13, R30: a stock consumer finds the plain station id as key, strict JSON as value, and no codec of ours."""
    put(log, [Outgoing(topic, "Roche's Pt", encode(Observation(station="Roche's Pt", time_ms=5, y=1.5)))])
    consumer = KafkaConsumer(topic, bootstrap_servers=broker, auto_offset_reset="earliest", consumer_timeout_ms=8000)
    record = next(consumer)
    consumer.close()

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    assert record.key == b"Roche's Pt"
    assert json.loads(record.value, parse_constant=refuse)["y"] == 1.5


def test_replayed_history_survives_retention(log: KafkaLog, prefix: str) -> None:
    """Kafka's retention goes by the record's own time: that is the time of sending; 1961 stands in the payload."""
    topic = f"{prefix}.observations"
    quick_retention = {"segment.ms": "100", "segment.bytes": "1048576", "file.delete.delay.ms": "0"}
    log.create_topics([TopicSpec(topic, retention_ms=3_600_000, config=quick_retention)])
    past, future = -283_996_800_000, 4_102_444_800_000
    put(log, [Outgoing(topic, "A", encode(Observation(station="A", time_ms=t, y=1.0))) for t in (past, future)])
    messages = read(log.reader([Subscription(topic)]), 2)
    assert [decode(m.value, Observation).time_ms for m in messages] == [past, future]
    assert all(abs(m.timestamp_ms - time.time() * 1000) < 60_000 for m in messages)


def test_the_whole_plan_can_be_made(log: KafkaLog, broker: str, prefix: str) -> None:
    plan = topic_plan(prefix)
    assert sorted(log.create_topics(plan)) == sorted(spec.name for spec in plan)
    sizes = log.topics()
    assert all(sizes[spec.name] == spec.partitions for spec in plan)
    assert log.create_topics(plan) == []


class NotText(str):
    """A header's name as other clients may write it."""

    def encode(self, *_: str) -> bytes:
        return b"h\xff"


def test_headers_that_are_no_text_stop_nobody(log: KafkaLog, broker: str, topic: str) -> None:
    """R09: the broker takes any bytes for the name of a header; what follows is read, and so is that record."""
    producer = KafkaProducer(bootstrap_servers=broker)
    for value in (b"before", b"bad", b"between", b"worse", b"after"):
        headers = [(NotText("h"), b"1")] if value in (b"bad", b"worse") else []
        producer.send(topic, value, headers=[*headers, ("good", b"2")], partition=0)
    producer.close()
    found = read(log.reader([Subscription(topic)]), 5)
    assert [m.value for m in found] == [b"before", b"bad", b"between", b"worse", b"after"]
    assert [name for name, _ in found[1].headers] == ["h\ufffd", "good"]
    assert [m.offset for m in found] == list(range(5))


def test_a_batch_that_cannot_be_read_ends_the_poll_and_is_read_later(
    log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R04: nothing is skipped, and nothing waits for ever; when the broker has mended it, it goes on there."""
    reader = log.reader([Subscription(topic)])
    reader.poll(1.0)
    put(log, rows(topic, 9))
    with monkeypatch.context() as damaged:
        damaged.setattr(default_records.DefaultRecordBatch, "validate_crc", lambda _: False)
        until(lambda: reader.stats.errors > 1, reader)
    assert len(read(reader, 9)) == 9


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_are_read_however_they_are_compressed(make: Make, log: KafkaLog, topic: str, codec: str) -> None:
    put(make(producer={"compression_type": codec}), rows(topic, 300))
    assert len(read(log.reader([Subscription(topic)]), 300)) == 300


def test_an_unknown_compression_is_an_error_that_says_so(
    make: Make, log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(make(producer={"compression_type": "zstd"}), rows(topic, 300))
    monkeypatch.setattr(default_records.codecs, "has_zstd", lambda: False)
    with pytest.raises(LogError, match=r"compressed in a way that is not known here: .*zstd"):
        read(log.reader([Subscription(topic)]), 300)


# -- growth


def test_partitions_that_are_added_are_read_and_a_moved_key_is_refused(
    make: Make, broker: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_reader, "GROWTH_S", 0.2)
    log = make(consumer={"heartbeat_interval_ms": 200, "metadata_max_age_ms": 300})
    put(log, rows(topic, 30))
    whole = log.reader([Subscription(topic)])
    moving = log.reader([Subscription(topic, key="Dublin")])
    staying = log.reader([Subscription(topic, key="key-0")])
    read(whole, 30)
    moving.poll(1.0)
    staying.poll(1.0)
    admin = KafkaAdminClient(bootstrap_servers=broker)
    admin.create_partitions({topic: 40})
    admin.close()
    with pytest.raises(LogError, match=r"grew from 3 to 40 partitions and the records of 'Dublin' moved"):
        until(lambda: False, moving)
    until(lambda: len(whole.ends()) == 40, whole)
    put(log, [Outgoing(topic, "Dublin", b"new", partition=p) for p in range(3, 40)])
    assert len(read(whole, 37)) == 37


def test_a_rebalance_that_outlasts_a_poll_comes_to_its_end(make: Make, broker: str, topic: str) -> None:
    """R04: a member that polls for a moment at a time is given what was added, and makes room for another member."""
    log = make(consumer={"heartbeat_interval_ms": 200, "metadata_max_age_ms": 300})
    member = log.reader([Subscription(topic)], group=f"{topic}-g", balanced=True)
    until(lambda: len(member.stats.positions) == 3, member)
    admin = KafkaAdminClient(bootstrap_servers=broker)
    admin.create_partitions({topic: 6})
    admin.close()
    end = time.monotonic() + PATIENCE_S
    while len(member.stats.positions) < 6:
        assert time.monotonic() < end, "the rebalance came to no end"
        member.poll(0.001)
        time.sleep(0.05)
    other = log.reader([Subscription(topic)], group=f"{topic}-g", balanced=True)
    until(lambda: len(member.ends()) == len(other.ends()) == 3, member, other)


# -- settings


def test_compression_and_batching_pass_through(make: Make, topic: str) -> None:
    log = make(fetch_max_wait_ms=100, producer={"compression_type": "gzip", "linger_ms": 5})
    put(log, rows(topic, 300))
    read(log.reader([Subscription(topic)]), 300)


@pytest.mark.parametrize("setting", [{"acks": 1}, {"compression_type": "nonsense"}])
def test_what_the_producer_refuses_is_a_settings_error(make: Make, topic: str, setting: dict[str, Any]) -> None:
    log = make(producer=setting)
    writer = log.writer()
    with pytest.raises(SettingsError, match="refuses its settings"):
        write_and_flush(writer, rows(topic, 1))


@pytest.mark.parametrize("setting", [{"isolation_level": "nonsense"}, {"request_timeout_ms": 10}])
def test_what_the_consumer_refuses_is_a_settings_error(make: Make, topic: str, setting: dict[str, Any]) -> None:
    log = make(consumer=setting)
    with pytest.raises(SettingsError, match="refuses its settings"):
        log.reader([Subscription(topic)]).poll(10.0)


def test_a_port_that_is_no_broker_is_told_apart_from_no_port(topic: str) -> None:
    """A TLS listener, a controller or another service: it accepts connections and does not answer as Kafka."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        log = KafkaLog(f"127.0.0.1:{server.getsockname()[1]}", {"bootstrap_timeout_ms": 500})
        with pytest.raises(LogError, match="accepts connections but does not answer"):
            log.topics()
