"""What the Kafka reader and writer need of a client, in our own types; kafka.py gives it, tests may fake it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from streamgp.errors import LogError
from streamgp.wire.delivery import Receipt
from streamgp.wire.log import Message, Outgoing, Partition, Start


class NoOffsetError(LogError):
    """Partitions of which neither the group nor the reader says where to begin."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        super().__init__("no offset is known")
        self.partitions = list(partitions)


class OffsetGoneError(LogError):
    """Partitions that do not hold the offset they were read at: too old, or beyond the end."""

    def __init__(self, places: Mapping[Partition, int]) -> None:
        super().__init__("an offset is gone")
        self.places = dict(places)


class TruncatedError(LogError):
    """Partitions whose log lost records that were read; with the offset where it parts from what is known."""

    def __init__(self, places: Mapping[Partition, int | None]) -> None:
        super().__init__("records that were read are gone")
        self.places = dict(places)


class ConsumerClient(Protocol):
    """A consumer. Any method may raise BrokerUnavailableError, which passes, or another LogError, which stays."""

    def poll(self, timeout_s: float, max_records: int) -> dict[Partition, list[Message]]:
        """Messages of each partition; may raise NoOffsetError, OffsetGoneError or TruncatedError."""

    def assign(self, partitions: list[Partition]) -> None:
        """Read exactly these; those read before keep their positions."""

    def subscribe(self, topics: list[str]) -> None:
        """Read what the group gives out of these."""

    def assigned(self) -> list[Partition]:
        """What is read now."""

    def expect(self, topics: set[str]) -> None:
        """These are to be read: learn of all of them at once, and not of one after another."""

    def size(self, topic: str) -> int:
        """How many partitions a topic has, 0 if there is no such topic."""

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on at this offset."""

    def pause(self, topics: frozenset[str]) -> None:
        """Leave exactly these topics alone."""

    def commit(self, offsets: Mapping[Partition, int], timeout_s: float) -> None:
        """Commit to the group."""

    def bounds(self, partitions: list[Partition], which: Start, timeout_s: float) -> dict[Partition, int]:
        """First offsets, or those after the last message."""

    def place(self, partition: Partition) -> tuple[int, int] | None:
        """Next offset, and the end when it was last seen; None while one is not known."""

    @property
    def unanswered_s(self) -> float | None:
        """How long a request has waited for more than its time; 0 if none does, None without a connection.

        May be asked from any thread.
        """

    def close(self) -> None:
        """Leave the group and let go, within 3 s."""


class ProducerClient(Protocol):
    """A producer. Any method may raise BrokerUnavailableError, FencedError, or another LogError."""

    def expect(self, topics: set[str]) -> None:
        """Records to these follow: learn of all of them at once, and not of one after another."""

    def send(self, record: Outgoing) -> Receipt:
        """Hand a record over; a LogError if it can never be sent."""

    def begin(self) -> None:
        """Open a transaction."""

    def commit(self, offsets: Mapping[str, Mapping[Partition, int]]) -> None:
        """Commit it, with the next offsets of each group."""

    def abort(self) -> None:
        """Abort it."""

    def close(self) -> None:
        """Let go, within 2 s."""
