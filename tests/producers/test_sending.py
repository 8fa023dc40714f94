"""Pacing and sending: when, in which order, and what became of each record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from producers.pacing import Pacer
from producers.resume import read_left, write_left
from producers.sending import Sender, outgoing
from streamgp.errors import DatasetError, DeliveryError, SettingsError
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import decode
from streamgp.wire.log import Outgoing, Subscription, TopicSpec, WriterStats
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Observation

TOPIC = "p.observations"


def _rows(n: int, *, step_ms: int = 60_000) -> list[tuple[int, Outgoing]]:
    stations = ("A", "B", "Ärger")
    made = [Observation(station=stations[i % 3], time_ms=i * step_ms, y=float(i)) for i in range(n)]
    return [(o.time_ms, outgoing(o, TOPIC)) for o in made]


def _log() -> MemoryLog:
    log = MemoryLog()
    log.create_topics([TopicSpec(TOPIC)])
    return log


def _messages(log: MemoryLog) -> list[Observation]:
    return [decode(m.value, Observation) for m in log.reader([Subscription(TOPIC)]).poll(0.0, 10**6)]


def _sender(log: MemoryLog, pacer: Pacer, *, clock: ManualClock | None = None, stop_after_s: float = 1e9) -> Sender:
    def pause(seconds: float) -> bool:
        if clock is not None:
            clock.advance(seconds)
            return clock.monotonic_s() >= stop_after_s
        return False

    return Sender(log.writer(), pacer, pause=pause, timeout_s=1.0)


def test_everything_arrives_in_order_with_the_station_as_plain_key() -> None:
    log = _log()
    outcome = _sender(log, Pacer(ManualClock())).send(_rows(1203))
    assert (outcome.sent, outcome.acknowledged, outcome.failed, outcome.left) == (1203, 1203, 0, [])
    messages = log.reader([Subscription(TOPIC)]).poll(0.0, 10**6)
    assert [m.key for m in messages[:3]] == ["A", "B", "Ärger"]
    assert [o.y for o in _messages(log)] == [float(i) for i in range(1203)]


@pytest.mark.parametrize(
    ("how", "lasts_s"), [({"speed": 60.0}, 99.0), ({"speed": 3600.0}, 1.65), ({"rate": 10.0}, 9.9), ({}, 0.0)]
)
def test_pace_changes_the_time_it_takes_and_nothing_else(how: dict[str, float], lasts_s: float) -> None:
    clock, log = ManualClock(), _log()
    outcome = _sender(log, Pacer(clock, **how), clock=clock).send(_rows(100))
    assert outcome.acknowledged == 100
    assert clock.monotonic_s() == pytest.approx(lasts_s, abs=1e-6)
    assert [o.y for o in _messages(log)] == [float(i) for i in range(100)]


def test_a_slow_moment_is_caught_up() -> None:
    clock = ManualClock()
    pacer = Pacer(clock, rate=10.0)
    assert pacer.due_s(0, 0) == 0.0
    clock.advance(5.0)
    assert [pacer.due_s(i, 0) for i in (1, 30, 50)] == [0.0, 0.0, 0.0]
    assert pacer.due_s(60, 0) == pytest.approx(1.0)


@pytest.mark.parametrize("wrong", [{"speed": 0.0}, {"rate": -1.0}, {"speed": 1.0, "rate": 1.0}, {"rate": float("inf")}])
def test_paces_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        Pacer(ManualClock(), **wrong)


def test_nobody_there_means_all_failed_and_all_left(tmp_path: Path) -> None:
    """C14, R05: the first run, and the run that sends only what failed."""
    log = _log()
    log.available = False
    rows = _rows(100)
    outcome = _sender(log, Pacer(ManualClock())).send(rows)
    assert (outcome.sent, outcome.acknowledged, outcome.failed) == (100, 0, 100)
    assert outcome.left == [record for _, record in rows]
    assert outcome.reasons == {"the log is away": 100}
    file = tmp_path / "left.jsonl"
    write_left(file, outcome.left)
    log.available = True
    left = read_left(file)
    assert left is not None
    again = _sender(log, Pacer(ManualClock())).send([(o.time_ms, outgoing(o, TOPIC)) for o in left])
    assert (again.sent, again.acknowledged) == (100, 100)
    assert [o.y for o in _messages(log)] == [float(i) for i in range(100)]
    write_left(file, again.left)
    assert read_left(file) is None
    assert not list(tmp_path.iterdir())


def test_a_broker_that_goes_away_half_way_leaves_exactly_the_rest() -> None:
    """C14: acknowledged and failed add up, and a second run makes the log whole without a double."""
    clock, log = ManualClock(), _log()

    def pause(seconds: float) -> bool:
        clock.advance(seconds)
        if clock.monotonic_s() > 3.95:
            log.available = False
        return False

    outcome = Sender(log.writer(), Pacer(clock, rate=10.0), pause=pause, timeout_s=1.0).send(_rows(100))
    assert outcome.acknowledged + outcome.failed == outcome.sent == 100
    assert 1 <= outcome.acknowledged <= 41
    assert len(outcome.left) == outcome.failed
    log.available = True
    _sender(log, Pacer(ManualClock())).send([(0, record) for record in outcome.left])
    assert [o.y for o in _messages(log)] == [float(i) for i in range(100)]


def test_a_stop_sends_what_was_begun_and_keeps_the_rest() -> None:
    clock, log = ManualClock(), _log()
    rows = _rows(100)
    outcome = _sender(log, Pacer(clock, rate=10.0), clock=clock, stop_after_s=4.25).send(rows)
    assert outcome.stopped
    assert outcome.sent == outcome.acknowledged == len(_messages(log))
    assert outcome.left == [record for _, record in rows[outcome.sent :]]
    assert 40 <= outcome.sent <= 45


def test_a_missing_topic_is_told_and_costs_no_record() -> None:
    log = MemoryLog()
    outcome = _sender(log, Pacer(ManualClock())).send(_rows(1_200))
    assert (outcome.acknowledged, outcome.failed, outcome.stopped) == (0, 500, True)
    assert len(outcome.left) == 1_200
    assert "streamgp topics create" in next(iter(outcome.reasons))


def test_records_too_large_fail_alone() -> None:
    log = MemoryLog(max_record_bytes=200)
    log.create_topics([TopicSpec(TOPIC)])
    big = Observation(station="A", time_ms=0, x={f"x{i}": 1.0 for i in range(100)}, y=1.0)
    rows = [*_rows(10), (0, outgoing(big, TOPIC))]
    outcome = _sender(log, Pacer(ManualClock())).send(rows)
    assert (outcome.acknowledged, outcome.failed) == (10, 1)
    assert [record.value for record in outcome.left] == [rows[-1][1].value]


def test_what_is_no_file_of_left_records_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "left.jsonl"
    assert read_left(file) is None
    file.write_text("hello\n")
    with pytest.raises(DatasetError, match="line 1"):
        read_left(file)


def test_records_still_on_the_way_at_the_end_are_left_by_name() -> None:
    """C14: a writer that knows of some that they failed, of others nothing yet."""

    class Half:
        """Takes five of ten, refuses one, and has four on the way."""

        def __init__(self) -> None:
            self.stats = WriterStats()
            self.records: list[Outgoing] = []

        def write(self, records: list[Outgoing]) -> None:
            self.records += records

        def flush(self, timeout_s: float) -> None:
            self.stats.acknowledged += 5
            refused, waiting = self.records[5], self.records[6:]
            raise DeliveryError("5 records", [(refused, "TimeoutError: of 17 ms")], len(waiting), waiting)

    rows = _rows(10)
    writer: Any = Half()
    outcome = Sender(writer, Pacer(ManualClock()), pause=lambda seconds: False, timeout_s=1.0).send(rows)
    assert (outcome.sent, outcome.acknowledged, outcome.failed) == (10, 5, 5)
    assert outcome.left == [record for _, record in rows[5:]]
    assert outcome.reasons == {"TimeoutError": 1, "not confirmed within 1 s": 4}
