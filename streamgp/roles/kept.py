"""A role whose work survives: nothing is lost by a crash, and nothing is counted or answered twice."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import final

from streamgp.errors import CheckpointError, FencedError, LogError
from streamgp.roles.commits import Commits
from streamgp.roles.loop import IDLE_S, POLL_S
from streamgp.roles.place import KeptRole, MakeStore, Place
from streamgp.roles.plain import offsets_out
from streamgp.roles.reach import Reach
from streamgp.roles.refusals import Refusals
from streamgp.roles.restart import Restart, called
from streamgp.roles.settings import KeepSettings
from streamgp.roles.snapshots import Snapshots
from streamgp.wire.clock import Clock
from streamgp.wire.gate import Gate, OpenGate
from streamgp.wire.journal import Calls, crc_of
from streamgp.wire.log import Log, Message, Outgoing, Partition, Reader

__all__ = ["Kept", "KeptRole", "MakeStore", "Place"]

#: calls or outputs after which a commit is due, however short the time
MOST = 2_000
#: numbers that a predecessor may have signed with after its last commit
UNSEEN = 1_000_000
#: for this share of the commit interval outputs wait for others, where the last commit is an interval ago
LINGER = 0.1


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
        self.committed_s: float | None = None
        self.started_s: float | None = None
        self.answered_ms: int | None = None
        self.stepped_s = clock.monotonic_s()
        self.differs = 0
        self.reader: Reader = log.reader(place.reads)
        self._reach = Reach(role, self.reader)
        self.gate = gate or OpenGate()
        self._dead_letters = place.topic("dead-letter")
        self._refusals = Refusals(place.role, self._dead_letters)
        self._log = log
        self._clock = clock
        self._settings = settings or KeepSettings()
        self._stop = stop or threading.Event()
        self._fresh = fresh
        self._first = first
        self._commits = Commits(
            log,
            prefix=place.prefix,
            role=place.role,
            journal=place.state_topic("journal"),
            clock=clock,
            stop=self._stop,
        )
        self._make_store = store
        self._snapshots: Snapshots | None = None
        self._log_id = ""
        self._ahead_s = 0.0  # the role's time minus the clock's
        self._positions: dict[Partition, int] = {}
        self._calls = Calls()
        self._outputs: list[Outgoing] = []
        self._crc = 0
        self._since_s: float | None = None  # when the first thing was done that is not committed
        self._output_s: float | None = None  # when the first output of it was
        self._last_s = -math.inf  # when the last commit was, in the role's own time
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
        store = self._make_store(self._commits.write)
        restart = Restart(
            self.role,
            self.place,
            log=self._log,
            commits=self._commits,
            store=store,
            gate=self.gate,
            clock=self._clock,
            fresh=self._fresh,
        )
        self._snapshots = Snapshots(
            store, restart.heads, role=self.place.role, settings=self._settings, clock=self._clock
        )
        restart.look(also=self.reader)
        self._commits.open()  # not earlier: a process that cannot start must not stop one that runs
        stand = restart.go_on()
        self._log_id = restart.log_id
        self.number, self._positions, self.differs = stand.number, stand.positions, stand.differs
        if stand.now_s is None:
            self._first()
            if self._fresh:  # before its snapshot: the life of before never reaches the number of one that is there
                self._snapshots.begin_anew(self.number, self._commits, restart.elsewhere)
            self.snapshot()  # empty, so that a crash before the next finds one
            if self._fresh:
                self._snapshots.forget_before(self.number)
        else:
            self._ahead_s = stand.now_s - self._clock.monotonic_s()
            if stand.replayed:
                self._snapshots.changed()
        self.gate.sequence += UNSEEN
        self.reader.seek(self._positions)
        self._call("start", self.now_s())
        self.started_s = self.stepped_s = self._clock.monotonic_s()

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
        out = called(self.role, kind, fed, now_s)
        inert = not messages and not out and (wake is None or now_s - before_s < wake)
        self._calls.add(now_s, fed, without=refused, inert=inert, kind=kind)
        self._take(out, now_s, anything=bool(messages))
        for m in messages:
            self._positions[m.topic, m.partition] = m.offset + 1
        self.stepped_s = self._clock.monotonic_s()
        snapshots = self._kept_in()
        snapshots.worked(0.0 if inert else self.stepped_s - started)
        if (then_s := self._reach.look(now_s)) is not None:
            self._call("reached", then_s)
        if self._due(now_s):
            self.commit()
            if snapshots.due():
                self._try_snapshot()
        self._idle = not (messages or out or then_s is not None)
        return not self._idle

    def _call(self, kind: str, now_s: float) -> None:
        out = called(self.role, kind, [], now_s)
        self._calls.add(now_s, [], kind=kind)
        self._take(out, self.now_s(), anything=True)

    def _let_in(self, messages: list[Message]) -> tuple[list[Message], list[Message]]:
        fed, refused = [], []
        self.gate.look()
        for message in messages:
            letter = self.gate.check(message)
            if letter is None:
                fed.append(message)
            else:
                refused.append(message)
                self._outputs.append(letter)
                self._refusals.tell([letter])
        return fed, refused

    def _take(self, out: list[Outgoing], now_s: float, *, anything: bool) -> None:
        self._crc = crc_of(out, self._crc)
        self._refusals.tell(out)
        at_once = [o for o in out if o.topic in self.place.at_once]
        self._commits.write_at_once(at_once, self.gate)
        rest = [o for o in out if o.topic not in self.place.at_once]
        self._outputs += rest
        if any(o.topic != self._dead_letters for o in rest):  # neither a question, a promise nor a refusal
            self.answered_ms = self._clock.now_ms()
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
        snapshots = self._kept_in()
        outputs = self._outputs if snapshots.head is None else [*self._outputs, snapshots.head]
        segment = self._calls.segment(
            self.place.role,
            number=self.number + 1,
            positions=self._positions,
            crc=self._crc,
        )
        self._commits.commit(segment, outputs, self.role.done(), self.gate)
        self.number += 1
        self._outputs, self._calls, self._crc = [], Calls(), 0
        self._since_s, self._output_s, self._last_s = None, None, self.now_s()
        snapshots.head = None
        snapshots.changed()
        self.committed_s = self.stepped_s = self._clock.monotonic_s()

    # -- snapshots

    @property
    def snapshot_s(self) -> float | None:
        """When the last snapshot was written, or tried, by the clock."""
        return None if self._snapshots is None else self._snapshots.taken_s

    def _kept_in(self) -> Snapshots:
        assert self._snapshots is not None, "it is recovered first"
        return self._snapshots

    def snapshot(self) -> None:
        """Keep the state as of the last commit.

        Raises
        ------
        CheckpointError
            If it could not be written; those before it are as they were.
        """
        started = self._clock.monotonic_s()
        data = {
            "role": self.place.role,
            "log": self._log_id,
            "number": self.number,
            "now_s": self.now_s(),
            "positions": offsets_out(self._positions),
            "journal": offsets_out(self._commits.journal_from()),
            "gate": self.gate.state(),
            "state": self.role.state(),
        }
        self._kept_in().keep(self.number, data, since_s=started)

    def _try_snapshot(self) -> None:
        """The journal bridges one that fails: a full disk is no reason to stop."""
        try:
            self.snapshot()
        except FencedError:
            raise
        except (CheckpointError, LogError) as error:
            self._kept_in().failed(error)

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
        if self._snapshots is not None:
            self._snapshots.close()

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
