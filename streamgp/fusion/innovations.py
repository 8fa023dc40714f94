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
        times = self.table["time_ms"][row]
        if known > SAME * period_ms:
            times[:] = NEVER
        self.table["period_ms"][row] = period_ms
        at = int(np.searchsorted(times, time_ms))
        if at == 0 or (at < DEPTH and times[at] == time_ms):
            return False
        entry = self._entry(row, at - 1, innovation)
        times[: at - 1] = times[1:at]
        self.table["entries"][row, : at - 1] = self.table["entries"][row, 1:at]
        times[at - 1] = time_ms
        self.table["entries"][row, at - 1] = entry
        return True

    def _entry(self, row: int, before: int, innovation: float) -> Array:
        last = (
            self.table["entries"][row, before]
            if self.table["time_ms"][row, before] != NEVER
            else np.array([0, 0, 0, 1.0, 1.0])
        )
        square = innovation * innovation
        return np.array(
            [
                innovation,
                last[MEAN_FAST] + FAST * (innovation - last[MEAN_FAST]),
                last[MEAN_SLOW] + SLOW * (innovation - last[MEAN_SLOW]),
                last[SQUARE_FAST] + FAST * (square - last[SQUARE_FAST]),
                last[SQUARE_SLOW] + SLOW * (square - last[SQUARE_SLOW]),
            ]
        )

    def read(self, rows: Rows, time_ms: Times, *, lag: int, span: int = 1) -> Array:
        """Entries (..., 5) of the stations ``rows`` (...) as of ``time_ms`` (...), NaN where there is none.

        The youngest entry whose age is in ``[lag, lag + span)`` periods. A row of -1 is nobody.
        """
        shape = np.shape(rows)
        flat = np.asarray(rows).reshape(-1)
        somebody = flat >= 0
        safe = np.where(somebody, flat, 0)
        period = self.table["period_ms"][safe]
        until = np.broadcast_to(time_ms, shape).reshape(-1) - lag * period
        seen = np.sum(self.table["time_ms"][safe] <= until[:, None], axis=-1)
        at = np.maximum(seen - 1, 0)
        stamped = self.table["time_ms"][safe, at]
        fresh = somebody & (seen > 0) & (stamped != NEVER) & (stamped > until - span * period)
        found = np.where(fresh[:, None], self.table["entries"][safe, at], np.nan)
        return found.reshape((*shape, _CHANNELS))

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return self.table.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Become the history that ``state`` describes."""
        self.table.restore(state)
