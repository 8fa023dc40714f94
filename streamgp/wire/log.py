"""The two seams to whatever carries the records: an embedded log and Kafka both fit them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

#: (topic, partition); topics are full names, prefix included
Partition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Message:
    """One record of a topic as it was carried. ``timestamp_ms`` is when it was written, not its event time."""

    topic: str
    partition: int
    offset: int
    key: str | None
    value: bytes | None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record to be written; ``key`` decides the partition unless ``partition`` does."""

    topic: str
    key: str
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = field(default=())
    partition: int | None = None


class Reader(Protocol):
    """Reads some partitions in order. One thread uses it."""

    def poll(
        self, timeout_s: float, max_records: int = 500, *, without: frozenset[str] = frozenset()
    ) -> list[Message]:
        """The next messages, oldest first in each partition; empty after ``timeout_s`` without any.

        Never raises because the broker is away: it returns nothing and tries again at the next call. Topics in
        ``without`` are left alone this time, so that a role that has enough of one input can still read others.
        """

    def seek(self, offsets: dict[Partition, int]) -> None:
        """Go on at these offsets. A snapshot's offsets are the truth, those of the group a hint."""

    def commit(self, offsets: dict[Partition, int]) -> None:
        """Tell the group the next offset of each partition; a refusal is counted, not raised."""

    def ends(self) -> dict[Partition, int]:
        """Of every partition read, the offset after its last message now."""

    def close(self) -> None:
        """Leave the group within 5 s; a second call does nothing."""


class Writer(Protocol):
    """Writes records and knows what became of each."""

    def write(self, records: list[Outgoing]) -> None:
        """Hand records over, in order; those of one key stay in order."""

    def flush(self, timeout_s: float) -> None:
        """Return when all that was handed over is confirmed.

        Raises
        ------
        LogError
            If any of it failed or was not confirmed in time; its message counts them.
        """

    def close(self) -> None:
        """Flush what can be flushed within 5 s and let go; a second call does nothing."""
