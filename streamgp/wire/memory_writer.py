"""A writer to the embedded log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from streamgp.errors import DeliveryError, FencedError, LogError
from streamgp.wire.deadletter import size_of
from streamgp.wire.log import Outgoing, Partition, WriterStats
from streamgp.wire.memory_topics import MemoryTopics


@final
class MemoryTransaction:
    """What is written and committed together at the end."""

    def __init__(self) -> None:
        self.records: list[Outgoing] = []
        self.offsets: dict[str, dict[Partition, int]] = {}

    def commit_offsets(self, group: str, offsets: dict[Partition, int]) -> None:
        self.offsets.setdefault(group, {}).update(offsets)


@final
class MemoryWriter:
    """Made by :meth:`streamgp.wire.memory.MemoryLog.writer`.

    Examples
    --------
    >>> from streamgp.wire.memory import MemoryLog
    >>> from streamgp.wire.log import TopicSpec
    >>> log = MemoryLog()
    >>> made = log.create_topics([TopicSpec("t")])
    >>> writer = log.writer(transactional_id="A")
    >>> with writer.transaction() as transaction:
    ...     writer.write([Outgoing("t", "A", b"1")])
    ...     transaction.commit_offsets("g", {("in", 0): 7})
    >>> writer.stats.acknowledged, log.group("g").committed
    (1, {('in', 0): 7})
    """

    def __init__(self, log: MemoryTopics, *, transactional_id: str | None) -> None:
        self._log = log
        self._id = transactional_id
        self._epoch = 0 if transactional_id is None else log.next_epoch(transactional_id)
        self._transaction: MemoryTransaction | None = None
        self._failed: list[tuple[Outgoing, str]] = []
        self._closed = False
        self.stats = WriterStats(connected=True)

    def write(self, records: list[Outgoing]) -> None:
        if self._closed:
            raise LogError("this writer is closed")
        if self._id is not None:
            self._check_fence()
            if self._transaction is None:
                raise LogError("a transactional writer writes within transaction()")
        with self._log.changed:
            self.stats.written += len(records)
            for record in records:
                if size_of(record) > self._log.max_record_bytes:
                    self._fail(record, f"larger than {self._log.max_record_bytes} bytes")
                elif not self._log.available:
                    self._fail(record, "the log is away")
                elif self._transaction is not None:
                    self._log.partitions(record.topic)
                    self._transaction.records.append(record)
                else:
                    self._log.append(record)
                    self.stats.acknowledged += 1
            self._log.changed.notify_all()

    def flush(self, timeout_s: float) -> None:
        if self._failed:
            failed, self._failed = self._failed, []
            raise DeliveryError(f"{len(failed)} records were not written: {failed[0][1]}", failed)

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        if self._id is None:
            raise LogError("this writer was made without a transactional id")
        if self._transaction is not None:
            raise LogError("a transaction is open already")
        self._check_fence()
        self._transaction = MemoryTransaction()
        try:
            yield self._transaction
            self._commit(self._transaction)
        finally:
            self._transaction = None

    def close(self) -> None:
        self._closed = True
        self.stats.connected = False

    def _commit(self, transaction: MemoryTransaction) -> None:
        with self._log.changed:
            self._check_fence()
            if not self._log.available:
                for record in transaction.records:
                    self._fail(record, "the log is away")
            self.flush(0.0)  # if one record failed none is written
            for record in transaction.records:
                self._log.append(record)
            self.stats.acknowledged += len(transaction.records)
            for group, offsets in transaction.offsets.items():
                self._log.group(group).committed.update(offsets)
            self._log.changed.notify_all()

    def _check_fence(self) -> None:
        if self._id is not None and self._log.fenced(self._id, self._epoch):
            raise FencedError(f"another process writes as {self._id!r}; this one must stop")

    def _fail(self, record: Outgoing, reason: str) -> None:
        self.stats.failed += 1
        self.stats.reasons[reason] += 1
        self._failed.append((record, reason))
