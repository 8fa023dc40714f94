"""A reader of the embedded log."""

from __future__ import annotations

import time
from typing import final

from streamgp.errors import BrokerUnavailableError, LogError
from streamgp.wire.groups import Group
from streamgp.wire.log import Message, Partition, ReaderStats, Start, Subscription
from streamgp.wire.memory_topics import MemoryTopics
from streamgp.wire.partition_log import PartitionLog
from streamgp.wire.partitioner import wanted_partitions


class SimulatedCrash(BaseException):
    """The end of a process as a value in its input; no handler of errors may catch it."""


@final
class MemoryReader:
    """Made by :meth:`streamgp.wire.memory.MemoryLog.reader`.

    Examples
    --------
    >>> from streamgp.wire.memory import MemoryLog
    >>> from streamgp.wire.log import Outgoing, TopicSpec
    >>> log = MemoryLog()
    >>> made = log.create_topics([TopicSpec("t")])
    >>> log.writer().write([Outgoing("t", "A", b"1"), Outgoing("t", "A", b"2")])
    >>> reader = log.reader([Subscription("t")], group="g")
    >>> [m.offset for m in reader.poll(0.0)]
    [0, 1]
    >>> reader.commit({("t", 0): 1})
    >>> [m.offset for m in log.reader([Subscription("t")], group="g").poll(0.0)]
    [1]
    """

    def __init__(
        self,
        log: MemoryTopics,
        subscriptions: tuple[Subscription, ...],
        *,
        group: str | None,
        balanced: bool,
        start: Start,
    ) -> None:
        self._log = log
        self._start = start
        self._group: Group | None = None if group is None else log.group(group)
        self._group_name = group
        self._balanced = balanced
        self._number = log.next_number()
        self._generation = -1
        self._position: dict[Partition, int] = {}
        self._first = 0  # of the partitions, the one that is served first at the next poll
        self._closed = False
        self._crashed = False
        self.stats = ReaderStats(connected=True)
        sizes = {s.topic: len(log.partitions(s.topic)) for s in subscriptions}
        self._wanted = wanted_partitions(subscriptions, sizes)
        with log.changed:
            if self._balanced and self._group is not None:
                self._group.join(self._number, self._wanted)
                log.changed.notify_all()
            else:
                self._take_on(self._wanted)

    def poll(self, timeout_s: float, max_records: int = 500, *, without: frozenset[str] = frozenset()) -> list[Message]:
        end = time.monotonic() + timeout_s
        with self._log.changed:
            while True:
                messages = self._collect(max_records, without)
                left = end - time.monotonic()
                if messages or left <= 0:
                    self._note(messages, without)
                    return messages
                self._log.changed.wait(left)
                if self._closed or self._log.closed:
                    self.stats.exhausted = False
                    return []

    def seek(self, offsets: dict[Partition, int]) -> None:
        with self._log.changed:
            self._rebalance()
            for partition, offset in offsets.items():
                if not isinstance(offset, int) or offset < 0:
                    raise ValueError(f"offset of {partition} must be an integer of at least 0, not {offset!r}")
                if partition in self._position:
                    self._position[partition] = offset
                elif not self._balanced:
                    self._part(partition)
                    self._position[partition] = offset

    def commit(self, offsets: dict[Partition, int]) -> None:
        if self._group is None:
            return
        with self._log.changed:
            if not self._log.available or not self._may_commit(self._group):
                self.stats.refused_commits += 1
                return
            self._group.committed.update(offsets)

    def ends(self) -> dict[Partition, int]:
        with self._log.changed:
            if not self._log.available:
                raise BrokerUnavailableError("the log is away")
            self._rebalance()
            return {partition: self._part(partition).end for partition in self._position}

    def close(self) -> None:
        with self._log.changed:
            if not self._closed:
                self._closed = True
                self.stats.connected = False
                if self._group is not None and self._balanced:
                    self._group.leave(self._number)
                self._log.changed.notify_all()

    # -- within the lock

    def _part(self, partition: Partition) -> PartitionLog:
        parts = self._log.partitions(partition[0])
        if not 0 <= partition[1] < len(parts):
            raise LogError(f"topic {partition[0]!r} has no partition {partition[1]}, it has {len(parts)}")
        return parts[partition[1]]

    def _rebalance(self) -> None:
        if not self._balanced or self._group is None or self._generation == self._group.generation:
            return
        self._generation = self._group.generation
        mine = self._group.assigned(self._number)
        for partition in set(self._position) - set(mine):
            # kept in mind: if the partition comes back, what was delivered once is not delivered again
            self.stats.positions[partition] = self._position.pop(partition)
        self._take_on([partition for partition in mine if partition not in self._position])

    def _take_on(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            part = self._part(partition)
            known = [] if self._group is None else [self._group.committed.get(partition, -1)]
            known.append(self.stats.positions.get(partition, -1))
            begin = part.first if self._start == "earliest" else part.end
            self._position[partition] = begin if max(known) < 0 else max(known)

    def _may_commit(self, group: Group) -> bool:
        return self._generation == group.generation if self._balanced else group.empty

    def _collect(self, max_records: int, without: frozenset[str]) -> list[Message]:
        if self._closed or self._crashed or self._log.closed:
            raise LogError("this reader is closed")
        self.stats.connected = self._log.available
        if not self._log.available:
            return []
        self._rebalance()
        partitions = [p for p in self._position if p[0] not in without]
        self._first = (self._first + 1) % max(1, len(partitions))  # so that no partition starves another
        messages: list[Message] = []
        for partition in partitions[self._first :] + partitions[: self._first]:
            messages += self._read(partition, max_records - len(messages), crash=not messages)
            if len(messages) >= max_records:
                break
        return messages

    def _read(self, partition: Partition, limit: int, *, crash: bool) -> list[Message]:
        part = self._part(partition)
        part.expire(self._log.clock.now_ms())
        position = self._position[partition]
        if not part.first <= position <= part.end:
            self.stats.lost[partition] += max(0, part.first - position)
            position = part.first if self._start == "earliest" else part.end
        if crash and part.take_crash(position, self._group_name):
            self._crashed = True
            if self._group is not None and self._balanced:
                self._group.leave(self._number)
            raise SimulatedCrash(f"{partition[0]}[{partition[1]}] at offset {position}")
        messages = part.read(position, part.crash_before(position, limit, self._group_name))
        self._position[partition] = messages[-1].offset + 1 if messages else position
        return messages

    def _note(self, messages: list[Message], without: frozenset[str]) -> None:
        self.stats.messages += len(messages)
        self.stats.positions.update(self._position)
        ends = {partition: self._part(partition).end for partition in self._position}
        behind = sum(end - self._position[partition] for partition, end in ends.items())
        self.stats.behind = behind if self._log.available else None
        read = all(self._position[p] >= end for p, end in ends.items() if p[0] not in without)
        self.stats.exhausted = self._log.available and not messages and read
