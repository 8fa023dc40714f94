"""Topics, keys and order."""

from __future__ import annotations

import time

import pytest

from streamgp.wire.log import Log, Message, Outgoing, Subscription, TopicSpec
from streamgp.wire.partitioner import partition_of
from tests.wire.conformance.common import STATIONS, put, quiet, read, rows


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
