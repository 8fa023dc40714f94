"""How large the next error will be: a recursive log-linear model of its variance."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamgp.fusion.recursive import RecursiveRidge
from streamgp.gp.gaussian import Array

Rows = NDArray[np.intp]

LOWEST, HIGHEST = np.log(0.01), np.log(100.0)  # bounds of the log variance of a standardised error
_SURPRISE = 8.0  # the most that one squared error may exceed its forecast and still count in full


@final
class LogVariance:
    """Per row, ``log v = theta'x``, learned from squared errors by recursive scoring.

    The Gamma regression with log link has the working response ``eta + r^2 / v - 1`` at constant weight 1/2 (Fisher
    scoring; McCullagh and Nelder, 1989, section 2.5), so the recursion is the ridge regression of that response on
    x. With running means of squared errors among the x it is a GARCH-like volatility; with an intercept alone, a
    running variance.

    Parameters
    ----------
    ridge : (q,)
        Prior precision of theta.
    prior : (q,)
        Prior mean of theta.
    forgetting, refresh
        As in :class:`~streamgp.fusion.recursive.RecursiveRidge`.

    Examples
    --------
    >>> import numpy as np
    >>> model = LogVariance(ridge=np.array([1.0]), prior=np.zeros(1), forgetting=1.0, refresh=1)
    >>> model.grow(1)
    >>> for _ in range(400):
    ...     model.learn(np.array([0]), np.ones((1, 1)), np.array([4.0]))
    >>> model.predict(np.array([0]), np.ones((1, 1))).round(1)
    array([4.])
    """

    def __init__(self, *, ridge: Array, prior: Array, forgetting: float, refresh: int) -> None:
        self.prior = np.asarray(prior, dtype=np.float64)
        self._model = RecursiveRidge(forgetting=(forgetting,), ridge=np.asarray(ridge)[None, :], refresh=refresh)

    def grow(self, n: int) -> None:
        """Make room for rows up to n, each at the prior."""
        self._model.grow(n)

    def predict(self, rows: Rows, x: Array) -> Array:
        """(B,) variance at x (B, q)."""
        return np.asarray(np.exp(np.clip(self._eta(rows, x), LOWEST, HIGHEST)))

    def learn(self, rows: Rows, x: Array, squared: Array) -> None:
        """Take in the squared errors (B,) that followed x (B, q); rows are distinct."""
        eta = np.clip(self._eta(rows, x), LOWEST, HIGHEST)
        surprise = np.minimum(squared / np.exp(eta) - 1.0, _SURPRISE)
        response = eta + surprise - np.sum(x * self.prior, axis=-1)
        self._model.learn(rows, x, response, np.full(len(rows), 0.5))

    def _eta(self, rows: Rows, x: Array) -> Array:
        return np.asarray(np.sum(x * (self.prior + self._model.table["w"][rows, 0, 0]), axis=-1))

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return self._model.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Become the model that ``state`` describes."""
        self._model.restore(state)
