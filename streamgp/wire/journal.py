"""The journal of a role: what it was called with between two commits, so that a successor can do the same again.

A role is a pure step: what it writes and what it becomes follow from the messages that it was fed, in which
batches, and at what times. A commit puts that, as one segment, into the same transaction as the outputs. Whoever
starts from an older snapshot calls the role with the same messages and times again, and arrives at the committed
state to the bit, without writing again what was written.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Annotated, TypeAlias, final

import msgspec

from streamgp.errors import BrokerUnavailableError, CheckpointError
from streamgp.wire.clock import Clock, Deadline
from streamgp.wire.log import Log, Message, Outgoing, Partition, Reader, Subscription

VERSION = 1
#: numbers of commits and snapshots are below this: two a second would take 15 million years
MOST = 10**15
#: how long a topic is read for what it holds until nothing moves
PATIENCE_S = 30.0
#: offsets that are no messages (markers of transactions) within one run, at the most
GAP = 16


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages that were fed in a row: ``place`` counts in :attr:`Segment.places`, offsets include both ends."""

    place: int
    first: int
    last: int
    count: int


class Call(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One step of the role at its own time: these messages or none, which says that nothing more waits.

    Other kinds: ``work`` (time passed, and more may wait), ``reached`` (all that was there at this time, which may be
    before that of the call before, has been read), ``start`` and ``stop``.
    """

    now_s: float
    runs: tuple[Run, ...] = ()
    kind: str = "step"


Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MOST)]
Offset: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _Version(msgspec.Struct):
    v: int


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """All calls of one commit. ``positions`` are the next offsets to read after it, one a place.

    ``crc`` is that of all outputs of the role (:func:`crc_of`); ``sequence`` the last number that was signed.
    """

    v: int = VERSION
    role: str
    number: Number
    places: tuple[Partition, ...]
    positions: tuple[Offset, ...]
    calls: tuple[Call, ...]
    crc: int
    sequence: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] = 0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Segment)
_versions = msgspec.msgpack.Decoder(_Version)


def encode_segment(segment: Segment) -> bytes:
    """The bytes of a segment (MessagePack).

    Examples
    --------
    >>> segment = Segment(role="agent.A", number=1, places=(("t", 0),), positions=(5,), crc=0,
    ...                   calls=(Call(0.5, (Run(0, 3, 4, 2),)),))
    >>> decode_segment(encode_segment(segment)) == segment
    True
    """
    return _encoder.encode(segment)


def empty_segment(role: str, number: int) -> bytes:
    """The bytes of a commit in which nothing was done.

    Examples
    --------
    >>> decode_segment(empty_segment("agent.A", 7)).number
    7
    """
    return encode_segment(Segment(role=role, number=number, places=(), positions=(), calls=(), crc=0))


def decode_segment(data: bytes | None) -> Segment:
    """What :func:`encode_segment` wrote.

    Raises
    ------
    CheckpointError
        For anything else, or a version that this release does not read.
    """
    if is_newer(data):
        version = _versions.decode(data or b"").v
        raise CheckpointError(f"a segment of version {version}, this release reads {VERSION}")
    try:
        segment = _decoder.decode(data or b"")
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise CheckpointError(f"no segment of a journal: {error}") from error
    places = len(segment.places)
    if len(segment.positions) != places or any(not 0 <= r.place < places for c in segment.calls for r in c.runs):
        raise CheckpointError("no segment of a journal: its places do not fit together")
    return segment


def is_newer(data: bytes | None) -> bool:
    """Whether it is a segment as a later release writes it, in whatever form: no stray record."""
    try:
        return _versions.decode(data or b"").v > VERSION
    except (msgspec.DecodeError, msgspec.ValidationError):
        return False


def crc_of(outputs: Iterable[Outgoing], crc: int = 0) -> int:
    """A checksum over outputs in their order, going on from ``crc``."""
    for record in outputs:
        crc = zlib.crc32(record.value or b"", zlib.crc32(f"{record.topic}\0{record.key}\0".encode(), crc))
    return crc


@final
class Calls:
    """Collects the calls of one commit.

    Empty polls between which nothing was due are one call, so that a role that waits for days keeps two; a look at
    the time alone, when nothing was due, is none.

    Examples
    --------
    >>> calls = Calls()
    >>> for second in range(5):
    ...     calls.add(float(second), [], inert=True)
    >>> len(calls)
    2
    """

    def __init__(self) -> None:
        self._places: dict[Partition, int] = {}
        self._calls: list[Call] = []
        self._quiet = False  # whether the last call was an inert one
        self._looks = 0  # how many inert steps are at the end

    def __len__(self) -> int:
        return len(self._calls)

    def add(
        self,
        now_s: float,
        messages: list[Message],
        *,
        without: Iterable[Message] = (),
        inert: bool = False,
        kind: str = "step",
    ) -> None:
        """A call with these messages.

        Parameters
        ----------
        without
            Messages that were read and not fed.
        inert
            Nothing was due before the call and nothing came of it.
        """
        if inert and kind == "work" and self._quiet:
            return
        if inert and kind == "step" and self._looks >= 2:
            self._calls[-1] = Call(now_s)
            return
        self._quiet = inert
        self._looks = self._looks + 1 if inert and kind == "step" else 0
        left = {(m.topic, m.partition, m.offset) for m in without}
        self._calls.append(Call(now_s, self._runs(messages, left), kind))

    def _runs(self, messages: list[Message], left: set[tuple[str, int, int]]) -> tuple[Run, ...]:
        runs: list[Run] = []
        for m in messages:
            place = self._places.setdefault((m.topic, m.partition), len(self._places))
            last = runs[-1] if runs else None
            gap = range(0) if last is None else range(last.last + 1, m.offset)
            whole = not left or all((m.topic, m.partition, offset) not in left for offset in gap[:GAP])
            if last is not None and last.place == place and last.last < m.offset and len(gap) < GAP and whole:
                runs[-1] = Run(place, last.first, m.offset, last.count + 1)
            else:
                runs.append(Run(place, m.offset, m.offset, 1))
        return tuple(runs)

    def segment(self, role: str, *, number: int, positions: dict[Partition, int], crc: int) -> Segment:
        """All calls so far, and the positions after them."""
        for place in positions:
            self._places.setdefault(place, len(self._places))
        return Segment(
            role=role,
            number=number,
            places=tuple(self._places),
            positions=tuple(positions[place] for place in self._places),
            calls=tuple(self._calls),
            crc=crc,
        )


@final
class Again:
    """Gives the messages of a journal again, from the log."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._waiting: dict[Partition, list[Message]] = {}
        self.missing = 0

    def messages(self, segment: Segment, call: Call) -> list[Message]:
        """Those of one call; what retention has removed meanwhile is counted in ``missing``."""
        found: list[Message] = []
        for run in call.runs:
            place = segment.places[run.place]
            self._read_to(place, run.last)
            waiting = self._waiting.get(place, [])
            cut = next((i for i, m in enumerate(waiting) if m.offset > run.last), len(waiting))
            taken = [m for m in waiting[:cut] if m.offset >= run.first]
            del waiting[:cut]
            self.missing += run.count - len(taken)
            found += taken
        return found

    def _read_to(self, place: Partition, offset: int) -> None:
        deadline, wait_s = Deadline(self._clock, PATIENCE_S), 0.0
        enough = frozenset(topic for (topic, _), held in self._waiting.items() if len(held) > 20_000) - {place[0]}
        while not (held := self._waiting.setdefault(place, [])) or held[-1].offset < offset:
            messages = self._reader.poll(wait_s, without=enough)
            wait_s = 0.1
            for m in messages:
                self._waiting.setdefault((m.topic, m.partition), []).append(m)
            if messages:
                deadline = Deadline(self._clock, PATIENCE_S)
            elif self._reader.stats.behind == 0 and self._reader.stats.positions.get(place, 0) > offset:
                return
            elif deadline.passed():
                raise BrokerUnavailableError(f"{place[0]}[{place[1]}] could not be read again up to {offset}")


def read_all(reader: Reader, clock: Clock) -> list[Message]:
    """What :func:`read_each` gives, as a list."""
    return list(read_each(reader, clock))


def read_each(reader: Reader, clock: Clock) -> Iterator[Message]:
    """All that the partitions of a reader hold, from where it stands to their ends, one after the other.

    Raises
    ------
    BrokerUnavailableError
        If the broker is away, or somebody's open transaction hides the end, for longer than 30 s.
    """
    deadline, wait_s = Deadline(clock, PATIENCE_S), 0.0
    while True:
        messages = reader.poll(wait_s)
        wait_s = 0.1
        yield from messages
        if messages:
            deadline = Deadline(clock, PATIENCE_S)
        elif reader.stats.behind == 0:
            return
        elif deadline.passed():
            raise BrokerUnavailableError("a topic could not be read to its end")


def place_of(log: Log, topic: str, key: str) -> Partition:
    """The partition in which a key's records are."""
    reader = log.reader([Subscription(topic, key=key)])
    try:
        (place,) = reader.ends()
    finally:
        reader.close()
    return place
