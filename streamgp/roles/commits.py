"""Commits: a role's outputs, its journal and its offsets become visible together, once, whatever the broker does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import final

from msgspec.structs import replace

from streamgp.errors import BrokerUnavailableError, CheckpointError, DeliveryError, FencedError, LogError
from streamgp.roles.strays import Strays
from streamgp.wire.clock import Clock, Deadline
from streamgp.wire.deadletter import TOO_LARGE, size_of, smaller
from streamgp.wire.gate import Gate
from streamgp.wire.journal import Segment, decode_segment, empty_segment, encode_segment, is_newer, read_each
from streamgp.wire.log import Log, Outgoing, Partition, Reader, Subscription, Writer

log = logging.getLogger("streamgp.commits")

#: pauses between attempts: the first and the longest
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
#: how long a commit goes on trying once the process is told to stop
LAST_TRY_S = 3.0
#: how long one attempt waits for what was written at once
CONFIRM_S = 10.0
#: attempts that fail although the broker answers, before it is no passing trouble
HOPELESS = 5


@final
class Commits:
    """Writes for one role under a transactional id, so that a second process of the same role fences the first.

    A commit whose fate is unknown, because the broker went away in the middle, is looked up in the journal: it is
    there, or it is tried again. It never happens twice.

    Parameters
    ----------
    journal
        Full name of the journal topic.
    role
        Name of the role, e.g. ``agent.Dublin``; with ``prefix`` before it, it is the transactional id and the
        group of the offsets.
    stop
        Once it is set nothing is waited for longer than 3 s.
    """

    def __init__(self, log: Log, *, prefix: str, role: str, journal: str, clock: Clock, stop: threading.Event) -> None:
        self.group = f"{prefix}.{role}"
        self.role = role
        self.retries = 0
        self._log = log
        self._journal_topic = journal
        self._dead_letters = f"{prefix}.dead-letter"
        self._clock = clock
        self._stop = stop
        self._writer: Writer | None = None
        self._plain = log.writer()
        self._stale = False  # whether the fate of the last transaction is not known
        self._lost: list[Outgoing] = []  # written at once, and failed
        self.journal: Reader = log.reader([Subscription(journal, key=role)])
        self._looked = False  # whether the journal was read with this reader
        self._from: dict[Partition, int] = {}  # there or beyond are the segments of all later commits
        self._end: dict[Partition, int] = {}  # so is this, once another commit of this writer is made
        self._strays = Strays(role, "no segment of its journal")

    def open(self) -> None:
        """Fence whoever writes as this role; returns when the broker has done so.

        Raises
        ------
        BrokerUnavailableError
            If the process was told to stop before that.
        """
        writer = self._log.writer(transactional_id=self.group)
        pause_s = FIRST_PAUSE_S
        try:
            while True:
                try:
                    with writer.transaction():
                        break
                except BrokerUnavailableError:
                    if self._stop.wait(pause_s):
                        raise
                    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        except BaseException:
            writer.close()
            raise
        self._writer = writer

    # -- the journal

    def journal_from(self) -> dict[Partition, int]:
        """Where the segments of all commits after the last one are, whoever makes them: there, or beyond.

        That is not the end of the journal now: who has fenced this process meanwhile may have committed before it.
        The end counts once another commit of this process is made after it.
        """
        self._end = self.journal.ends()
        return self._from

    def segments(self, after: int, start: dict[Partition, int]) -> list[Segment]:
        """This role's committed segments with numbers beyond ``after``, in order, read from ``start`` on.

        What is no segment is left out and told; a copy of one is left out.

        Raises
        ------
        CheckpointError
            If one is of a newer release, or two of a number are not the same.
        """
        found: dict[int, Segment] = {}
        for segment in self._own(start, strict=True):
            if segment.number > after and found.setdefault(segment.number, segment) != segment:
                raise CheckpointError(
                    f"{self.role}: {self._journal_topic} holds two different commits {segment.number}: somebody else "
                    "wrote there, or two logs were put together; start with --fresh to learn everything anew on purpose"
                )
        return [found[number] for number in sorted(found)]

    def latest(self) -> tuple[int | None, int]:
        """The highest number of a commit in the journal, and of a signature; None: there is no commit."""
        number, sequence = None, 0
        for segment in self._own({}, strict=False):
            number, sequence = max(segment.number, number or 0), max(segment.sequence, sequence)
        return number, sequence

    def _own(self, start: dict[Partition, int], *, strict: bool) -> Iterator[Segment]:
        if self._looked:  # over a slow line a reader that goes back takes the end that it knew for the end
            self.journal.close()
            self.journal = self._log.reader([Subscription(self._journal_topic, key=self.role)])
        self._looked = True
        start = start or dict.fromkeys(self.journal.ends(), 0)
        self.journal.seek(start)
        for m in read_each(self.journal, self._clock):
            if m.key != self.role:
                continue
            try:
                segment = decode_segment(m.value)
            except CheckpointError as error:
                if strict and is_newer(m.value):
                    raise CheckpointError(
                        f"{self.role}: {m.topic}[{m.partition}] at offset {m.offset}: {error}; start the release that "
                        "wrote it, or start with --fresh to learn everything anew on purpose"
                    ) from error
                self._strays.add(m, str(error))
                continue
            if segment.role == self.role:
                yield segment
            else:
                self._strays.add(m, f"it is of {segment.role!r}")
        self._from = {place: self.journal.stats.positions.get(place, offset) for place, offset in start.items()}
        self._strays.tell()

    # -- writing

    def write_at_once(self, records: list[Outgoing], gate: Gate) -> None:
        """Write what readers may see before the commit: it carries ids, and a second time changes nothing."""
        if records:
            self._plain.write(gate.signed(records))

    def commit(
        self,
        segment: Segment,
        outputs: list[Outgoing],
        offsets: dict[Partition, int],
        gate: Gate,
    ) -> None:
        """Make it final: what was written at once is confirmed, then all of this is committed in one transaction.

        Each attempt is signed anew, for a signature must not be old when it is written.

        Raises
        ------
        FencedError
            If another process runs as this role.
        LogError
            If it cannot be, or the process was told to stop while the broker was away.
        """
        pause_s, refused, failed = FIRST_PAUSE_S, 0, None
        last = Deadline(self._clock, LAST_TRY_S)
        while True:
            try:
                if failed is not None or self._stale:
                    self._reopen()
                    if self._is_there(segment):
                        break
                self._confirm(gate)
                records = gate.signed(outputs)
                made = encode_segment(replace(segment, sequence=gate.sequence))
                records.append(Outgoing(self._journal_topic, self.role, made))
                self._transact(records, offsets)
                self._from = self._end or self._from
                break
            except FencedError:
                raise
            except (BrokerUnavailableError, DeliveryError) as error:
                self._tell(error)  # before it is asked whether anybody answers, for that may take long
                refused = refused + 1 if self._answers() else 0
                if refused > HOPELESS or (self._stop.is_set() and last.passed()):
                    raise
                failed = error
                if isinstance(error, DeliveryError):
                    outputs = self._made_smaller(outputs, error)
                self._stop.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        if self.retries:
            log.warning("%s: committed after %d attempts that failed", self.role, self.retries)
        self.retries = 0

    def write(self, records: list[Outgoing]) -> None:
        """Write in a transaction of its own; after one that fails the next commit begins with a new writer."""
        try:
            self._transact(records, {})
        except LogError:
            self._stale = True
            raise

    def mark(self, number: int, records: list[Outgoing]) -> None:
        """Write records with an empty commit of this number, to which no commit before it leads."""
        self.write([*records, Outgoing(self._journal_topic, self.role, empty_segment(self.role, number))])

    def close(self) -> None:
        """Let go within 5 s."""
        for client in (self._writer, self._plain, self.journal):
            if client is not None:
                client.close()

    def _confirm(self, gate: Gate) -> None:
        """See that what was written at once is there: what failed is written again, what is on its way is not."""
        if self._lost:
            lost, self._lost = self._lost, []
            self._plain.write(gate.signed(lost))
        try:
            self._plain.flush(CONFIRM_S)
        except DeliveryError as error:
            self._lost += [record for record, _ in error.failed]
            raise

    def _is_there(self, segment: Segment) -> bool:
        """Whether this commit is in the journal; another's of its number or beyond says that this one is fenced."""
        found = self.segments(segment.number - 1, self._from)
        if any(replace(s, sequence=segment.sequence) != segment for s in found):
            raise FencedError(f"another process writes as {self.group}: it made commit {found[-1].number}")
        return bool(found)

    def _made_smaller(self, outputs: list[Outgoing], error: DeliveryError) -> list[Outgoing]:
        """The outputs, with small ones in place of dead letters as large as one that the broker does not take.

        None of them may stop a role for ever, whatever its topic is set to.
        """
        letters = [record for record, why in error.failed if TOO_LARGE.search(why)]
        sizes = [size_of(record) for record in letters if record.topic == self._dead_letters]
        if not sizes:
            return outputs
        log.warning(
            "%s: dead letters of %d bytes and more are written without what they hold: %s takes none; its "
            "max.message.bytes should be 1,000,000 at least",
            self.role,
            min(sizes),
            self._dead_letters,
        )
        return [smaller(o) if o.topic == self._dead_letters and size_of(o) >= min(sizes) else o for o in outputs]

    def _transact(self, records: list[Outgoing], offsets: dict[Partition, int]) -> None:
        if self._writer is None:
            raise BrokerUnavailableError("not connected")
        with self._writer.transaction() as transaction:
            self._writer.write(records)
            if offsets:
                transaction.commit_offsets(self.group, offsets)

    def _reopen(self) -> None:
        """A new writer of the same id: what the old one left open is decided then, one way or the other."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        self.open()
        self._stale = False

    def _answers(self) -> bool:
        try:
            self._log.topics()
        except LogError:
            return False
        return True

    def _tell(self, error: Exception) -> None:
        self.retries += 1
        if self.retries & (self.retries - 1) == 0:
            log.warning("%s: not committed, trying again: %s", self.role, error)
