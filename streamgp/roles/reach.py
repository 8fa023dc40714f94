"""What may be given up: whoever waits for records looks first at all that the broker had when its patience ran out.

A reader that never comes to an end of its input (a backlog of hours, a steady flow) never says that nothing more waits.
So, once a role would give something up by the clock alone, the ends of its topics are looked up, and when it has read
to there it is told so: what it still misses had not been written by then. The ends are fixed: no flood moves them.
"""

from __future__ import annotations

from typing import Protocol, final, runtime_checkable

from streamgp.errors import LogError
from streamgp.wire.log import Outgoing, Partition, Reader

#: shortest time between two looks at the ends
LOOK_S = 0.25


class Reads(Protocol):
    """What of a role counts here."""

    def full(self) -> frozenset[str]:
        """Topics that are not read now."""


@runtime_checkable
class Patient(Protocol):
    """A role that gives something up only when it has read what was there.

    After a poll that left nothing, ``feed([], now_s)`` says that it has; in the middle of an input ``reached`` does.
    """

    def overdue(self, now_s: float) -> bool:
        """Whether by the clock it waits for something in vain."""

    def reached(self, then_s: float) -> list[Outgoing]:
        """All that was written by then, which may be before the last call's time, has been read: what follows of it."""


@final
class Reach:
    """Tells up to when a patient role has read all that there was.

    Examples
    --------
    >>> from streamgp.wire.log import Outgoing, Subscription, TopicSpec
    >>> from streamgp.wire.memory import MemoryLog
    >>> class Waiting:
    ...     def overdue(self, now_s): return True
    ...     def reached(self, then_s): return []
    ...     def full(self): return frozenset()
    >>> log = MemoryLog()
    >>> made = log.create_topics([TopicSpec("t")])
    >>> log.writer().write([Outgoing("t", "A", b"1")] * 3)
    >>> reader = log.reader([Subscription("t")])
    >>> reach = Reach(Waiting(), reader)
    >>> reach.look(10.0), len(reader.poll(0.0, 2)), reach.look(11.0), len(reader.poll(0.0, 2)), reach.look(12.0)
    (None, 2, None, 1, 10.0)
    """

    def __init__(self, role: Reads, reader: Reader) -> None:
        self._role = role
        self._patient: Patient | None = role if isinstance(role, Patient) else None
        self._reader = reader
        self._then_s: float | None = None
        self._ends: dict[Partition, int] = {}
        self._next_s = float("-inf")

    def look(self, now_s: float) -> float | None:
        """The time at which what has been read by now was all that there was; None if no new one is known."""
        if self._patient is None or not self._patient.overdue(now_s):
            self._then_s = None
            return None
        if self._then_s is None:
            if now_s < self._next_s or not self._reader.stats.connected:
                return None
            try:
                self._ends = self._reader.ends()
            except LogError:  # away: nothing is given up meanwhile, and the reader tells it
                return None
            self._then_s, self._next_s = now_s, now_s + LOOK_S
        positions, full = self._reader.stats.positions, self._role.full()
        if any(positions.get(place, 0) < end for place, end in self._ends.items() if place[0] not in full):
            return None
        then_s, self._then_s = self._then_s, None
        return then_s

    def told(self, now_s: float) -> list[Outgoing]:
        """What the role makes of it, if there is a new one."""
        then_s = self.look(now_s)
        return [] if then_s is None or self._patient is None else self._patient.reached(then_s)
