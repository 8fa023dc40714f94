"""When one station's observations come, and whether the next one's time can be true.

Only the order within a station is judged, so a station with a wrong clock harms nobody else.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, final

from typing_extensions import Self

DUPLICATE = "duplicate"
LATE = "late"
ARRIVAL_TIMED = "arrival-timed"


@dataclass(frozen=True)
class ArrivalRules:
    """``max_late_ms`` behind the newest is still accepted; ``burst_factor`` None: bursts are not looked at."""

    max_late_ms: int
    step_back_after: int
    burst_factor: float | None


#: an event time this near to the moment of arrival may be that moment
_ARRIVAL_MS = 2_000
#: intervals seen before a station's cadence is known
_CADENCE_AFTER = 10
#: most times remembered within the lateness bound
_MAX_RECENT = 4_096


@final
class Arrivals:
    """Newest time, cadence and recent times of one station; O(1) a record on average.

    A time is judged, and then either taken or, where the reading that bears it is not believed, only noted: what is
    refused is not seen, so that it is no duplicate when it comes again, and what it follows on is not late.

    Examples
    --------
    >>> arrivals, rules = Arrivals(), ArrivalRules(max_late_ms=60_000, step_back_after=3, burst_factor=20.0)
    >>> def outcome(t):
    ...     why = arrivals.judge(t, now_ms=10**9, rules=rules)
    ...     return why if why else arrivals.take(t, rules)
    >>> [outcome(t) for t in (0, 60_000, 60_000, 30_000, 30_000, 120_000, 1)]
    [None, None, 'duplicate', None, 'duplicate', None, 'late']
    >>> arrivals.note(180_000)
    >>> outcome(180_000), outcome(180_000)
    (None, 'duplicate')
    """

    __slots__ = (
        "before_ms",
        "behind",
        "behind_ms",
        "cadence_ms",
        "intervals",
        "newest_ms",
        "noted_ms",
        "recent",
        "recent_set",
    )

    def __init__(self) -> None:
        self.newest_ms: int | None = None
        self.before_ms: int | None = None  # the newest before the newest, taken or noted
        self.noted_ms: int | None = None  # the last that was noted since one was taken in order
        self.behind = 0  # late records in a row, each after the one before
        self.behind_ms = 0
        self.intervals = 0
        self.cadence_ms = 0.0  # running mean of intervals, each capped at four times the mean
        self.recent: deque[int] = deque()
        self.recent_set: set[int] = set()

    def judge(self, time_ms: int, *, now_ms: int, rules: ArrivalRules) -> str | None:
        """Why the time is not believed, or None: then :meth:`take` or :meth:`note` it."""
        newest = self.newest_ms
        if newest is None:
            return None
        if time_ms > newest:
            factor = rules.burst_factor
            if factor is not None and abs(now_ms - time_ms) <= _ARRIVAL_MS and self._in_burst(time_ms, factor):
                return ARRIVAL_TIMED
            return None
        if time_ms == newest or time_ms in self.recent_set:
            return DUPLICATE
        if newest - time_ms <= rules.max_late_ms:
            return None
        return self._behind(time_ms, rules)

    def take(self, time_ms: int, rules: ArrivalRules) -> None:
        """Take in the time of an accepted reading, which was judged last."""
        newest = self.newest_ms
        if newest is None:
            self._accept(time_ms, rules)
        elif time_ms > newest:
            self._tick(time_ms)
            self._accept(time_ms, rules)
        elif newest - time_ms <= rules.max_late_ms:
            self._remember(time_ms, rules)
        else:
            self.newest_ms = self.before_ms  # a step back
            self.recent.clear()
            self.recent_set.clear()
            self.noted_ms = None
            self._accept(time_ms, rules)

    def note(self, time_ms: int) -> None:
        """Note the time of a reading that is refused for its value: the clock went on, nothing was seen."""
        if self.newest_ms is None or time_ms > self.newest_ms:
            if self.newest_ms is not None:
                self._tick(time_ms)
            self.noted_ms, self.behind = time_ms, 0

    def lag_ms(self, time_ms: int) -> int:
        """How far a time is behind the newest."""
        return 0 if self.newest_ms is None else self.newest_ms - time_ms

    def state(self) -> dict[str, Any]:
        """Plain values; ``noted_ms`` only where there is one."""
        kept = {name: getattr(self, name) for name in self.__slots__ if not name.startswith("recent")}
        if self.noted_ms is None:
            del kept["noted_ms"]
        return {**kept, "recent": list(self.recent)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        arrivals = cls()
        for name, value in state.items():
            setattr(arrivals, name, deque(value) if name == "recent" else value)
        arrivals.recent_set = set(arrivals.recent)
        return arrivals

    def _since(self, time_ms: int) -> int | None:
        """The newest time before this one, taken or noted."""
        return self.noted_ms if self.noted_ms is not None and self.noted_ms < time_ms else self.newest_ms

    def _tick(self, time_ms: int) -> None:
        """Learn the cadence; a time that was noted already, or lies before such a one, says nothing new."""
        since = self._since(time_ms)
        if since is None or (self.noted_ms is not None and time_ms <= self.noted_ms):
            return
        gap, mean = time_ms - since, self.cadence_ms
        self.intervals += 1
        if mean == 0.0:
            self.cadence_ms = float(gap)
        elif gap != mean:
            self.cadence_ms = mean + 0.1 * (min(float(gap), 4.0 * mean) - mean)

    def _accept(self, time_ms: int, rules: ArrivalRules) -> None:
        self.before_ms, self.newest_ms, self.noted_ms, self.behind = self._since(time_ms), time_ms, None, 0
        if rules.max_late_ms:
            self._remember(time_ms, rules)

    def _remember(self, time_ms: int, rules: ArrivalRules) -> None:
        """Keep the time for as long as a twin of it would not be late."""
        recent, oldest = self.recent, (self.newest_ms or time_ms) - rules.max_late_ms
        recent.append(time_ms)
        self.recent_set.add(time_ms)
        while recent[0] < oldest or len(recent) > _MAX_RECENT:
            self.recent_set.discard(recent.popleft())

    def _in_burst(self, time_ms: int, factor: float) -> bool:
        """Of one stamped just now, as if with the moment of delivery: much sooner after the last than the cadence."""
        since = self._since(time_ms)
        return since is not None and self.intervals >= _CADENCE_AFTER and (time_ms - since) * factor < self.cadence_ms

    def _behind(self, time_ms: int, rules: ArrivalRules) -> str | None:
        """Late; unless the newest was one leap ahead and the station has gone on from where it was before.

        Then that leap was wrong, and its time is forgotten: else one wrong stamp would silence the station.
        """
        before = self.before_ms
        self.behind = self.behind + 1 if self.behind and time_ms > self.behind_ms else 1
        self.behind_ms = time_ms
        if before is None or not before < time_ms or rules.step_back_after == 0 or self.newest_ms is None:
            return LATE
        leapt = self.newest_ms - before > max(rules.max_late_ms, 10.0 * self.cadence_ms)
        return None if leapt and self.behind >= rules.step_back_after else LATE
