"""How far corrections may go: never farther than what they have saved so far, and a small share, can pay for."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamgp.fusion.table import Table
from streamgp.gp.gaussian import Array

Rows = NDArray[np.intp]

_ERROR = 4.0  # the largest standardised error that a correction is insured against
_LARGEST = 1e6  # standard deviations count at most this many times the row's first


@final
class LossBudget:
    """Per row the squared error of the local forecasts, in physical units, and what the corrections added to it.

    A correction by ``s`` standard deviations adds ``sd^2 (s^2 - 2 s e)`` to the squared error, at most
    ``sd^2 (s^2 + 2 c |s|)`` while ``|e| <= c``. It is cut to what the funds can pay for: what corrections have saved so
    far and ``share`` of the local forecasts' squared error. So the summed squared error stays below ``1 + share`` times
    the local one at every step, whatever the corrections are and whatever was said to make them, but for single
    errors beyond c = 4 standard deviations.

    Parameters
    ----------
    share
        Of the local squared error, what corrections may add to it in all.

    Examples
    --------
    >>> import numpy as np
    >>> budget, row, sd = LossBudget(share=0.02), np.array([0]), np.ones(1)
    >>> budget.grow(1)
    >>> budget.limit(row, sd, np.array([1.0]))
    array([0.])
    >>> for _ in range(100):
    ...     budget.learn(row, sd, np.array([1.0]), np.array([0.0]))
    >>> budget.limit(row, sd, np.array([-1.0])).round(3)
    array([-0.243])
    """

    def __init__(self, *, share: float) -> None:
        self.share = share
        # local and added in units of unit^2, the row's first sd: no reading is too large to be squared
        self.table = Table({"unit": np.nan, "local": 0.0, "added": 0.0})

    def grow(self, n: int) -> None:
        """Make room for rows up to n."""
        self.table.grow(n)

    def limit(self, rows: Rows, sd: Array, shift: Array) -> Array:
        """The corrections (B,), in standard deviations sd (B,), as far as the funds allow."""
        local, added = self.table["local"][rows], self.table["added"][rows]
        funds = np.maximum(self.share * local - added, 0.0)
        with np.errstate(divide="ignore"):
            risk = funds / self._scaled(rows, sd)
        farthest = np.sqrt(_ERROR * _ERROR + risk) - _ERROR  # s^2 + 2 c s = risk
        return np.asarray(np.clip(shift, -farthest, farthest))

    def learn(self, rows: Rows, sd: Array, e: Array, shift: Array) -> None:
        """Take in the standardised errors e (B,) of local forecasts that were corrected by ``shift``; distinct rows."""
        unit = self.table["unit"]
        unit[rows] = np.where(np.isnan(unit[rows]), sd, unit[rows])
        scale = self._scaled(rows, sd)
        self.table["local"][rows] += scale * e * e
        self.table["added"][rows] += scale * shift * (shift - 2.0 * e)

    def _scaled(self, rows: Rows, sd: Array) -> Array:
        """(B,) sd^2 in units of the row's own; one while it has none."""
        unit = self.table["unit"][rows]
        times = np.where(np.isnan(unit), 1.0, np.minimum(sd / unit, _LARGEST))
        return np.asarray(times * times)

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return self.table.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Become the budget that ``state`` describes."""
        self.table.restore(state)
