"""How far each agent's claims were borne out, by the station that asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from streamgp.fusion.calibrated import Calibration
from streamgp.fusion.fused import Mask
from streamgp.fusion.tally import LEAST_EVIDENCE
from streamgp.gp.gaussian import Array

_PRIOR = 10.0  # answers of perfect calibration that every record starts with
_LEAST_FACTOR = 0.25  # claims are made no more than twice as sure as they come


@final
class PairRecords:
    """Sums of squared errors in units of the claimed variance, a row an asker and a column an agent.

    Parameters
    ----------
    keep
        What a record keeps of its weight with every new score.
    """

    def __init__(self, keep: float) -> None:
        self._keep = keep
        self._askers: dict[str, int] = {}
        self._agents: dict[str, int] = {}
        self._sum: Array = np.zeros((0, 0))
        self._weight: Array = np.zeros((0, 0))

    def learn(self, asker: str, agents: Sequence[str], z2: Array) -> None:
        """Take in one query's (n, m) squared errors; NaN where nothing can be said."""
        row, columns = self._place(asker, agents)
        known = np.isfinite(z2)
        count = known.sum(axis=1)
        told = count > 0
        score = np.where(known, z2, 0.0).sum(axis=1)[told] / count[told]
        columns = columns[told]
        self._sum[row, columns] = self._keep * self._sum[row, columns] + score
        self._weight[row, columns] = self._keep * self._weight[row, columns] + 1.0

    def overall(self, agents: Sequence[str], limit: float) -> tuple[Array, Mask]:
        """(n,) factor of each agent, the median over its askers, and whether it is barred."""
        columns = [self._agents.get(a, -1) for a in agents]
        known = np.array([c >= 0 for c in columns], dtype=np.bool_)
        factor, evidence = np.ones(len(columns)), np.zeros(len(columns))
        if known.any():
            chosen = [c for c in columns if c >= 0]
            total, weight = self._sum[:, chosen], self._weight[:, chosen]
            ratio = np.sort(np.where(weight > 0, (total + _PRIOR) / (weight + _PRIOR), np.inf), axis=0)
            askers, points = (weight > 0).sum(axis=0), np.arange(len(chosen))
            low, high = (
                ratio[np.maximum(askers - 1, 0) // 2, points],
                ratio[np.minimum(askers // 2, len(ratio) - 1), points],
            )
            factor[known] = np.where(askers > 0, 0.5 * (low + high), 1.0)
            evidence[known] = weight.sum(axis=0)
        return factor, self._beyond(factor, limit) & (evidence >= LEAST_EVIDENCE)

    def calibration(self, agents: Sequence[str], asker: str, limit: float) -> Calibration:
        """What the records say when ``asker`` asks: its own experience, leaning on everybody's."""
        factor, barred = self.overall(agents, limit)
        row = self._askers.get(asker)
        if row is not None:
            columns = np.array([self._agents.get(a, -1) for a in agents])
            total = np.where(columns >= 0, self._sum[row, columns], 0.0)
            weight = np.where(columns >= 0, self._weight[row, columns], 0.0)
            factor = (total + _PRIOR * factor) / (weight + _PRIOR)
            barred = barred | (self._beyond(factor, limit) & (weight >= LEAST_EVIDENCE))
        return Calibration(np.maximum(factor, _LEAST_FACTOR), barred)

    @staticmethod
    def _beyond(factor: Array, limit: float) -> Mask:
        """Far above what is usual: if all claims are too bold, it is the times and not the agents."""
        usual = max(float(np.median(factor)), 1.0) if factor.size else 1.0
        return np.asarray(factor > limit * usual)

    def _place(self, asker: str, agents: Sequence[str]) -> tuple[int, np.ndarray[Any, np.dtype[np.intp]]]:
        """Row and columns, made where there are none yet."""
        row = self._askers.setdefault(asker, len(self._askers))
        columns = np.array([self._agents.setdefault(a, len(self._agents)) for a in agents], dtype=np.intp)
        grow = (len(self._askers) - self._sum.shape[0], len(self._agents) - self._sum.shape[1])
        if max(grow) > 0:
            self._sum, self._weight = (np.pad(a, ((0, grow[0]), (0, grow[1]))) for a in (self._sum, self._weight))
        return row, columns

    def state(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "askers": list(self._askers),
            "agents": list(self._agents),
            "sum": self._sum.copy(),
            "weight": self._weight.copy(),
        }

    @classmethod
    def from_state(cls, keep: float, state: Mapping[str, Any]) -> PairRecords:
        """The inverse of :meth:`state`."""
        records = cls(keep)
        records._askers = {str(name): i for i, name in enumerate(state["askers"])}
        records._agents = {str(name): i for i, name in enumerate(state["agents"])}
        shape = (len(records._askers), len(records._agents))
        records._sum = np.array(state["sum"], dtype=np.float64).reshape(shape)
        records._weight = np.array(state["weight"], dtype=np.float64).reshape(shape)
        return records
