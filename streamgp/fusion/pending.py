"""Answers that wait for their truth: a short queue per station."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamgp.fusion.table import Table
from streamgp.gp.gaussian import Array

Rows = NDArray[np.intp]

_FREE = np.iinfo(np.int64).min // 4
_FIRST_SIZE, _LARGEST = 2, 256


@final
class Pending:
    """Per row the answers given, by target time; each holds named vectors of fixed widths.

    The queue grows to the answers that a horizon keeps waiting, up to 256 a row; then the oldest are forgotten.

    Examples
    --------
    >>> import numpy as np
    >>> queue = Pending({"z": 2})
    >>> queue.grow(1)
    >>> queue.put(np.array([0]), np.array([1000]), {"z": np.array([[1.0, 2.0]])})
    >>> rows, found = queue.take(np.array([0]), 1000, tolerance_ms=0)
    >>> rows, found["z"]
    (array([0]), array([[1., 2.]]))
    """

    def __init__(self, widths: dict[str, int]) -> None:
        ends = np.cumsum(list(widths.values())).tolist()
        self.slices = {name: slice(end - width, end) for (name, width), end in zip(widths.items(), ends, strict=True)}
        self._width = ends[-1]
        self._size = _FIRST_SIZE
        self.table = self._empty(self._size)

    def _empty(self, size: int) -> Table:
        return Table({"target_ms": np.full(size, _FREE), "values": np.zeros((size, self._width))})

    def grow(self, n: int) -> None:
        """Make room for rows up to n."""
        self.table.grow(n)

    def put(self, rows: Rows, target_ms: NDArray[np.int64], values: dict[str, Array]) -> None:
        """Queue one answer for each of the distinct rows; an answer for the same target replaces the earlier one."""
        self._make_room(rows, target_ms)
        times = self.table["target_ms"]
        same = times[rows] == target_ms[:, None]
        # A free place is older than any answer, so the place to take is the same target's or the oldest.
        at = np.where(same.any(axis=-1), np.argmax(same, axis=-1), np.argmin(times[rows], axis=-1))
        times[rows, at] = target_ms
        packed = np.empty((len(rows), self._width))
        for name, where in self.slices.items():
            packed[:, where] = values[name]
        self.table["values"][rows, at] = packed

    def _make_room(self, rows: Rows, target_ms: NDArray[np.int64]) -> None:
        waiting = self.table["target_ms"][rows]
        full = (waiting != _FREE).all(axis=-1) & (waiting != target_ms[:, None]).all(axis=-1)
        if not full.any() or self._size >= _LARGEST:
            return
        old, n = self.table, self.table.n
        self._size *= 2
        self.table = self._empty(self._size)
        self.table.grow(n)
        for name in ("target_ms", "values"):
            self.table[name][:, : self._size // 2] = old[name]

    def take(self, rows: Rows, time_ms: int, *, tolerance_ms: int) -> tuple[Rows, dict[str, Array]]:
        """Take out each row's answer whose target is nearest to ``time_ms``, and all older ones.

        Returns the rows (B',) that had one within the tolerance, and its vectors (B', width) by name.
        """
        times = self.table["target_ms"]
        away = np.where(times[rows] == _FREE, np.iinfo(np.int64).max, np.abs(times[rows] - time_ms))
        at = np.argmin(away, axis=-1)
        found = away[np.arange(len(rows)), at] <= tolerance_ms
        hit, place = rows[found], at[found]
        packed = self.table["values"][hit, place]
        until = np.where(found, times[rows, at], time_ms)
        times[rows] = np.where(times[rows] <= until[:, None], _FREE, times[rows])
        return hit, {name: packed[:, where] for name, where in self.slices.items()}

    def blank(self, row: int, name: str, column: int) -> None:
        """Set one column of one vector to zero in all answers of a row: what it stood for has changed."""
        self.table["values"][row, :, self.slices[name].start + column] = 0.0

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return self.table.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Become the queue that ``state`` describes."""
        self._size = int(np.shape(state["target_ms"])[1])
        self.table = self._empty(self._size)
        self.table.restore(state)
