"""When the next record is due: as fast as possible, at a rate, or at the speed of its own time."""

from __future__ import annotations

from typing import final

from streamgp.errors import SettingsError
from streamgp.wire.clock import Clock


@final
class Pacer:
    """Due times on a clock that only goes forward; a slow moment is caught up, not added.

    Parameters
    ----------
    clock
        Its ``monotonic_s`` is the time.
    speed
        Seconds of event time a second: 3600 replays an hour each second.
    rate
        Records a second.

    Examples
    --------
    >>> from streamgp.wire.clock import ManualClock
    >>> clock = ManualClock()
    >>> pacer = Pacer(clock, speed=3600.0)
    >>> [pacer.due_s(0, 0), pacer.due_s(1, 3_600_000), pacer.due_s(2, 7_200_000)]
    [0.0, 1.0, 2.0]
    >>> clock.advance(1.5)
    >>> pacer.due_s(2, 7_200_000)
    0.5
    """

    def __init__(self, clock: Clock, *, speed: float | None = None, rate: float | None = None) -> None:
        if speed is not None and rate is not None:
            raise SettingsError("a speed and a rate contradict each other")
        for name, value in (("speed", speed), ("rate", rate)):
            if value is not None and not 0 < value < float("inf"):
                raise SettingsError(f"{name} must be positive, not {value}")
        self._clock = clock
        self._speed = speed
        self._rate = rate
        self._start_s: float | None = None
        self._first_ms = 0

    @property
    def paced(self) -> bool:
        """Whether anything is ever waited for."""
        return self._speed is not None or self._rate is not None

    def due_s(self, index: int, time_ms: int) -> float:
        """Seconds until the record is due, 0 where it is already.

        Parameters
        ----------
        index
            Its place among the records, from 0.
        time_ms
            Its event time; the first one asked for is the start.
        """
        if not self.paced:
            return 0.0
        if self._start_s is None:
            self._start_s, self._first_ms = self._clock.monotonic_s(), time_ms
        after_s = (
            index / self._rate if self._rate is not None else (time_ms - self._first_ms) / 1e3 / (self._speed or 1)
        )
        return max(0.0, self._start_s + after_s - self._clock.monotonic_s())
