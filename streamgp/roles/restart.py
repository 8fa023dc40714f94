"""How a role starts again: from the last good snapshot and the journal after it, to where the last commit was."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, final

from streamgp.errors import CheckpointError, LogError
from streamgp.roles.commits import Commits
from streamgp.roles.place import KeptRole, Place
from streamgp.roles.plain import offsets_in
from streamgp.roles.reach import Patient
from streamgp.wire.checkpoint import SnapshotStore, unpack
from streamgp.wire.clock import Clock
from streamgp.wire.gate import Gate
from streamgp.wire.journal import Again, Segment, crc_of, read_all
from streamgp.wire.log import Log, Message, Outgoing, Partition, Reader, Subscription

log = logging.getLogger("streamgp.kept")

#: what a snapshot holds beside the version that it is packed with
PARTS = frozenset({"role", "log", "number", "now_s", "positions", "journal", "gate", "state"})


@dataclass(slots=True)
class Stand:
    """Where a role stands after its restart.

    ``now_s`` is the role's own time at the last commit, None at a first start; ``replayed`` commits were done again
    after the snapshot, and ``differs`` of them wrote something else than they had.
    """

    number: int = 0
    positions: dict[Partition, int] = field(default_factory=dict)
    now_s: float | None = None
    replayed: int = 0
    differs: int = 0


@final
class Restart:
    """One restart: :meth:`look` restores the role from a snapshot, :meth:`go_on` calls it as the journal says.

    Between the two the caller fences other processes of the role: who cannot start fences nobody, and the journal is
    read when nobody else adds to it.
    """

    def __init__(self, role: KeptRole, place: Place, *, log: Log, commits: Commits, gate: Gate, clock: Clock) -> None:
        self.log_id = ""
        self.heads: Partition = ("", 0)
        self._role = role
        self._place = place
        self._log = log
        self._commits = commits
        self._gate = gate
        self._clock = clock
        self._head: int | None = None
        self._base: dict[str, Any] | None = None

    def look(self, store: SnapshotStore, *, also: Reader, fresh: bool = False) -> None:
        """Restore the newest good snapshot of a store; ``also`` is connected meanwhile.

        Raises
        ------
        CheckpointError
            If there was a state and none of it can be read; ``fresh`` begins anew all the same.
        """
        with ThreadPoolExecutor(2) as waiting:  # a connection takes as long as a large state does
            waiting.submit(_connected, also)
            waiting.submit(_connected, self._commits.journal)
            self.log_id = self._log.topic_id(self._place.topic("journal"))
            self.heads, self._head = self._look_up_head()
            kept = [] if fresh else store.load()
            self._base = self._newest_good(kept)
        if self._base is None and not fresh and (kept or self._head is not None):
            raise CheckpointError(self._nothing_to_go_on_from(kept=bool(kept)))

    def go_on(self) -> Stand:
        """Do the commits after the snapshot again, writing nothing.

        Raises
        ------
        CheckpointError
            If the journal does not reach back to the snapshot.
        """
        if self._base is None:
            return self._first()
        number, head = self._base["number"], self._head or 0
        stand = Stand(number, offsets_in(self._base["positions"]), self._base["now_s"])
        segments = self._commits.segments(number, offsets_in(self._base["journal"]))
        last = number + len(segments)
        if [s.number for s in segments] != list(range(number + 1, last + 1)) or last < head:
            raise CheckpointError(
                f"{self._place.role}: the journal does not reach back to snapshot {number}; put back a newer one, "
                "or start with --fresh to learn everything anew on purpose"
            )
        if segments:
            self._do_all_again(segments, stand)
        log.info("%s: snapshot %d and %d commits after it", self._place.role, number, len(segments))
        return stand

    # -- the snapshot

    def _look_up_head(self) -> tuple[Partition, int | None]:
        """Where the number of the last snapshot is kept, and that number: it outlives folder and journal."""
        reader = self._log.reader([Subscription(self._place.topic("snapshots"), key=self._place.role)])
        try:
            (place,) = reader.ends()
            heads = [m for m in read_all(reader, self._clock) if m.key == f"{self._place.role}/head"]
        finally:
            reader.close()
        return place, int(heads[-1].value or b"0") if heads else None

    def _newest_good(self, kept: list[tuple[int, bytes]]) -> dict[str, Any] | None:
        for number, data in kept:
            try:
                base = unpack(data)
                self._check_base(base)
                self._role.restore(base["state"])
                self._gate.restore(base["gate"])
            except CheckpointError as error:
                log.warning("%s: snapshot %d cannot be used: %s", self._place.role, number, error)
            else:
                return base
        return None

    def _check_base(self, base: dict[str, Any]) -> None:
        missing = PARTS - base.keys()
        if missing:
            raise CheckpointError(f"damaged: it has no {sorted(missing)}")
        if base["role"] != self._place.role:
            raise CheckpointError(f"it is of role {base['role']}, not of {self._place.role}")
        if base["log"] != self.log_id:
            raise CheckpointError("it belongs to other topics: they were made anew, or this is another broker")

    def _nothing_to_go_on_from(self, *, kept: bool) -> str:
        known = "there are snapshots" if self._head is None else f"snapshot {self._head} is known to {self.heads[0]}"
        elsewhere = "" if kept else "stop this one if the role runs elsewhere, with its own state; else "
        return (
            f"{self._place.role}: {known}, and none that can be used is in its store; {elsewhere}put the state back, "
            "or start with --fresh to learn everything anew on purpose"
        )

    def _first(self) -> Stand:
        """The first start, or one that begins anew: numbers go on from what the journal knows."""
        if self._head is None:
            return Stand()
        known = self._commits.segments(0, {})
        self._gate.sequence = max([self._gate.sequence, *(s.sequence for s in known)])
        return Stand(max([self._head, *(s.number for s in known)]))

    # -- the journal

    def _do_all_again(self, segments: list[Segment], stand: Stand) -> None:
        """With a reader of its own: it reads further than the last commit."""
        reader = self._log.reader(self._place.reads)
        try:
            reader.seek(stand.positions)
            again = Again(reader, self._clock)
            for segment in segments:
                self._do_again(segment, again, stand)
        finally:
            reader.close()
        if again.missing:
            log.warning("%s: %d records were gone that it had read before", self._place.role, again.missing)

    def _do_again(self, segment: Segment, again: Again, stand: Stand) -> None:
        crc = 0
        for call in segment.calls:
            messages = again.messages(segment, call)
            for message in messages:
                self._gate.note(message)
            stand.now_s = call.now_s if stand.now_s is None else max(stand.now_s, call.now_s)
            crc = crc_of(called(self._role, call.kind, messages, call.now_s), crc)
        stand.positions.update(zip(segment.places, segment.positions, strict=True))
        stand.number, stand.replayed = segment.number, stand.replayed + 1
        self._gate.sequence = max(self._gate.sequence, segment.sequence)
        if crc != segment.crc:
            stand.differs += 1
            if stand.differs == 1:
                log.warning("%s: what it wrote in commit %d comes out differently now", self._place.role, stand.number)


def called(role: KeptRole, kind: str, messages: list[Message], now_s: float) -> list[Outgoing]:
    """What a role does, live and again, is this and nothing else."""
    if kind == "start":
        return role.start(now_s)
    if kind == "stop":
        return role.stop(now_s)
    if kind == "reached" and isinstance(role, Patient):
        return role.reached(now_s)
    if kind == "step":
        role.feed(messages, now_s)
    return role.drain(now_s)


def _connected(reader: Reader) -> None:
    """Let a reader connect; what is wrong with it comes up again where it is read."""
    with suppress(LogError):
        reader.ends()
