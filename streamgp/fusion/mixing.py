"""Choosing among forecasts online: AdaHedge with sleeping experts.

Many rows (stations) at once, each on its own: what one row decides never depends on who shares the batch.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamgp.fusion.table import Table
from streamgp.gp.gaussian import Array

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]


@final
class AdaHedge:
    """Weights over K forecasts per row whose regret against each of them is bounded, whatever the data.

    The learning rate ln K / Delta falls with the mixability gap Delta seen so far (de Rooij, van Erven, Grünwald
    and Koolen, 2014, *Follow the leader if you can, hedge if you must*): the summed loss exceeds that of the best
    expert by at most 2 Delta, and by their second-order bound Delta stays below ``sqrt(V ln K) + S (2/3 ln K + 1)``,
    V the summed variance of the losses under the weights and S their largest range. The rule has no scale of its
    own, so with ``memory`` < 1 it is the same algorithm on losses that grow by 1 / memory a step, and the bound holds
    for sums discounted by ``memory``: what went well long ago does not excuse what goes wrong now.

    An expert that sleeps is charged what the mixture was charged (Freund et al., 1997), which leaves the weights
    of the others among themselves as they were.

    Parameters
    ----------
    n_experts
        K, the forecasts to choose from.
    memory
        Discount of past losses per step, in (0, 1].
    handicap
        Loss (K,) that each expert starts with: what it has to make good before it is heard. The regret against it
        grows by as much.

    Examples
    --------
    >>> import numpy as np
    >>> hedge = AdaHedge(2)
    >>> hedge.grow(1)
    >>> rows, awake = np.array([0]), np.ones((1, 2), dtype=bool)
    >>> for _ in range(20):
    ...     hedge.update(rows, np.array([[1.0, 0.0]]), awake)
    >>> hedge.weights(rows, awake).round(3)
    array([[0., 1.]])
    """

    def __init__(self, n_experts: int, *, memory: float = 1.0, handicap: tuple[float, ...] | None = None) -> None:
        self.n_experts = n_experts
        self.memory = memory
        start = np.zeros(n_experts) if handicap is None else np.array(handicap, dtype=np.float64)
        self.table = Table({"loss": start, "gap": 0.0})  # discounted sums; gap is Delta

    def grow(self, n: int) -> None:
        """Make room for rows up to n."""
        self.table.grow(n)

    def weights(self, rows: Rows, awake: Mask) -> Array:
        """(B, K) weights of the experts that are awake (B, K), at least one a row; they add up to one."""
        return _exponential(self._excess(rows, awake), self._rate(rows), awake)

    def update(self, rows: Rows, losses: Array, awake: Mask) -> None:
        """Charge each expert its loss (B, K); rows are distinct."""
        everyone = np.ones_like(awake)
        charged = np.sum(self.weights(rows, awake) * np.where(awake, losses, 0.0), axis=-1)
        losses = np.where(awake, losses, charged[:, None])
        rate = self._rate(rows)
        weight = _exponential(self._excess(rows, everyone), rate, everyone)
        least = np.min(losses, axis=-1)
        finite = np.isfinite(rate)
        eta = np.where(finite, rate / self.memory, 1.0)  # ages what is past before the step, so that the bound holds
        inside = np.sum(weight * np.exp(-eta[:, None] * (losses - least[:, None])), axis=-1)
        # With an infinite rate the mix loss is the least loss among the leaders, who share the weight.
        leaders = np.min(np.where(weight > 0.0, losses, np.inf), axis=-1)
        mixed = np.where(finite, least - np.log(np.maximum(inside, 1e-300)) / eta, leaders)
        loss, gap = self.table["loss"], self.table["gap"]
        gap[rows] = self.memory * gap[rows] + np.maximum(charged - mixed, 0.0)
        loss[rows] = self.memory * loss[rows] + losses

    def _excess(self, rows: Rows, awake: Mask) -> Array:
        loss = np.where(awake, self.table["loss"][rows], np.inf)
        return np.asarray(loss - np.min(loss, axis=-1, keepdims=True))

    def _rate(self, rows: Rows) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.n_experts) / self.table["gap"][rows])

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return self.table.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Become the choice that ``state`` describes."""
        self.table.restore(state)


def _exponential(excess: Array, rate: Array, awake: Mask) -> Array:
    finite = np.isfinite(rate)[:, None]
    eta = np.where(finite, rate[:, None], 1.0)
    soft = np.exp(-eta * np.where(awake, excess, 0.0))
    raw = np.where(finite, soft, (excess <= 0.0).astype(np.float64))
    raw = np.where(awake, raw, 0.0)
    return np.asarray(raw / np.sum(raw, axis=-1, keepdims=True))


def softmax(log_weight: Array) -> Array:
    """Weights (B, S) that are proportional to exp(log_weight) and add up to one per row."""
    raw = np.exp(log_weight - np.max(log_weight, axis=-1, keepdims=True))
    return np.asarray(raw / np.sum(raw, axis=-1, keepdims=True))
