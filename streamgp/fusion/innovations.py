"""What the stations said of their own last forecasts: a short history per station, read as of an event time."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamgp.fusion.table import Table
from streamgp.gp.gaussian import Array

Rows = NDArray[np.intp]
Times = NDArray[np.int64]

DEPTH = 8  # entries kept per station
SAME = 1.5  # horizons within this factor are one: clocks jitter, and a day has 23 hours once a year
FAST, SLOW = 0.2, 0.05  # rates of the running means
NEVER = np.iinfo(np.int64).min // 4
_RATES = np.array([1.0, FAST, SLOW, FAST, SLOW])
VALUE, MEAN_FAST, MEAN_SLOW, SQUARE_FAST, SQUARE_SLOW = range(5)
_CHANNELS = 5


@final
class InnovationStore:
    """The last innovations of every station with their running means, as of any recent event time.

    A reader at time t sees only entries stamped t or earlier: looking ahead is not possible, in whatever order the
    entries came. An entry counts as the innovation of lag l while its age is in ``[l, l + 1)`` periods of its station.

    Examples
    --------
    >>> import numpy as np
    >>> store = InnovationStore()
    >>> store.grow(1)
    >>> for t in (1000, 2000):
    ...     _ = store.push(0, t, t / 1000.0, period_ms=1000)
    >>> store.read(np.array([[0]]), np.array([[1500]]), lag=0)[..., VALUE]
    array([[1.]])
    >>> store.read(np.array([[0]]), np.array([[3000]]), lag=0)[..., VALUE]
    array([[nan]])
    """

    def __init__(self) -> None:
        self.table = Table(
            {
                "time_ms": np.full(DEPTH, NEVER),  # ascending
                "entries": np.zeros((DEPTH, _CHANNELS)),
                "period_ms": np.int64(0),
            }
        )

    def grow(self, n: int) -> None:
        """Make room for stations up to n."""
        self.table.grow(n)

    def push(self, row: int, time_ms: int, innovation: float, *, period_ms: int) -> bool:
        """Take in one innovation; False if it is a repetition, older than the history, or of a longer horizon.

        A station that forecasts several horizons is known by the errors of its shortest.
        """
        known = int(self.table["period_ms"][row])
        if known and period_ms > SAME * known:
            return False
        times, entries = self.table["time_ms"][row], self.table["entries"][row]
        if known > SAME * period_ms:
            times[:] = NEVER
        self.table["period_ms"][row] = period_ms
        at = int(np.searchsorted(times, time_ms))
        if at == 0 or (at < DEPTH and times[at] == time_ms):
            return False
        before = entries[at - 1] if times[at - 1] != NEVER else _FIRST
        entry = _entry(before[None], np.array([innovation]))[0]
        times[: at - 1] = times[1:at]
        entries[: at - 1] = entries[1:at].copy()
        times[at - 1] = time_ms
        entries[at - 1] = entry
        return True

    def push_all(self, rows: Rows, time_ms: int, innovations: Array, *, period_ms: int) -> None:
        """:meth:`push` for distinct rows at one time."""
        times, entries, period = self.table["time_ms"], self.table["entries"], self.table["period_ms"]
        known, newest = period[rows], times[rows, -1]
        usual = (known <= SAME * period_ms) & (period_ms <= SAME * known) & (newest < time_ms) & (newest != NEVER)
        for i in np.flatnonzero(~usual).tolist():
            self.push(int(rows[i]), time_ms, float(innovations[i]), period_ms=period_ms)
        at = rows[usual]
        entry = _entry(entries[at, -1], innovations[usual])
        times[at, :-1] = times[at, 1:]
        times[at, -1] = time_ms
        entries[at, :-1] = entries[at, 1:]
        entries[at, -1] = entry
        period[at] = period_ms

    def read(self, rows: Rows, time_ms: Times | int, *, lag: Rows | int, span: Rows | int = 1) -> Array:
        """Entries (..., 5) of stations as of ``time_ms``, NaN where there is none; all arguments broadcast.

        The youngest entry whose age is in ``[lag, lag + span)`` periods. A row of -1 is nobody.
        """
        times, entries = self.table["time_ms"], self.table["entries"]
        safe = np.maximum(rows, 0)
        period = self.table["period_ms"][safe]
        until = np.asarray(time_ms - lag * period)
        rows = np.broadcast_to(rows, until.shape)
        safe = np.broadcast_to(safe, until.shape)
        at = np.sum(times[safe] <= until[..., None], axis=-1) - 1
        stamped = times[safe, at]
        fresh = (rows >= 0) & (at >= 0) & (stamped > np.maximum(until - span * period, NEVER))
        return np.where(fresh[..., None], entries[safe, at], np.nan)

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return self.table.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Become the history that ``state`` describes."""
        self.table.restore(state)


_FIRST = np.array([0.0, 0.0, 0.0, 1.0, 1.0])


def _entry(last: Array, innovation: Array) -> Array:
    """(B, 5) the entries that follow ``last`` (B, 5)."""
    square = innovation * innovation
    fresh = np.stack([innovation, innovation, innovation, square, square], axis=-1)
    entry = last + _RATES * (fresh - last)
    entry[:, VALUE] = innovation
    return np.asarray(entry)
