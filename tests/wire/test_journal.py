"""The journal: calls come back with the very messages that they had."""

from __future__ import annotations

import pytest

from streamgp.errors import CheckpointError
from streamgp.wire.clock import SystemClock
from streamgp.wire.journal import Again, Call, Calls, Segment, crc_of, decode_segment, encode_segment
from streamgp.wire.log import Outgoing, Subscription, TopicSpec
from streamgp.wire.memory import MemoryLog

P = ("t", 0)


def filled(count: int) -> MemoryLog:
    log = MemoryLog()
    log.create_topics([TopicSpec("t")])
    log.writer().write([Outgoing("t", "k", b"%d" % i) for i in range(count)])
    return log


def segment_of(calls: Calls, at: int) -> Segment:
    made = calls.segment("agent.A", number=1, positions={P: at}, crc=0)
    return decode_segment(encode_segment(made))


def test_batches_are_the_same_again_without_what_was_refused() -> None:
    log = filled(12)
    reader = log.reader([Subscription("t")])
    first, second = reader.poll(0.0, 7), reader.poll(0.0, 5)
    calls = Calls()
    calls.add(0.5, [m for m in first if m.offset not in (2, 6)], without=[first[2], first[6]])
    calls.add(0.7, second)
    segment = segment_of(calls, 12)
    again = Again(log.reader([Subscription("t")]), SystemClock())
    batches = [[m.offset for m in again.messages(segment, call)] for call in segment.calls]
    assert batches == [[0, 1, 3, 4, 5], [7, 8, 9, 10, 11]]
    assert [call.now_s for call in segment.calls] == [0.5, 0.7]
    assert again.missing == 0


def test_what_retention_removed_is_counted() -> None:
    log = filled(10)
    calls = Calls()
    calls.add(0.0, log.reader([Subscription("t")]).poll(0.0))
    log.delete_records({P: 4})
    again = Again(log.reader([Subscription("t")]), SystemClock())
    segment = segment_of(calls, 10)
    assert [m.offset for m in again.messages(segment, segment.calls[0])] == list(range(4, 10))
    assert again.missing == 4


def test_waiting_takes_no_room_and_what_is_due_is_kept() -> None:
    calls = Calls()
    for second in range(1000):
        calls.add(float(second), [], inert=second != 500)
    assert [c.now_s for c in segment_of(calls, 0).calls] == [0.0, 499.0, 500.0, 501.0, 999.0]


def test_the_checksum_sees_order_topic_key_and_value() -> None:
    a, b = Outgoing("t", "a", b"1"), Outgoing("t", "b", b"2")
    seen = {crc_of(r) for r in ([a, b], [b, a], [a], [Outgoing("u", "a", b"1"), b], [Outgoing("t", "a", b"3"), b])}
    assert len(seen) == 5
    assert crc_of([b], crc_of([a])) == crc_of([a, b])


@pytest.mark.parametrize("data", [None, b"", b"\x80\x04K\x01.", b"\x93\x01\x02\x03"])
def test_anything_else_is_no_segment(data: bytes | None) -> None:
    """C43."""
    with pytest.raises(CheckpointError, match="no segment"):
        decode_segment(data)


def test_a_newer_segment_is_named() -> None:
    segment = Segment(v=9, role="agent.A", number=1, places=(), positions=(), calls=(), crc=0)
    with pytest.raises(CheckpointError, match="version 9"):
        decode_segment(encode_segment(segment))


def test_looks_at_the_time_alone_take_no_room_between_empty_polls() -> None:
    """What is due in them is kept, with its kind."""
    calls = Calls()
    for second in range(1000):
        calls.add(float(second), [], inert=second != 500, kind="work" if second % 2 else "step")
    kept = segment_of(calls, 0).calls
    assert [(c.now_s, c.kind) for c in kept][:3] == [(0.0, "step"), (498.0, "step"), (500.0, "step")]
    assert kept[-1] == Call(998.0)
    assert len(kept) <= 6
    calls.add(1000.0, [], kind="work")
    assert segment_of(calls, 0).calls[-1] == Call(1000.0, (), "work")
