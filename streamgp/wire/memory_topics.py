"""The topics of the embedded log, with what its readers and writers share: groups, fences, and the lock."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable
from itertools import count

from streamgp.errors import BrokerUnavailableError, LogError, TopicMissingError
from streamgp.wire.clock import Clock, SystemClock
from streamgp.wire.groups import Group
from streamgp.wire.log import Outgoing, Partition, TopicSpec
from streamgp.wire.partition_log import PartitionLog
from streamgp.wire.partitioner import partition_of


class MemoryTopics:
    """What :class:`streamgp.wire.memory.MemoryLog` keeps; ``changed`` is the lock over all of it.

    ``available`` is False while it is as if no broker were there.
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

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {topic: self.topic_id(topic) for topic in topics}

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

    # -- for readers and writers

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
