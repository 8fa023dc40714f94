"""What our reader and writer cost beside a bare kafka-python loop that does the same, in one run each."""

from __future__ import annotations

import json
import time

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from streamgp.wire.codec import decode, encode
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Outgoing, Subscription, TopicSpec
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Observation

COUNT = 40_000
RECORDS = [
    encode(Observation(station="Malin Head", time_ms=10**12 + i, x={"a": 1.5, "b": i / 3}, y=i / 7))
    for i in range(COUNT)
]


def bare_read(broker: str, topic: str) -> float:
    """Records a second of a poll loop that decodes with the standard library."""
    consumer = KafkaConsumer(bootstrap_servers=broker, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, 0)])
    seen, start = 0, time.perf_counter()
    while seen < COUNT:
        for records in consumer.poll(timeout_ms=1_000).values():
            for record in records:
                json.loads(record.value)
            seen += len(records)
    rate = COUNT / (time.perf_counter() - start)
    consumer.close()
    return rate


def our_read(log: KafkaLog, topic: str) -> float:
    reader = log.reader([Subscription(topic)], group="bench")
    reader.seek({(topic, 0): 0})
    reader.poll(0.0)
    seen, start = 0, time.perf_counter()
    while seen < COUNT:
        messages = reader.poll(1.0)
        for message in messages:
            decode(message.value, Observation)
        seen += len(messages)
    rate = COUNT / (time.perf_counter() - start)
    reader.close()
    return rate


@pytest.mark.bench
def test_reading_stays_close_to_a_bare_poll_loop(broker: str, prefix: str) -> None:
    """The agent in total must reach half of the bare rate, so its reader may not take much of that."""
    log, topic = KafkaLog(broker), f"{prefix}.rows"
    log.create_topics([TopicSpec(topic)])
    writer = log.writer()
    writer.write([Outgoing(topic, "Malin Head", value) for value in RECORDS])
    writer.flush(60.0)
    rounds = [(bare_read(broker, topic), our_read(log, topic)) for _ in range(3)]
    bare, ours = (max(rates) for rates in zip(*rounds, strict=True))
    print(f"\nread and decode: bare {bare:,.0f} a second, ours {ours:,.0f}, ratio {ours / bare:.2f}")
    log.close()
    assert ours > 0.7 * bare


@pytest.mark.bench
def test_writing_stays_close_to_a_bare_producer(broker: str, prefix: str) -> None:
    log, topic, count = KafkaLog(broker), f"{prefix}.rows", COUNT // 2
    log.create_topics([TopicSpec(topic, partitions=12)])
    rounds = []
    for _ in range(3):
        producer = KafkaProducer(bootstrap_servers=broker)
        producer.partitions_for(topic)
        start = time.perf_counter()
        futures = [producer.send(topic, value=v, key=b"s%d" % (i % 12)) for i, v in enumerate(RECORDS[:count])]
        producer.flush()
        assert all(future.succeeded() for future in futures)
        bare = count / (time.perf_counter() - start)
        producer.close()
        writer = log.writer()
        writer.write([Outgoing(topic, "s0", b"first")])
        writer.flush(10.0)
        start = time.perf_counter()
        for first in range(0, count, 100):
            writer.write([Outgoing(topic, f"s{i % 12}", RECORDS[i]) for i in range(first, first + 100)])
        writer.flush(60.0)
        rounds.append((bare, count / (time.perf_counter() - start)))
        writer.close()
    bare, ours = (max(rates) for rates in zip(*rounds, strict=True))
    print(f"\nwrite and confirm: bare {bare:,.0f} a second, ours {ours:,.0f}, ratio {ours / bare:.2f}")
    log.close()
    assert ours > 0.7 * bare


@pytest.mark.bench
def test_a_transaction_costs_milliseconds(broker: str, prefix: str) -> None:
    """The commit interval trades delay against rate: both are printed."""
    log, topic = KafkaLog(broker), f"{prefix}.rows"
    log.create_topics([TopicSpec(topic)])
    writer, times = log.writer(transactional_id=prefix), []
    for _ in range(20):
        start = time.perf_counter()
        with writer.transaction() as transaction:
            writer.write([Outgoing(topic, "A", value) for value in RECORDS[:100]])
            transaction.commit_offsets("bench", {(topic, 0): 0})
        times.append(time.perf_counter() - start)
    middle = sorted(times)[len(times) // 2]
    print(f"\ntransaction of 100 records with offsets: {1e3 * middle:.0f} ms, {100 / middle:,.0f} records a second")
    log.close()
    assert middle < 1.0


@pytest.mark.bench
def test_the_embedded_log_is_faster_than_any_broker() -> None:
    log = MemoryLog(retention_records=10_000)
    log.create_topics([TopicSpec("t", partitions=12)])
    reader, writer = log.reader([Subscription("t")], group="g"), log.writer()
    start, seen = time.perf_counter(), 0
    for first in range(0, COUNT, 100):
        writer.write([Outgoing("t", f"s{i % 12}", RECORDS[i]) for i in range(first, first + 100)])
        seen += len(reader.poll(0.0))
    rate = seen / (time.perf_counter() - start)
    print(f"\nembedded log, write and read: {rate:,.0f} records a second")
    assert seen == COUNT
    assert rate > 100_000
