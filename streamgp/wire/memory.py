"""The embedded log: topics in the memory of one process, with the semantics of a broker's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import final

from streamgp.wire.log import Outgoing, Start, Subscription
from streamgp.wire.memory_reader import MemoryReader, SimulatedCrash
from streamgp.wire.memory_topics import MemoryTopics
from streamgp.wire.memory_writer import MemoryWriter
from streamgp.wire.partition_log import Crash, Duplicate
from streamgp.wire.partitioner import partition_of

__all__ = ["Crash", "Duplicate", "MemoryLog", "MemoryReader", "MemoryWriter", "SimulatedCrash"]


@final
class MemoryLog(MemoryTopics):
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
    >>> from streamgp.wire.log import TopicSpec
    >>> log = MemoryLog()
    >>> log.create_topics([TopicSpec("t", partitions=2)])
    ['t']
    >>> log.writer().write([Outgoing("t", "A", b"1"), Outgoing("t", "A", b"2")])
    >>> [m.value for m in log.reader([Subscription("t")], group="g").poll(0.0)]
    [b'1', b'2']
    """

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
