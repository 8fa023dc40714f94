"""Wall time behind a seam, so that waiting is tested without waiting."""

from __future__ import annotations

import time
from typing import Protocol, final


class Clock(Protocol):
    """The time now; ``monotonic_s`` never steps back."""

    def now_ms(self) -> int:
        """Wall time in ms since 1970 UTC."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that only goes forward."""


@final
class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


@final
class ManualClock:
    """A clock that moves when told to: for tests, and for runs in one process that must not wait.

    Examples
    --------
    >>> clock = ManualClock()
    >>> clock.advance(2.5)
    >>> clock.monotonic_s(), clock.now_ms()
    (2.5, 2500)
    """

    def __init__(self, start_ms: int = 0) -> None:
        self._start_ms = start_ms
        self._elapsed_s = 0.0

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("a clock does not go back")
        self._elapsed_s += seconds

    def now_ms(self) -> int:
        return self._start_ms + int(self._elapsed_s * 1000)

    def monotonic_s(self) -> float:
        return self._elapsed_s


@final
class Deadline:
    """A budget of seconds on a clock, shared by every wait of one piece of work."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._at = clock.monotonic_s() + seconds

    def left_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._at - self._clock.monotonic_s())

    def passed(self) -> bool:
        return self._clock.monotonic_s() >= self._at
