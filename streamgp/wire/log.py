"""The seams to whatever carries the records: the embedded log and Kafka both fit them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import msgspec

#: (topic, partition); topics are full names, prefix included
Partition: TypeAlias = tuple[str, int]
#: where a reader begins that finds no committed offset, and where it goes on when its offset is gone
Start: TypeAlias = Literal["earliest", "latest"]


class Message(msgspec.Struct, frozen=True):
    """One record of a topic as it was carried. ``timestamp_ms`` is when it was written, not its event time."""

    topic: str
    partition: int
    offset: int
    key: str | None
    value: bytes | None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


class Outgoing(msgspec.Struct, frozen=True):
    """One record to be written; ``key`` decides the partition unless ``partition`` does.

    Raises
    ------
    TypeError
        If the key is no text or the value no bytes: most often the two are swapped.
    ValueError
        If the key is empty: all such records would meet on one partition.

    Examples
    --------
    >>> Outgoing("streamgp.observations", "Malin Head", b"{}").partition is None
    True
    """

    topic: str
    key: str
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            raise TypeError(f"key must be text (a station or query id), not {self.key!r}: are key and value swapped?")
        if not self.key:
            raise ValueError("key must not be empty")
        if not isinstance(self.value, bytes) and self.value is not None:
            raise TypeError(f"value must be bytes or None, not {self.value!r}: are key and value swapped?")


@dataclass(frozen=True, slots=True)
class Subscription:
    """What to read of a topic: every partition, or only the one in which the records of ``key`` are.

    The other keys of that partition come along: whoever wants one key alone compares ``Message.key``.
    """

    topic: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to be made. ``None`` for a retention means for ever; ``config`` is passed to the broker as it is.

    ``retention_records`` is kept by the embedded log alone, per partition: Kafka does not count records.
    """

    name: str
    partitions: int = 1
    compacted: bool = False
    retention_ms: int | None = None
    retention_records: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ReaderStats:
    """What a reader has met, for health and metrics.

    ``connected`` is whether somebody answers; ``silent_s`` for how long nobody has, where that is known.
    ``behind`` is how many messages were known to be waiting when it last looked, None when it cannot know;
    ``exhausted`` whether the last poll brought nothing and knew of nothing that waits in the topics that it read;
    ``positions`` the next offset of each partition it reads; ``lost`` counts, per partition, messages that
    retention removed before they were read.
    """

    connected: bool = False
    silent_s: float | None = None
    messages: int = 0
    behind: int | None = None
    exhausted: bool = False
    positions: dict[Partition, int] = field(default_factory=dict)
    lost: Counter[Partition] = field(default_factory=Counter)
    refused_commits: int = 0
    errors: int = 0


@dataclass(slots=True)
class WriterStats:
    """What became of the records handed over: ``written = acknowledged + failed + still on the way``."""

    connected: bool = False
    written: int = 0
    acknowledged: int = 0
    failed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class Reader(Protocol):
    """Reads some partitions in order. One thread uses it."""

    @property
    def stats(self) -> ReaderStats:
        """What it has met so far."""

    def poll(self, timeout_s: float, max_records: int = 500, *, without: frozenset[str] = frozenset()) -> list[Message]:
        """The next messages, oldest first in each partition; empty after ``timeout_s`` without any.

        Empty says that nothing came in time, not that all is read: ``stats.exhausted`` says that. Never
        raises because the broker is away: it returns nothing and tries again at the next call. Topics in
        ``without`` are left alone this time, so that a role that has enough of one input can still read others.

        Raises
        ------
        LogError
            If going on cannot help: the topic is missing, access is denied, the reader is closed.
        """

    def seek(self, offsets: dict[Partition, int]) -> None:
        """Go on at these offsets. A snapshot's offsets are the truth, those of the group a hint."""

    def commit(self, offsets: dict[Partition, int]) -> None:
        """Tell the group the next offset of each partition; a refusal is counted, not raised."""

    def ends(self) -> dict[Partition, int]:
        """Of every partition read, the offset after its last message now.

        Raises
        ------
        BrokerUnavailableError
            If nobody answered in time.
        """

    def close(self) -> None:
        """Leave the group within 5 s; a second call does nothing."""


class Writer(Protocol):
    """Writes records and knows what became of each."""

    @property
    def stats(self) -> WriterStats:
        """What became of the records so far."""

    def write(self, records: list[Outgoing]) -> None:
        """Hand records over, in order; those of one key stay in order."""

    def flush(self, timeout_s: float) -> None:
        """Return when all that was handed over is confirmed.

        Raises
        ------
        DeliveryError
            If any of it failed since the last flush, or was not confirmed in time; it counts and names them.
        """

    def transaction(self) -> AbstractContextManager[Transaction]:
        """All that is written within becomes visible together, with the offsets, or not at all.

        Raises
        ------
        LogError
            If the writer was made without a transactional id.
        FencedError
            If a writer made later has the same transactional id.
        """

    def close(self) -> None:
        """Flush what can be flushed within 5 s and let go; a second call does nothing."""


class Transaction(Protocol):
    """An open transaction of a writer."""

    def commit_offsets(self, group: str, offsets: dict[Partition, int]) -> None:
        """Commit a group's next offsets with the records, in one step."""


class Log(Protocol):
    """Makes readers and writers; the embedded log and a Kafka broker are each one."""

    def reader(
        self,
        subscriptions: Sequence[Subscription],
        *,
        group: str | None = None,
        balanced: bool = False,
        start: Start = "earliest",
    ) -> Reader:
        """A reader of these topics.

        Without ``group`` no offsets are kept. With one it goes on where the group has committed. ``balanced``
        shares the partitions out among the members of the group; otherwise each reader reads all it asked for,
        and no length of work between two polls can cost it a partition.
        """

    def writer(self, *, transactional_id: str | None = None) -> Writer:
        """A writer; one with a transactional id fences every earlier one of that id."""

    def create_topics(self, specs: Iterable[TopicSpec]) -> list[str]:
        """Make those topics that do not exist yet; the names of those made."""

    def topics(self) -> dict[str, int]:
        """Every topic and how many partitions it has.

        Raises
        ------
        BrokerUnavailableError
            If nobody answered in time.
        """

    def topic_id(self, topic: str) -> str:
        """A name of this very topic: one that is deleted and made anew has another.

        Raises
        ------
        TopicMissingError
            If there is no such topic.
        BrokerUnavailableError
            If nobody answered in time.
        """

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """What :meth:`topic_id` says of each, in one request; the errors are the same."""

    def delete_records(self, offsets: dict[Partition, int]) -> None:
        """Delete, in each partition, all that is older than its offset; readers are told what they lost."""

    def close(self) -> None:
        """Close the readers and writers that it made, and let go of everything."""
