"""A role whose work survives: nothing is lost by a crash, and nothing is counted or answered twice."""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final

from streamgp.errors import CheckpointError, FencedError, LogError
from streamgp.roles.commits import Commits
from streamgp.roles.loop import IDLE_S, POLL_S, Role
from streamgp.roles.plain import offsets_in, offsets_out
from streamgp.roles.reach import Reach
from streamgp.roles.settings import KeepSettings
from streamgp.wire.checkpoint import SnapshotStore, pack, unpack
from streamgp.wire.clock import Clock
from streamgp.wire.gate import Gate, OpenGate
from streamgp.wire.journal import Again, Calls, Segment, crc_of, read_all
from streamgp.wire.log import Log, Message, Outgoing, Partition, Reader, Subscription

log = logging.getLogger("streamgp.kept")

#: calls or outputs after which a commit is due, however short the time
MOST = 2_000
#: numbers that a predecessor may have signed with after its last commit
UNSEEN = 1_000_000
#: a snapshot may take no more than this share of the time
SHARE = 0.05
#: for this share of the commit interval outputs wait for others, where the last commit is an interval ago
LINGER = 0.1


class KeptRole(Role, Protocol):
    """A role that can say all that it knows."""

    counts: Counter[str]
    """What has happened, by name; ``refused: REASON`` and ``trimmed: AGENT`` among them."""

    def vitals(self) -> dict[str, float]:
        """Numbers as of now: ``held`` is how much it has read and not yet worked on."""

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; raises a CheckpointError if it cannot be."""


#: makes a store, given how to write records in a transaction
MakeStore: TypeAlias = Callable[[Callable[[list[Outgoing]], None]], SnapshotStore]


@dataclass(frozen=True)
class Place:
    """Where a role works: its name (``agent.Dublin``), what it reads, and which outputs need not wait.

    ``at_once`` are topics whose records carry ids and repeat harmlessly: questions and promises. The stations
    wait for each other's, so they are written before their commit, and once more by whoever starts again.
    """

    role: str
    prefix: str
    reads: tuple[Subscription, ...]
    at_once: frozenset[str] = frozenset()

    def topic(self, suffix: str) -> str:
        return f"{self.prefix}.{suffix}"


@final
class Kept:
    """Runs a role so that after a crash its successor is, to the bit, where the last commit was.

    Outputs are collected for up to ``commit_interval_s`` and committed in one transaction with the offsets of the
    inputs and the journal of what the role was called with. Snapshots are taken rarely, right after a commit: a
    successor restores the last good one and calls the role again as the journal says, writing nothing. The time
    that a role sees goes on where it was, so that its waits do not run out while it is down.

    Parameters
    ----------
    store
        Makes the store of the snapshots.
    gate
        Lets records in and signs those that go out.
    fresh
        Begin anew on purpose, though there was a state.
    first
        Called before the first start of all, when no other process of this role writes any more.
    """

    def __init__(
        self,
        role: KeptRole,
        place: Place,
        *,
        log: Log,
        store: MakeStore,
        clock: Clock,
        settings: KeepSettings | None = None,
        gate: Gate | None = None,
        stop: threading.Event | None = None,
        fresh: bool = False,
        first: Callable[[], None] = lambda: None,
    ) -> None:
        self.role = role
        self.place = place
        self.number = 0
        self.snapshot_s: float | None = None
        self.committed_s: float | None = None
        self.started_s: float | None = None
        self.answered_ms: int | None = None
        self.stepped_s = clock.monotonic_s()
        self.differs = 0
        self.reader: Reader = log.reader(place.reads)
        self._reach = Reach(role, self.reader)
        self.gate = gate or OpenGate()
        self._log = log
        self._clock = clock
        self._settings = settings or KeepSettings()
        self._stop = stop or threading.Event()
        self._fresh = fresh
        self._first = first
        self._commits = Commits(
            log, prefix=place.prefix, role=place.role, journal=place.topic("journal"), clock=clock, stop=self._stop
        )
        self._make_store = store
        self._store: SnapshotStore | None = None
        self._log_id = ""
        self._heads: Partition = ("", 0)
        self._ahead_s = 0.0  # the role's time minus the clock's
        self._positions: dict[Partition, int] = {}
        self._calls = Calls()
        self._outputs: list[Outgoing] = []
        self._head: Outgoing | None = None
        self._crc = 0
        self._since_s: float | None = None  # when the first thing was done that is not committed
        self._output_s: float | None = None  # when the first output of it was
        self._last_s = -math.inf  # when the last commit was, in the role's own time
        self._busy_s = 0.0
        self._cost_s = 0.0
        self._changed = False
        self._idle = False  # whether nothing was done in the last step

    # -- starting

    def recover(self) -> None:
        """Fence other processes of this role and go on where the last commit was; the role is started.

        Raises
        ------
        CheckpointError
            If there was a state and none of it can be read, or the journal does not reach back to it: never a
            silent fresh start.
        FencedError
            If another process uses the same state folder.
        """
        with ThreadPoolExecutor(2) as waiting:  # a connection takes as long as a large state does
            waiting.submit(_connected, self.reader)
            waiting.submit(_connected, self._commits.journal)
            self._log_id = self._log.topic_id(self.place.topic("journal"))
            self._heads, head = self._look_up_head()
            self._store = self._make_store(self._commits.write)
            kept = [] if self._fresh else self._store.load()
            base = self._newest_good(kept)
        if base is None and not self._fresh and (kept or head is not None):
            raise CheckpointError(self._nothing_to_go_on_from(head, kept=bool(kept)))
        self._commits.open()  # not earlier: a process that cannot start must not stop one that runs
        if base is None:
            self._begin(head)
        else:
            self._go_on(base, head or 0)
        self.gate.sequence += UNSEEN
        self.reader.seek(self._positions)
        self._call("start", self.now_s())
        self.started_s = self.stepped_s = self._clock.monotonic_s()

    def _newest_good(self, kept: list[tuple[int, bytes]]) -> dict[str, Any] | None:
        for number, data in kept:
            try:
                base = unpack(data)
                self._check_base(base)
                self.role.restore(base["state"])
                self.gate.restore(base["gate"])
            except CheckpointError as error:
                log.warning("%s: snapshot %d cannot be used: %s", self.place.role, number, error)
            else:
                return base
        return None

    def _check_base(self, base: dict[str, Any]) -> None:
        missing = {"role", "log", "number", "now_s", "positions", "journal", "gate", "state"} - base.keys()
        if missing:
            raise CheckpointError(f"damaged: it has no {sorted(missing)}")
        if base["role"] != self.place.role:
            raise CheckpointError(f"it is of role {base['role']}, not of {self.place.role}")
        if base["log"] != self._log_id:
            raise CheckpointError("it belongs to other topics: they were made anew, or this is another broker")

    def _nothing_to_go_on_from(self, head: int | None, *, kept: bool) -> str:
        known = "there are snapshots" if head is None else f"snapshot {head} is known to {self._heads[0]}"
        elsewhere = "" if kept else "stop this one if the role runs elsewhere, with its own state; else "
        return (
            f"{self.place.role}: {known}, and none that can be used is in its store; {elsewhere}put the state back, or "
            "start with --fresh to learn everything anew on purpose"
        )

    def _begin(self, head: int | None) -> None:
        """The first start: an empty snapshot, so that a crash before the next finds one."""
        if head is not None:
            known = self._commits.segments(0, {})
            self.number = max([head, *(s.number for s in known)])
            self.gate.sequence = max([self.gate.sequence, *(s.sequence for s in known)])
        self._first()
        self.snapshot()

    def _look_up_head(self) -> tuple[Partition, int | None]:
        """Where the number of the last snapshot is kept, and that number: it outlives folder and journal."""
        reader = self._log.reader([Subscription(self.place.topic("snapshots"), key=self.place.role)])
        try:
            (place,) = reader.ends()
            heads = [m for m in read_all(reader, self._clock) if m.key == f"{self.place.role}/head"]
        finally:
            reader.close()
        return place, int(heads[-1].value or b"0") if heads else None

    def _go_on(self, base: dict[str, Any], head: int) -> None:
        self.number, now_s = base["number"], base["now_s"]
        self._positions = offsets_in(base["positions"])
        segments = self._commits.segments(self.number, offsets_in(base["journal"]))
        last = self.number + len(segments)
        if [s.number for s in segments] != list(range(self.number + 1, last + 1)) or last < head:
            raise CheckpointError(
                f"{self.place.role}: the journal does not reach back to snapshot {self.number}; put back a newer one, "
                "or start with --fresh to learn everything anew on purpose"
            )
        if segments:
            now_s = self._do_all_again(segments, now_s)
        self._ahead_s = now_s - self._clock.monotonic_s()
        self._changed = bool(segments)
        log.info("%s: snapshot %d and %d commits after it", self.place.role, base["number"], len(segments))

    def _do_all_again(self, segments: list[Segment], now_s: float) -> float:
        """With a reader of its own: it reads further than the last commit."""
        reader = self._log.reader(self.place.reads)
        try:
            reader.seek(self._positions)
            again = Again(reader, self._clock)
            for segment in segments:
                now_s = self._do_again(segment, again, now_s)
        finally:
            reader.close()
        if again.missing:
            log.warning("%s: %d records were gone that it had read before", self.place.role, again.missing)
        return now_s

    def _do_again(self, segment: Segment, again: Again, now_s: float) -> float:
        crc = 0
        for call in segment.calls:
            messages = again.messages(segment, call)
            for message in messages:
                self.gate.note(message)
            now_s = call.now_s
            crc = crc_of(self._apply(call.kind, messages, now_s), crc)
        self._positions.update(zip(segment.places, segment.positions, strict=True))
        self.number = segment.number
        self.gate.sequence = max(self.gate.sequence, segment.sequence)
        if crc != segment.crc:
            self.differs += 1
            if self.differs == 1:
                log.warning("%s: what it wrote in commit %d comes out differently now", self.place.role, self.number)
        return now_s

    # -- working

    def now_s(self) -> float:
        """The role's own time."""
        return self._clock.monotonic_s() + self._ahead_s

    def step(self, timeout_s: float = POLL_S) -> bool:
        """Read, work, write, and commit if it is due; whether anything was done."""
        before_s, wake = self.now_s(), self.role.wake_s(self.now_s())
        waits = [timeout_s] if wake is None else [timeout_s, max(wake, IDLE_S) if self._idle else wake]
        if (due_s := self._due_s()) is not None:
            waits.append(max(0.0, due_s - before_s))
        messages = self.reader.poll(min(waits), without=self.role.full())
        now_s, started = self.now_s(), self._clock.monotonic_s()
        fed, refused = self._let_in(messages)
        kind = "step" if fed or self.reader.stats.exhausted else "work"
        out = self._apply(kind, fed, now_s)
        inert = not messages and not out and (wake is None or now_s - before_s < wake)
        self._calls.add(now_s, fed, without=refused, inert=inert, kind=kind)
        self._take(out, now_s, anything=bool(messages))
        for m in messages:
            self._positions[m.topic, m.partition] = m.offset + 1
        self.stepped_s = self._clock.monotonic_s()
        self._busy_s += 0.0 if inert else self.stepped_s - started
        if (then_s := self._reach.look(now_s)) is not None:
            self._call("step", then_s)
        if self._due(now_s):
            self.commit()
            if self._snapshot_due():
                self._try_snapshot()
        self._idle = not (messages or out or then_s is not None)
        return not self._idle

    def _call(self, kind: str, now_s: float) -> None:
        out = self._apply(kind, [], now_s)
        self._calls.add(now_s, [], kind=kind)
        self._take(out, self.now_s(), anything=True)

    def _apply(self, kind: str, messages: list[Message], now_s: float) -> list[Outgoing]:
        """What a role does, live and again, is this and nothing else."""
        if kind == "start":
            return self.role.start(now_s)
        if kind == "stop":
            return self.role.stop(now_s)
        if kind == "step":
            self.role.feed(messages, now_s)
        return self.role.drain(now_s)

    def _let_in(self, messages: list[Message]) -> tuple[list[Message], list[Message]]:
        fed, refused = [], []
        for message in messages:
            letter = self.gate.check(message)
            if letter is None:
                fed.append(message)
            else:
                refused.append(message)
                self._outputs.append(letter)
        return fed, refused

    def _take(self, out: list[Outgoing], now_s: float, *, anything: bool) -> None:
        self._crc = crc_of(out, self._crc)
        if out:
            self.answered_ms = self._clock.now_ms()
        at_once = [o for o in out if o.topic in self.place.at_once]
        self._commits.write_at_once(at_once, self.gate)
        self._outputs += [o for o in out if o.topic not in self.place.at_once]
        if (out or anything) and self._since_s is None:
            self._since_s = now_s
        if self._outputs and self._output_s is None:
            self._output_s = now_s

    def _due_s(self) -> float | None:
        """When the next commit is due: an interval after the last or later, and outputs wait little beyond that."""
        if self._since_s is None:
            return None
        interval_s = self._settings.commit_interval_s
        due_s = self._since_s + interval_s
        if self._output_s is not None:
            due_s = min(due_s, max(self._last_s + interval_s, self._output_s + LINGER * interval_s))
        return due_s

    def _due(self, now_s: float) -> bool:
        due_s = self._due_s()
        if due_s is None:
            return False
        return len(self._calls) > MOST or len(self._outputs) > MOST or now_s >= due_s

    def commit(self) -> None:
        """Make all that was done final; see :meth:`streamgp.roles.commits.Commits.commit` for what it raises."""
        if self._since_s is None:
            return
        outputs = self._outputs if self._head is None else [*self._outputs, self._head]
        segment = self._calls.segment(
            self.place.role,
            number=self.number + 1,
            positions=self._positions,
            crc=self._crc,
        )
        self._commits.commit(segment, outputs, self.role.done(), self.gate)
        self.number += 1
        self._outputs, self._head, self._calls, self._crc = [], None, Calls(), 0
        self._since_s, self._output_s, self._last_s = None, None, self.now_s()
        self._changed = True
        self.committed_s = self.stepped_s = self._clock.monotonic_s()

    # -- snapshots

    def _snapshot_due(self) -> bool:
        age_s = self._clock.monotonic_s() - (self.snapshot_s or 0.0)
        wanted = age_s >= self._settings.snapshot_every_s or self._busy_s >= self._settings.snapshot_busy_s
        return self._changed and wanted and age_s * SHARE >= self._cost_s

    def snapshot(self) -> None:
        """Keep the state as of the last commit.

        Raises
        ------
        CheckpointError
            If it could not be written; those before it are as they were.
        """
        assert self._store is not None
        started = self._clock.monotonic_s()
        data = {
            "role": self.place.role,
            "log": self._log_id,
            "number": self.number,
            "now_s": self.now_s(),
            "positions": offsets_out(self._positions),
            "journal": offsets_out(self._commits.end_of_journal()),
            "gate": self.gate.state(),
            "state": self.role.state(),
        }
        self._store.save(self.number, pack(data))
        role = self.place.role
        topic, part = self._heads
        self._head = Outgoing(topic, f"{role}/head", str(self.number).encode(), partition=part)
        self.snapshot_s = self._clock.monotonic_s()
        self._cost_s = self.snapshot_s - started
        self._busy_s, self._changed = 0.0, False

    def _try_snapshot(self) -> None:
        """The journal bridges one that fails: a full disk is no reason to stop."""
        try:
            self.snapshot()
        except FencedError:
            raise
        except (CheckpointError, LogError) as error:
            log.warning("%s: %s", self.place.role, error)
            self._busy_s = 0.0
            self.snapshot_s = self._clock.monotonic_s()

    # -- ending

    def finish(self) -> None:
        """End in good order: last words, a commit, a snapshot."""
        self._call("stop", self.now_s())
        self.commit()
        self._try_snapshot()

    def close(self) -> None:
        """Let go of everything; what is not committed is done again by the successor."""
        self.reader.close()
        self._commits.close()
        if self._store is not None:
            self._store.close()

    def run(self) -> None:
        """All of it, until told to stop.

        Raises
        ------
        FencedError
            If another process runs as this role.
        CheckpointError, LogError
            If it cannot start, or cannot go on.
        """
        try:
            self.recover()
            while not self._stop.is_set():
                self.step()
            self.finish()
        finally:
            self.close()


def _connected(reader: Reader) -> None:
    """Let a reader connect; what is wrong with it comes up again where it is read."""
    with suppress(LogError):
        reader.ends()
