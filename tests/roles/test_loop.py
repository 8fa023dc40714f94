"""The loop around a role: when it says that nothing more waits, and what it does while nobody confirms anything."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from streamgp.errors import BrokerUnavailableError, DeliveryError, LogError
from streamgp.roles.commits import Commits
from streamgp.roles.kept import Kept, Place
from streamgp.roles.loop import CUT_OFF, ending_within, run
from streamgp.wire.checkpoint import FolderStore
from streamgp.wire.clock import ManualClock, SystemClock
from streamgp.wire.gate import OpenGate
from streamgp.wire.journal import Segment
from streamgp.wire.log import Message, Outgoing, Partition, ReaderStats, Subscription, TopicSpec, WriterStats
from streamgp.wire.memory import MemoryLog
from streamgp.wire.topics import topic_plan

P: Partition = ("p.in", 0)


class Recorder:
    """A role that remembers how it was called, and copies what it reads."""

    def __init__(self) -> None:
        self.fed: list[list[int]] = []
        self.drained = 0
        self.counts: Any = {}
        self._next = 0
        self._out: list[Outgoing] = []

    def start(self, now_s: float) -> list[Outgoing]:
        return []

    def feed(self, messages: list[Message], now_s: float) -> None:
        self.fed.append([m.offset for m in messages])
        for m in messages:
            self._next = m.offset + 1
            self._out.append(Outgoing("p.out", "A", m.value))

    def drain(self, now_s: float) -> list[Outgoing]:
        self.drained += 1
        out, self._out = self._out, []
        return out

    def wake_s(self, now_s: float) -> float | None:
        return 0.0

    def full(self) -> frozenset[str]:
        return frozenset()

    def done(self) -> dict[Partition, int]:
        return {P: self._next}

    def stop(self, now_s: float) -> list[Outgoing]:
        return []

    def vitals(self) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        return {"next": self._next}

    def restore(self, state: Any) -> None:
        self._next = state["next"]


class Slow:
    """A reader whose first polls bring nothing although something waits, as kafka-python's do."""

    def __init__(self, inner: Any, empty: int) -> None:
        self._inner = inner
        self._empty = empty

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def poll(self, timeout_s: float, max_records: int = 500, *, without: frozenset[str] = frozenset()) -> list[Message]:
        if self._empty:
            self._empty -= 1
            self._inner.stats.exhausted = False
            return []
        return self._inner.poll(0.0, max_records, without=without)  # type: ignore[no-any-return]  # any reader


class SlowLog:
    """Its readers are slow."""

    def __init__(self, inner: MemoryLog, empty: int) -> None:
        self._inner = inner
        self._empty = empty

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def reader(self, subscriptions: list[Subscription], **given: Any) -> Any:
        reader = self._inner.reader(subscriptions, **given)
        return Slow(reader, self._empty) if subscriptions[0].topic == "p.in" else reader


def filled(count: int = 3) -> MemoryLog:
    log = MemoryLog()
    log.create_topics([*topic_plan("p"), TopicSpec("p.in"), TopicSpec("p.out")])
    log.writer().write([Outgoing("p.in", "A", b"%d" % i) for i in range(count)])
    return log


def test_an_empty_poll_says_that_all_is_read_only_when_nothing_waits() -> None:
    """A client may return nothing while its fetches are under way."""
    log, role, stop = filled(), Recorder(), threading.Event()
    reader = Slow(log.reader([Subscription("p.in")]), 4)

    class Stopping(ManualClock):
        def monotonic_s(self) -> float:
            if role.drained >= 8:
                stop.set()
            return super().monotonic_s()

    run(role, reader, log.writer(), Stopping(), stop)
    assert role.drained == 8
    assert role.fed == [[0, 1, 2], [], [], []]


def test_a_kept_role_is_told_the_same_and_told_it_again_by_the_journal(tmp_path: Path) -> None:
    log = SlowLog(filled(), 3)
    clock, place = ManualClock(), Place("agent.A", "p", (Subscription("p.in"),))

    def kept(role: Recorder) -> Kept:
        made = Kept(
            role,  # type: ignore[arg-type]  # its counts stay empty
            place,
            log=log,  # type: ignore[arg-type]  # it passes everything on
            store=lambda _: FolderStore(tmp_path),
            clock=clock,
        )
        made.recover()
        return made

    first = kept(Recorder())
    for _ in range(6):
        first.step(0.0)
    assert first.role.fed == [[0, 1, 2], [], []]  # type: ignore[attr-defined]  # a Recorder
    assert first.role.drained == 6  # type: ignore[attr-defined]  # a Recorder
    first.commit()
    first.close()
    second = kept(Recorder())
    assert second.role.fed == [[0, 1, 2], [], []]  # type: ignore[attr-defined]  # a Recorder
    assert second.differs == 0
    second.close()


class Away:
    """A writer of a broker that is away until a time: nothing is confirmed, nothing fails."""

    def __init__(self, clock: ManualClock, until_s: float, *, then: str = "confirmed") -> None:
        self.stats = WriterStats()
        self.written: list[Outgoing] = []
        self.confirmed_s: float | None = None
        self._clock = clock
        self._until_s = until_s
        self._then = then

    def write(self, records: list[Outgoing]) -> None:
        self.written += records

    def flush(self, timeout_s: float) -> None:
        self._clock.advance(timeout_s)
        if self._clock.monotonic_s() < self._until_s:
            raise DeliveryError("not confirmed in time", [], 1, self.written)
        if self._then == "failed":
            raise DeliveryError("too old", [(self.written[0], "too old")])
        if self.confirmed_s is None:
            self.confirmed_s = self._clock.monotonic_s()

    def close(self) -> None:
        pass


class Told:
    """A reader that brings one record and remembers what was committed, and when."""

    def __init__(self, clock: ManualClock) -> None:
        self.stats = ReaderStats(exhausted=True)
        self.commits: list[tuple[float, dict[Partition, int]]] = []
        self._clock = clock
        self._left = [Message("p.in", 0, 0, "A", b"0")]

    def poll(self, timeout_s: float, max_records: int = 500, *, without: frozenset[str] = frozenset()) -> list[Message]:
        self._clock.advance(0.25)
        taken, self._left = self._left, []
        return taken

    def commit(self, offsets: dict[Partition, int]) -> None:
        self.commits.append((self._clock.monotonic_s(), offsets))

    def seek(self, offsets: dict[Partition, int]) -> None: ...

    def ends(self) -> dict[Partition, int]:
        return {}

    def close(self) -> None: ...


class At(threading.Event):
    """Set when a clock has come to a time."""

    def __init__(self, clock: ManualClock, at_s: float) -> None:
        super().__init__()
        self._clock, self._at_s = clock, at_s

    def is_set(self) -> bool:
        return self._clock.monotonic_s() >= self._at_s


def test_an_outage_of_minutes_is_waited_for_and_nothing_is_committed_meanwhile() -> None:
    """R03: what is still on its way is no failure: the loop turns on, and commits when it is confirmed."""
    clock = ManualClock()
    reader, writer, role = Told(clock), Away(clock, 200.0), Recorder()
    run(role, reader, writer, clock, At(clock, 210.0))
    assert [o.value for o in writer.written] == [b"0"]  # once, though it was looked for again and again
    assert writer.confirmed_s is not None
    assert reader.commits
    assert all(at_s >= writer.confirmed_s and offsets == {P: 1} for at_s, offsets in reader.commits)


def test_what_failed_for_good_ends_the_process_and_nothing_is_committed() -> None:
    clock = ManualClock()
    reader, writer = Told(clock), Away(clock, 30.0, then="failed")
    with pytest.raises(LogError, match="too old"):
        run(Recorder(), reader, writer, clock, At(clock, 100.0))
    assert reader.commits == []


def test_told_to_stop_in_an_outage_the_loop_ends_and_says_that_it_lost_sight() -> None:
    """R14: within 5 s of its own waits."""
    clock = ManualClock()
    with pytest.raises(LogError, match="not confirmed"):
        run(Recorder(), Told(clock), Away(clock, 1e9), clock, At(clock, 30.0))
    assert clock.monotonic_s() < 33.0


class Plain:
    """A writer for what is written at once: its flushes go as told."""

    def __init__(self, *flushes: str) -> None:
        self.stats = WriterStats()
        self.written: list[bytes | None] = []
        self._flushes = list(flushes)
        self._last: list[Outgoing] = []

    def write(self, records: list[Outgoing]) -> None:
        self._last = records
        self.written += [r.value for r in records]

    def flush(self, timeout_s: float) -> None:
        how = self._flushes.pop(0) if self._flushes else "there"
        if how == "pending":
            raise DeliveryError("not confirmed in time", [], len(self._last), self._last)
        if how == "failed":
            raise DeliveryError("1 failed", [(self._last[-1], "expired")])

    def close(self) -> None:
        pass


def test_what_was_written_at_once_is_written_again_only_where_it_failed() -> None:
    """R03, R07: two attempts find it on its way, one that the last of two failed."""
    log, stop = filled(), threading.Event()
    commits = Commits(log, prefix="p", role="agent.A", journal="p.journal", clock=SystemClock(), stop=stop)
    commits.open()
    plain = Plain("pending", "pending", "failed")
    commits._plain = plain  # type: ignore[assignment]  # as far as it is used
    stop.wait = lambda timeout=None: False  # type: ignore[method-assign]  # no pauses between attempts
    gate = OpenGate()
    commits.write_at_once([Outgoing("p.queries", "A", b"one"), Outgoing("p.queries", "B", b"two")], gate)
    segment = Segment(role="agent.A", number=1, places=(P,), positions=(1,), calls=(), crc=0)
    commits.commit(segment, [Outgoing("p.out", "A", b"out")], {P: 1}, gate)
    assert plain.written == [b"one", b"two", b"two"]
    out = log.reader([Subscription("p.out")]).poll(0.0)
    assert [m.value for m in out] == [b"out"]
    commits.close()


def test_a_commit_that_is_told_to_stop_gives_up_in_an_outage() -> None:
    log, stop, clock = filled(), threading.Event(), ManualClock()
    commits = Commits(log, prefix="p", role="agent.A", journal="p.journal", clock=clock, stop=stop)
    commits.open()
    commits._plain = Plain(*["pending"] * 1000)  # type: ignore[assignment]  # as far as it is used
    stop.set()
    stop.wait = lambda timeout=None: bool(clock.advance(timeout or 0.0)) or True  # type: ignore[method-assign]  # no real pause
    segment = Segment(role="agent.A", number=1, places=(P,), positions=(1,), calls=(), crc=0)
    with pytest.raises((BrokerUnavailableError, DeliveryError)):
        commits.commit(segment, [], {P: 1}, OpenGate())
    assert clock.monotonic_s() < 6.0
    commits.close()


def test_who_is_told_to_stop_is_gone_in_time_whatever_it_waits_for() -> None:
    """C47, R14: a process that hangs is cut off; one that ends in time is not."""
    stop, ended = threading.Event(), threading.Event()
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    with ending_within(0.05, stop, end=end):
        stop.set()
        assert ended.wait(5.0)
    assert codes == [CUT_OFF]
    with ending_within(5.0, stop, end=end):
        pass
    assert codes == [CUT_OFF]
