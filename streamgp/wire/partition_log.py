"""One partition of the embedded log: offsets, retention, compaction, and faults put in on purpose."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter
from typing import final

from streamgp.wire.log import Message, TopicSpec

_offset = attrgetter("offset")


@dataclass(frozen=True, slots=True)
class Crash:
    """An input that ends its reader as ``kill -9`` would; once, and with ``group`` only a reader of that group."""

    group: str | None = None


@dataclass(frozen=True, slots=True)
class Duplicate:
    """An input that repeats the record before it under a new offset, as a producer without idempotence does."""


@final
class PartitionLog:
    """Messages in offset order. ``first`` is the oldest offset that can be asked for, ``end`` the next to come.

    Examples
    --------
    >>> part = PartitionLog(TopicSpec("t", retention_records=2), 0)
    >>> [part.append("k", b"%d" % i, (), now_ms=i) for i in range(3)]
    [0, 1, 2]
    >>> part.first, [m.value for m in part.read(0, limit=10)]
    (1, [b'1', b'2'])
    """

    def __init__(self, spec: TopicSpec, index: int) -> None:
        self._spec = spec
        self._index = index
        self._keeps_some = not spec.compacted and (spec.retention_ms, spec.retention_records) != (None, None)
        self._messages: list[Message] = []
        self._gone = 0  # how many at the head of the list are deleted and wait to be let go together
        self._newest: dict[str | None, int] = {}
        self._crashes: dict[int, list[Crash]] = {}
        self.first = 0
        self.end = 0

    def append(self, key: str, value: bytes | None, headers: tuple[tuple[str, bytes], ...], *, now_ms: int) -> int:
        """Add a message; its offset."""
        offset = self.end
        self._messages.append(Message(self._spec.name, self._index, offset, key, value, now_ms, headers))
        self.end += 1
        if self._spec.compacted:
            self._newest[key] = offset
            if len(self._messages) > 64 + 2 * len(self._newest):
                self.compact()
        if self._keeps_some:
            self.expire(now_ms)
        return offset

    def read(self, offset: int, limit: int) -> list[Message]:
        """At most ``limit`` messages from ``offset`` on."""
        if self._spec.compacted:
            at = bisect_left(self._messages, offset, key=_offset)
        else:
            at = self._gone + max(0, offset - self.first)
        return self._messages[at : at + limit]

    def repeat_last(self, now_ms: int) -> None:
        """The newest message again, under a new offset."""
        if self._messages:
            last = self._messages[-1]
            self.append(last.key or "", last.value, last.headers, now_ms=now_ms)

    def plant(self, crash: Crash) -> None:
        """Let a reader end when it reaches the place where the next message will be."""
        self._crashes.setdefault(self.end, []).append(crash)

    def crash_before(self, offset: int, count: int, group: str | None) -> int:
        """How many of ``count`` messages from ``offset`` on come before the next crash meant for ``group``."""
        places = [
            at - offset
            for at, planted in self._crashes.items()
            if 0 <= at - offset < count and any(crash.group in (None, group) for crash in planted)
        ]
        return min(places, default=count)

    def take_crash(self, offset: int, group: str | None) -> bool:
        """Whether a crash waits at ``offset`` for a reader of ``group``; it happens once."""
        planted = self._crashes.get(offset, [])
        for crash in planted:
            if crash.group in (None, group):
                planted.remove(crash)
                if not planted:
                    del self._crashes[offset]
                return True
        return False

    def expire(self, now_ms: int) -> None:
        """Delete what retention does not keep."""
        if not self._keeps_some:
            return
        spec = self._spec
        if spec.retention_records is not None and self.end - self.first > spec.retention_records:
            self._drop(self.end - self.first - spec.retention_records)
        if spec.retention_ms is not None:
            keep_from = now_ms - spec.retention_ms
            at = self._gone
            while at < len(self._messages) and self._messages[at].timestamp_ms < keep_from:
                at += 1
            self._drop(at - self._gone)

    def delete_before(self, offset: int) -> None:
        """Delete all that is older than ``offset``."""
        if offset > self.end:
            raise ValueError(f"offset {offset} is beyond the end, {self.end}")
        if self._spec.compacted:
            self._messages = [m for m in self._messages if m.offset >= offset]
            self.first = max(self.first, offset)
        else:
            self._drop(max(0, offset - self.first))

    def compact(self) -> None:
        """Keep the newest message of each key, under its own offset; tombstones are kept as well."""
        if self._spec.compacted:
            self._messages = [m for m in self._messages if self._newest[m.key] == m.offset]

    def _drop(self, count: int) -> None:
        self._gone += count
        self.first += count
        if self._gone > 1024 or self._gone == len(self._messages):
            del self._messages[: self._gone]
            self._gone = 0
