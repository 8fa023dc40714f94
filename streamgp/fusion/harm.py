"""Which sources have made a station's forecast worse lately."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamgp.fusion.table import Table
from streamgp.gp.gaussian import Array

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]


@final
class HarmWatch:
    """Per row and source the discounted loss that hearing it has added, against its own standard error.

    A source is dropped when its harm exceeds ``threshold`` standard errors and heard again when the sum, which goes
    on being kept as if it were heard, shows no harm any more.

    Parameters
    ----------
    n_sources
        k, sources per row.
    memory
        Discount per step.
    threshold
        Standard errors of harm at which a source is dropped.

    Examples
    --------
    >>> import numpy as np
    >>> watch = HarmWatch(1, memory=0.98, threshold=3.0)
    >>> watch.grow(1)
    >>> for _ in range(30):
    ...     watch.learn(np.array([0]), np.array([[0.3]]))
    >>> bool(watch.dropped[0, 0])
    True
    """

    def __init__(self, n_sources: int, *, memory: float, threshold: float) -> None:
        self.memory = memory
        self.threshold = threshold
        zero = np.zeros(n_sources)
        self.table = Table({"harm": zero, "square": zero, "dropped": np.zeros(n_sources, dtype=bool)})

    @property
    def dropped(self) -> Mask:
        """(n, k) whether each source is dropped at present."""
        return self.table["dropped"]

    def grow(self, n: int) -> None:
        """Make room for rows up to n."""
        self.table.grow(n)

    def learn(self, rows: Rows, added: Array) -> None:
        """Take in what hearing each source added to the loss (B, k); rows are distinct."""
        harm, square, dropped = self.table["harm"], self.table["square"], self.table["dropped"]
        harm[rows] = self.memory * harm[rows] + added
        square[rows] = self.memory * square[rows] + added * added
        t = self.score(rows)
        dropped[rows] = np.where(dropped[rows], t > 0.0, t > self.threshold)

    def score(self, rows: Rows) -> Array:
        """(B, k) harm in standard errors; negative for sources that help."""
        harm, square = self.table["harm"][rows], self.table["square"][rows]
        return np.asarray(np.divide(harm, np.sqrt(square), out=np.zeros_like(harm), where=square > 0.0))

    def forgive(self, row: int, slot: int) -> None:
        """Start afresh in one slot: another source has taken it."""
        for name in ("harm", "square", "dropped"):
            self.table[name][row, slot] = 0

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return self.table.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Become the watch that ``state`` describes."""
        self.table.restore(state)
