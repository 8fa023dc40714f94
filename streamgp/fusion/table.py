"""Columns of state with a row per station, which grows as stations join."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray


def span(rows: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """The same rows as a slice where they follow each other, so that reading them copies nothing.

    Examples
    --------
    >>> span(np.array([3, 4, 5])), span(np.array([3, 5]))
    (slice(3, 6, None), array([3, 5]))
    """
    if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return slice(int(rows[0]), int(rows[0]) + len(rows))
    return rows


@final
class Table:
    """Named arrays whose first axis is the station; new rows hold each column's ``fill``.

    Columns are allocated ahead, so that a thousand joins copy each row a few times and not a thousand.

    Parameters
    ----------
    fills
        Column name to the value of one fresh row (any shape; its dtype is the column's).

    Examples
    --------
    >>> table = Table({"count": np.int64(0), "mean": np.zeros(2)})
    >>> table.grow(3)
    >>> table["count"].shape, table["mean"].shape
    ((3,), (3, 2))
    """

    def __init__(self, fills: dict[str, ArrayLike]) -> None:
        self.n = 0
        self._fills: dict[str, NDArray[Any]] = {name: np.asarray(fill) for name, fill in fills.items()}
        self._data = {name: np.empty((0, *fill.shape), fill.dtype) for name, fill in self._fills.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The column (n, ...); writing into it writes into the table."""
        return self._data[name][: self.n]

    def grow(self, n: int) -> None:
        """Make room for rows up to n."""
        if n <= self.n:
            return
        for name, fill in self._fills.items():
            data = self._data[name]
            if n > len(data):
                larger = np.empty((max(n, 2 * len(data)), *fill.shape), fill.dtype)
                larger[: self.n] = data[: self.n]
                self._data[name] = data = larger
            data[self.n : n] = fill
        self.n = n

    def state(self) -> dict[str, Any]:
        """Copies of all columns."""
        return {name: self[name].copy() for name in self._fills}

    def restore(self, state: dict[str, Any]) -> None:
        """Become the table that ``state`` describes.

        Raises
        ------
        ValueError
            If a column is missing or of another shape than this table's.
        """
        lengths = set()
        for name, fill in self._fills.items():
            if name not in state:
                raise ValueError(f"the state has no column {name!r}")
            column = np.array(state[name], dtype=fill.dtype)
            if column.shape[1:] != fill.shape:
                raise ValueError(f"column {name!r} holds rows of shape {column.shape[1:]}, not {fill.shape}")
            self._data[name] = column
            lengths.add(len(column))
        if len(lengths) > 1:
            raise ValueError(f"the columns differ in length: {sorted(lengths)}")
        self.n = lengths.pop() if lengths else 0
