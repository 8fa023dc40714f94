"""How a role starts again: from the last good snapshot and the journal after it, to where the last commit was."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, final

from streamgp.errors import CheckpointError, KeptSettingsError, LogError
from streamgp.roles.commits import Commits
from streamgp.roles.elsewhere import Elsewhere
from streamgp.roles.heads import Heads
from streamgp.roles.place import KeptRole, Place
from streamgp.roles.plain import offsets_in
from streamgp.roles.reach import Patient
from streamgp.wire.checkpoint import SnapshotStore, unpack
from streamgp.wire.clock import Clock
from streamgp.wire.gate import Gate
from streamgp.wire.journal import MOST, Again, Segment, crc_of
from streamgp.wire.log import Log, Message, Outgoing, Partition, Reader

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


class _OfAnotherError(CheckpointError):
    """A snapshot is whole, and not of this role or these topics."""


@dataclass(frozen=True, slots=True)
class _Base:
    """What a snapshot says of the place that it is of."""

    number: int
    positions: dict[Partition, int]
    journal: dict[Partition, int]
    now_s: float | None
    log: str


def _journal_in(log_id: object) -> str:
    """The identity of the journal among those of all topics."""
    return str(log_id).partition(" ")[0]


def _inputs_in(log_id: str) -> dict[str, str]:
    """That of each topic that is read; none in a snapshot of a release that kept the journal's alone.

    Examples
    --------
    >>> _inputs_in("9c1f p.observations=77ab p.queries=d02e"), _inputs_in("9c1f")
    ({'p.observations': '77ab', 'p.queries': 'd02e'}, {})
    """
    return {topic: told for topic, _, told in (word.partition("=") for word in log_id.split(" ")[1:])}


def _base_of(base: dict[str, Any]) -> _Base:
    try:
        number, now_s = int(base["number"]), float(base["now_s"])
        return _Base(number, offsets_in(base["positions"]), offsets_in(base["journal"]), now_s, str(base["log"]))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"damaged: {error}") from error


@final
class Restart:
    """One restart: :meth:`look` restores the role from a snapshot, :meth:`go_on` calls it as the journal says.

    Between the two the caller fences other processes of the role: who cannot start fences nobody, and what the others
    committed meanwhile is read when nobody adds to it any more.

    Parameters
    ----------
    fresh
        Begin anew, though there was a state.
    """

    def __init__(
        self,
        role: KeptRole,
        place: Place,
        *,
        log: Log,
        commits: Commits,
        store: SnapshotStore,
        gate: Gate,
        clock: Clock,
        fresh: bool = False,
    ) -> None:
        self.log_id = ""
        self.heads = Heads(log, place, clock=clock)
        self.elsewhere = Elsewhere(log, place, clock=clock)
        self._role = role
        self._place = place
        self._log = log
        self._commits = commits
        self._store = store
        self._gate = gate
        self._clock = clock
        self._fresh = fresh
        self._base: _Base | None = None
        self._damaged = 0  # the highest number of a snapshot that was, and cannot be used

    def look(self, *, also: Reader) -> None:
        """Restore the newest good snapshot of the store; ``also`` is connected meanwhile.

        Raises
        ------
        CheckpointError
            If there was a state and none of it can be read; ``fresh`` begins anew all the same.
        KeptSettingsError
            If the newest good one is of no use with the settings.
        """
        with ThreadPoolExecutor(3) as waiting:  # connections and heads take as long as a large state does
            waiting.submit(_connected, also)
            waiting.submit(_connected, self._commits.journal)
            self._identify()
            heads = waiting.submit(self.heads.look)
            if self._fresh:
                heads.result()
            else:
                self._restore(heads.result)
                if self._base is None:
                    self.elsewhere.look()
                else:
                    self._check_inputs(self._base)
        if self.elsewhere.number is not None:
            raise CheckpointError(
                f"{self._place.role}: commits up to {self.elsewhere.number} of it are in {self.elsewhere.topic}: it "
                f'worked with state_topics = "{self.elsewhere.setting}"; set that again, with the state of then, or '
                "start with --fresh to learn everything anew on purpose"
            )

    def go_on(self) -> Stand:
        """Do the commits after the snapshot again, writing nothing.

        Raises
        ------
        CheckpointError
            If the journal does not lead on from the snapshot, or another process worked since :meth:`look` and its
            state is not to be had.
        """
        if self._fresh:
            return self._anew()
        base = self._base
        if base is None:
            begun = self._commits.segments(0, {})
            if not begun:
                return Stand()
            base = self._base_of_another(begun)
        segments = self._commits.segments(base.number, base.journal)
        self._check_chain(base.number, segments)
        stand = Stand(base.number, base.positions, base.now_s)
        if segments:
            self._do_all_again(segments, stand)
        log.info("%s: snapshot %d and %d commits after it", self._place.role, base.number, len(segments))
        return stand

    # -- the snapshot

    def _restore(self, look: Callable[[], object]) -> None:
        """From the store; what the heads say is needed only after that."""
        kept = self._store.load()
        self._base = self._newest_good(kept)
        look()
        if self._base is None and (kept or self.heads.number is not None):
            raise CheckpointError(self._nothing_to_go_on_from(kept=bool(kept)))

    def _base_of_another(self, begun: list[Segment]) -> _Base:
        """Of the process of this role that began after this one had looked."""
        self._restore(self.heads.look)
        if self._base is None:
            raise CheckpointError(
                f"{self._place.role}: commits {begun[0].number} to {begun[-1].number} are in "
                f"{self._place.state_topic('journal')}, and no snapshot is in its store; stop this one if the role "
                "runs elsewhere, with its own state; else put the state back, or start with --fresh to learn "
                "everything anew on purpose"
            )
        return self._base

    def _newest_good(self, kept: list[tuple[int, bytes]]) -> _Base | None:
        for number, data in kept:
            try:
                base = unpack(data)
                self._check_base(base)
                found = _base_of(base)
                self._role.restore(base["state"])
                self._gate.restore(base["gate"])
            except KeptSettingsError as error:  # nothing is damaged, and an older one would not fit them better
                raise KeptSettingsError(f"{self._place.role}: {error}") from error
            except CheckpointError as error:
                log.warning("%s: snapshot %d cannot be used: %s", self._place.role, number, error)
                if not isinstance(error, _OfAnotherError):
                    self._damaged = max(self._damaged, number)
            else:
                return found
        return None

    def _check_base(self, base: dict[str, Any]) -> None:
        missing = PARTS - base.keys()
        if missing:
            raise CheckpointError(f"damaged: it has no {sorted(missing)}")
        if base["role"] != self._place.role:
            raise _OfAnotherError(f"it is of role {base['role']}, not of {self._place.role}")
        if _journal_in(base["log"]) != _journal_in(self.log_id):
            raise _OfAnotherError("it belongs to other topics: they were made anew, or this is another broker")

    def _identify(self) -> None:
        journal = self._place.state_topic("journal")
        inputs = sorted({s.topic for s in self._place.reads})
        ids = self._log.topic_ids([journal, *inputs])
        self.log_id = " ".join([ids[journal], *(f"{topic}={ids[topic]}" for topic in inputs)])

    def _check_inputs(self, base: _Base) -> None:
        """The offsets in a topic that is gone say nothing of the one that has its name now."""
        was, now = _inputs_in(base.log), _inputs_in(self.log_id)
        anew = [topic for topic in now if was.get(topic, now[topic]) != now[topic]]
        if anew:
            raise CheckpointError(
                f"{self._place.role}: {', '.join(anew)} was deleted and made anew since snapshot {base.number}, whose "
                "offsets lead nowhere in it; write there again what is to be learned, and start with --fresh to learn "
                "everything anew on purpose"
            )

    def _nothing_to_go_on_from(self, *, kept: bool) -> str:
        number = self.heads.number
        known = "there are snapshots" if number is None else f"snapshot {number} is known to {self.heads.at[0]}"
        elsewhere = "" if kept else "stop this one if the role runs elsewhere, with its own state; else "
        return (
            f"{self._place.role}: {known}, and none that can be used is in its store; {elsewhere}put the state back, "
            "or start with --fresh to learn everything anew on purpose"
        )

    def _anew(self) -> Stand:
        """Numbers go on beyond all that is known, and one is left out: no journal leads from an old snapshot here.

        Whoever begins anew marks that in the journal, so that the head of before is not behind it.
        """
        self.elsewhere.look()
        journaled, sequence = self._commits.latest()
        self._gate.sequence = max(self._gate.sequence, sequence)
        found = (self.heads.number, journaled, self.elsewhere.number, *self._store.numbers())
        known = [n for n in found if n is not None]
        number = max(known) + 2 if known else 0
        if number + 1 >= MOST:
            raise CheckpointError(
                f"{self._place.role}: number {number - 2} of a commit or snapshot is known, which no role ever "
                "reaches: somebody else wrote it; make the topics journal and snapshots anew, and an empty store"
            )
        return Stand(number)

    def _check_chain(self, number: int, segments: list[Segment]) -> None:
        """That the segments lead on from a snapshot, one by one, to the last that is known."""
        found = [s.number for s in segments]
        known = max([self.heads.number or 0, self._damaged, *found])
        missing = next((n for n, has in enumerate(found, number + 1) if n != has), number + len(found) + 1)
        if missing <= known:
            raise CheckpointError(
                f"{self._place.role}: the journal does not reach back to snapshot {number}: commit {missing} is not in "
                f"{self._place.state_topic('journal')}, though {known} is known; it is too old, or the role "
                "began anew after it; put back a newer one, or start with --fresh to learn everything anew on purpose"
            )

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
