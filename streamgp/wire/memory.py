"""The embedded log: topics in the memory of one process, with the semantics of a broker's."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import final

from streamgp.errors import BrokerUnavailableError, LogError, TopicMissingError
from streamgp.wire.clock import Clock, SystemClock
from streamgp.wire.groups import Group
from streamgp.wire.log import Outgoing, Partition, Start, Subscription, TopicSpec
from streamgp.wire.memory_reader import MemoryReader, SimulatedCrash
from streamgp.wire.memory_writer import MemoryWriter
from streamgp.wire.partition_log import Crash, Duplicate, PartitionLog
from streamgp.wire.partitioner import partition_of

__all__ = ["Crash", "Duplicate", "MemoryLog", "MemoryReader", "MemoryWriter", "SimulatedCrash"]


@final
class MemoryLog:
    """Topics, partitions, offsets, groups, retention, compaction and transactions without a broker.

    Thread-safe; readers and writers are each used by one thread. Unknown topics are an error, as on a broker
    that does not create them by itself.

    Parameters
    ----------
    clock
        Gives the time of writing, by which ``retention_ms`` goes.
    retention_records
        How many messages each partition of a topic keeps that names no retention of its own: the log's memory
        is then bounded, and a reader that falls further behind is told what it lost. Default: all.
    max_record_bytes
        A larger record is refused, as a broker would.

    Examples
    --------
    >>> log = MemoryLog()
    >>> log.create_topics([TopicSpec("t", partitions=2)])
    ['t']
    >>> log.writer().write([Outgoing("t", "A", b"1"), Outgoing("t", "A", b"2")])
    >>> [m.value for m in log.reader([Subscription("t")], group="g").poll(0.0)]
    [b'1', b'2']
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        retention_records: int | None = None,
        max_record_bytes: int = 1_048_576,
    ) -> None:
        self.clock = clock or SystemClock()
        self.max_record_bytes = max_record_bytes
        self.changed = threading.Condition(threading.RLock())
        self.available = True
        self.closed = False
        self._retention_records = retention_records
        self._topics: dict[str, list[PartitionLog]] = {}
        self._groups: dict[str, Group] = {}
        self._epochs: dict[str, int] = {}
        self._ids: dict[str, str] = {}
        self._numbers = count(1)

    # -- topics

    def create_topics(self, specs: Iterable[TopicSpec]) -> list[str]:
        made = []
        with self.changed:
            for spec in specs:
                if spec.partitions < 1:
                    raise ValueError(f"topic {spec.name}: partitions must be at least 1, not {spec.partitions}")
                if spec.name not in self._topics:
                    kept = spec
                    if spec.retention_records is None and not spec.compacted:
                        kept = TopicSpec(
                            spec.name,
                            partitions=spec.partitions,
                            retention_ms=spec.retention_ms,
                            retention_records=self._retention_records,
                        )
                    self._topics[spec.name] = [PartitionLog(kept, i) for i in range(spec.partitions)]
                    self._ids[spec.name] = uuid.uuid4().hex
                    made.append(spec.name)
        return made

    def topics(self) -> dict[str, int]:
        with self.changed:
            if not self.available:
                raise BrokerUnavailableError("the log is away")
            return {name: len(parts) for name, parts in self._topics.items()}

    def topic_id(self, topic: str) -> str:
        with self.changed:
            self.partitions(topic)
            return self._ids[topic]

    def partitions(self, topic: str) -> list[PartitionLog]:
        """The partitions of a topic; a TopicMissingError if there is none of that name."""
        try:
            return self._topics[topic]
        except KeyError:
            raise TopicMissingError(
                f"topic {topic!r} does not exist: `streamgp topics create` makes the topics"
            ) from None

    def delete_records(self, offsets: dict[Partition, int]) -> None:
        """Delete, in each partition, all that is older than its offset; readers are told what they lost."""
        with self.changed:
            for (topic, index), offset in offsets.items():
                self.partitions(topic)[index].delete_before(offset)

    # -- readers and writers

    def reader(
        self,
        subscriptions: Sequence[Subscription],
        *,
        group: str | None = None,
        balanced: bool = False,
        start: Start = "earliest",
    ) -> MemoryReader:
        if balanced and group is None:
            raise ValueError("balanced reading needs a group")
        return MemoryReader(self, tuple(subscriptions), group=group, balanced=balanced, start=start)

    def writer(self, *, transactional_id: str | None = None) -> MemoryWriter:
        return MemoryWriter(self, transactional_id=transactional_id)

    def group(self, name: str) -> Group:
        """The group of this name; a new one has committed nothing."""
        return self._groups.setdefault(name, Group())

    def next_number(self) -> int:
        """A number that no other reader of this log has."""
        return next(self._numbers)

    def next_epoch(self, transactional_id: str) -> int:
        """A new epoch of a transactional id, which fences all earlier ones."""
        with self.changed:
            self._epochs[transactional_id] = self._epochs.get(transactional_id, 0) + 1
            return self._epochs[transactional_id]

    def fenced(self, transactional_id: str, epoch: int) -> bool:
        """Whether a later writer has this transactional id."""
        return self._epochs[transactional_id] != epoch

    def append(self, record: Outgoing) -> Partition:
        """Put one record where it belongs; for writers, under the lock."""
        parts = self.partitions(record.topic)
        index = partition_of(record.key, len(parts)) if record.partition is None else record.partition
        if not 0 <= index < len(parts):
            raise LogError(f"topic {record.topic!r} has no partition {index}, it has {len(parts)}")
        parts[index].append(record.key, record.value, record.headers, now_ms=self.clock.now_ms())
        return (record.topic, index)

    # -- inputs and faults for tests

    def feed(self, topic: str, key: str, values: Iterable[bytes | Crash | Duplicate | None]) -> None:
        """Write values of one key, with crashes and duplicates among them.

        A :class:`Crash` ends a reader with :class:`SimulatedCrash` when it reaches that place; a
        :class:`Duplicate` repeats the record before it.
        """
        with self.changed:
            parts = self.partitions(topic)
            part = parts[partition_of(key, len(parts))]
            for value in values:
                if isinstance(value, Crash):
                    part.plant(value)
                elif isinstance(value, Duplicate):
                    part.repeat_last(self.clock.now_ms())
                else:
                    self.append(Outgoing(topic, key, value))
            self.changed.notify_all()

    @contextmanager
    def outage(self) -> Iterator[None]:
        """While it lasts readers get nothing, and what is written is not confirmed."""
        self.available = False
        try:
            yield
        finally:
            with self.changed:
                self.available = True
                self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()
