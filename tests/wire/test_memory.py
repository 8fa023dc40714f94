"""What only the embedded log has: faults as inputs, retention by count and time, compaction, bounded memory."""

from __future__ import annotations

import threading
import tracemalloc

import pytest

from streamgp.errors import BrokerUnavailableError, DeliveryError, LogError
from streamgp.wire.clock import ManualClock
from streamgp.wire.log import Outgoing, Subscription, TopicSpec
from streamgp.wire.memory import Crash, Duplicate, MemoryLog, SimulatedCrash


def one_topic(**spec: object) -> MemoryLog:
    log = MemoryLog(clock=ManualClock())
    log.create_topics([TopicSpec("t", **spec)])  # type: ignore[arg-type]  # a test's own keyword arguments
    return log


def test_a_crash_ends_the_reader_before_the_record_and_happens_once() -> None:
    """R25: what was read and not committed is read again by the successor, which does not crash."""
    log = one_topic()
    log.feed("t", "A", [b"1", b"2", Crash(), b"3"])
    reader = log.reader([Subscription("t")], group="g")
    assert [m.value for m in reader.poll(0.0)] == [b"1", b"2"]
    reader.commit({("t", 0): 1})
    with pytest.raises(SimulatedCrash, match="offset 2"):
        reader.poll(0.0)
    with pytest.raises(LogError):
        reader.poll(0.0)
    assert [m.value for m in log.reader([Subscription("t")], group="g").poll(0.0)] == [b"2", b"3"]


def test_no_handler_of_errors_catches_a_crash() -> None:
    assert not issubclass(SimulatedCrash, Exception)


def test_a_crash_can_be_meant_for_one_group() -> None:
    log = one_topic()
    log.feed("t", "A", [b"1", Crash(group="victim"), b"2"])
    assert len(log.reader([Subscription("t")], group="other").poll(0.0)) == 2
    victim = log.reader([Subscription("t")], group="victim")
    assert len(victim.poll(0.0)) == 1
    with pytest.raises(SimulatedCrash):
        victim.poll(0.0)


def test_a_crashed_member_leaves_its_partitions_to_the_others() -> None:
    log = one_topic(partitions=2)
    log.feed("t", "A", [Crash()])
    one = log.reader([Subscription("t")], group="g", balanced=True)
    two = log.reader([Subscription("t")], group="g", balanced=True)
    crashed = 0
    for reader in (one, two):
        try:
            reader.poll(0.0)
        except SimulatedCrash:
            crashed += 1
            survivor = two if reader is one else one
    assert crashed == 1
    survivor.poll(0.0)
    assert len(survivor.ends()) == 2


def test_a_duplicate_has_an_offset_of_its_own() -> None:
    """R07: what a producer without idempotence does to the log."""
    log = one_topic()
    log.feed("t", "A", [Duplicate(), b"1", Duplicate(), b"2"])
    messages = log.reader([Subscription("t")]).poll(0.0)
    assert [(m.offset, m.value) for m in messages] == [(0, b"1"), (1, b"1"), (2, b"2")]


def test_retention_by_count_reports_the_gap() -> None:
    log = one_topic(retention_records=10)
    reader = log.reader([Subscription("t")])
    log.feed("t", "A", [b"%d" % i for i in range(4)])
    assert len(reader.poll(0.0)) == 4
    log.feed("t", "A", [b"%d" % i for i in range(4, 5000)])
    messages = reader.poll(0.0)
    assert [m.offset for m in messages] == list(range(4990, 5000))
    assert reader.stats.lost == {("t", 0): 4986}
    assert reader.stats.behind == 0


def test_retention_by_time_goes_by_the_time_of_writing() -> None:
    clock = ManualClock(start_ms=1_000_000)
    log = MemoryLog(clock=clock)
    log.create_topics([TopicSpec("t", retention_ms=60_000)])
    log.feed("t", "A", [b"old"])
    clock.advance(50.0)
    log.feed("t", "A", [b"new"])
    clock.advance(20.0)
    reader = log.reader([Subscription("t")])
    reader.seek({("t", 0): 0})
    assert [m.value for m in reader.poll(0.0)] == [b"new"]
    assert reader.stats.lost == {("t", 0): 1}
    clock.advance(1000.0)
    assert log.reader([Subscription("t")]).poll(0.0) == []


def test_compaction_keeps_the_newest_of_each_key_under_its_own_offset() -> None:
    log = one_topic(compacted=True, partitions=1)
    for i in range(1000):
        log.feed("t", f"k{i % 5}", [b"%d" % i])
    log.feed("t", "k0", [None])
    log.partitions("t")[0].compact()
    messages = log.reader([Subscription("t")]).poll(0.0)
    assert [(m.offset, m.key, m.value) for m in messages] == [
        (996, "k1", b"996"),
        (997, "k2", b"997"),
        (998, "k3", b"998"),
        (999, "k4", b"999"),
        (1000, "k0", None),
    ]
    reader = log.reader([Subscription("t")])
    reader.seek({("t", 0): 998})
    assert [m.offset for m in reader.poll(0.0)] == [998, 999, 1000]
    assert not reader.stats.lost


def test_memory_is_bounded_if_asked() -> None:
    log = MemoryLog(retention_records=100)
    log.create_topics([TopicSpec("t", partitions=2), TopicSpec("c", compacted=True)])
    writer = log.writer()

    def write(start: int, stop: int) -> None:
        for i in range(start, stop):
            writer.write([Outgoing(topic, f"s{i % 7}", b"%032d" % i) for topic in ("t", "c")])

    write(0, 3_000)
    tracemalloc.start()
    write(3_000, 4_000)
    base = tracemalloc.get_traced_memory()[0]
    write(4_000, 14_000)
    grown = tracemalloc.get_traced_memory()[0] - base
    tracemalloc.stop()
    assert grown < 400_000  # 20,000 messages of over 200 bytes would be ten times that


def test_an_outage_is_seen_as_one() -> None:
    """R05, C14: nothing is read, nothing is confirmed, and nobody is told that it was."""
    log = one_topic()
    reader, writer = log.reader([Subscription("t")], group="g"), log.writer()
    writer.write([Outgoing("t", "A", b"1")])
    with log.outage():
        writer.write([Outgoing("t", "A", b"2")] * 3)
        with pytest.raises(DeliveryError, match="3 records"):
            writer.flush(1.0)
        assert reader.poll(0.0) == []
        assert reader.stats.behind is None
        assert not reader.stats.connected
        reader.commit({("t", 0): 1})
        assert reader.stats.refused_commits == 1
        with pytest.raises(BrokerUnavailableError):
            reader.ends()
    assert (writer.stats.acknowledged, writer.stats.failed) == (1, 3)
    assert len(reader.poll(0.0)) == 1
    assert reader.stats.connected


def test_threads_write_and_read_together() -> None:
    log = one_topic(partitions=3)
    reader = log.reader([Subscription("t")])
    per_thread = 2_000

    def produce(name: str) -> None:
        writer = log.writer()
        for i in range(per_thread):
            writer.write([Outgoing("t", name, b"%d" % i)])

    threads = [threading.Thread(target=produce, args=(f"s{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    seen: dict[str, list[int]] = {}
    while sum(map(len, seen.values())) < 4 * per_thread:
        for message in reader.poll(5.0):
            seen.setdefault(message.key or "", []).append(int(message.value or b""))
    for thread in threads:
        thread.join()
    assert all(numbers == list(range(per_thread)) for numbers in seen.values())


def test_a_flood_on_one_partition_does_not_starve_another() -> None:
    log = one_topic(partitions=2)
    log.writer().write([Outgoing("t", "flood", b"x", partition=0)] * 10_000)
    log.writer().write([Outgoing("t", "calm", b"x", partition=1)])
    reader = log.reader([Subscription("t")])
    first = [m.partition for _ in range(3) for m in reader.poll(0.0, 100)]
    assert 1 in first


def test_wrong_places_are_refused() -> None:
    log = one_topic(partitions=2)
    with pytest.raises(LogError, match="no partition 7"):
        log.writer().write([Outgoing("t", "A", b"x", partition=7)])
    with pytest.raises(LogError, match="no partition 7"):
        log.reader([Subscription("t")]).seek({("t", 7): 0})
    with pytest.raises(ValueError, match="at least 1"):
        log.create_topics([TopicSpec("u", partitions=0)])
    with pytest.raises(ValueError, match="beyond the end"):
        log.delete_records({("t", 0): 1})
