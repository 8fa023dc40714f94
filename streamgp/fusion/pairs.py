"""How far each agent's claims were borne out, by the station that asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from streamgp.fusion.blocks import middle
from streamgp.fusion.calibrated import Calibration
from streamgp.fusion.fused import Mask
from streamgp.fusion.tally import LEAST_EVIDENCE
from streamgp.gp.gaussian import Array

_PRIOR = 10.0  # answers of perfect calibration that every record starts with
_SAID = 3  # numbers that a truth says of a claim
_LEAST_FACTOR = 0.25  # claims are made no more than twice as sure as they come


@final
class PairRecords:
    """Sums of what the truths said of claims (:func:`streamgp.fusion.tally.scores`), by asker and agent.

    What is said of an agent is the median over its askers: one that lies about the truth, or asks the more, has one
    voice.

    Parameters
    ----------
    keep
        What a record keeps of its weight with every new score.
    """

    def __init__(self, keep: float) -> None:
        self._keep = keep
        self._askers: dict[str, int] = {}
        self._agents: dict[str, int] = {}
        self._sums: Array = np.zeros((_SAID, 0, 0))
        self._weight: Array = np.zeros((0, 0))

    def learn(self, asker: str, agents: Sequence[str], said: Array) -> None:
        """Take in what one query's truth says of each answer (n, 3); NaN for nothing."""
        row, columns = self._place(asker, agents)
        told = np.isfinite(said).all(axis=1)
        columns = columns[told]
        self._sums[:, row, columns] = self._keep * self._sums[:, row, columns] + said[told].T
        self._weight[row, columns] = self._keep * self._weight[row, columns] + 1.0

    def overall(self, agents: Sequence[str], limit: float) -> tuple[Array, Mask]:
        """(n,) factor of each agent, the median over its askers, and whether it is barred."""
        total, weight = self._columns(self._sums[0], agents), self._columns(self._weight, agents)
        factor = _median((total + _PRIOR) / (weight + _PRIOR), weight > 0)
        factor = np.where(np.isnan(factor), 1.0, factor)
        return factor, self._beyond(factor, limit) & (weight.sum(axis=0) >= LEAST_EVIDENCE)

    def said(self, agents: Sequence[str]) -> Array:
        """(n, 3) what the truths say of each agent by the median over its askers; NaN for nothing.

        Askers that have seen few of its answers count only where no other has seen more.
        """
        weight = self._columns(self._weight, agents)
        enough = weight >= LEAST_EVIDENCE
        counted = np.where(enough.any(axis=0), enough, weight > 0)
        sums = (self._columns(table, agents) for table in self._sums)
        return np.column_stack([_median(s / np.where(counted, weight, 1.0), counted) for s in sums])

    def calibration(self, agents: Sequence[str], asker: str, limit: float) -> Calibration:
        """What the records say when ``asker`` asks: its own experience, leaning on everybody's."""
        factor, barred = self.overall(agents, limit)
        row = self._askers.get(asker)
        if row is not None:
            total, weight = (self._columns(t[row : row + 1], agents)[0] for t in (self._sums[0], self._weight))
            factor = (total + _PRIOR * factor) / (weight + _PRIOR)
            barred = barred | (self._beyond(factor, limit) & (weight >= LEAST_EVIDENCE))
        return Calibration(np.maximum(factor, _LEAST_FACTOR), barred)

    def _columns(self, table: Array, agents: Sequence[str]) -> Array:
        """(askers, n) the columns of these agents; nothing where there is no record."""
        columns = np.array([self._agents.get(a, -1) for a in agents], dtype=np.intp)
        if not table.shape[1]:
            return np.zeros((table.shape[0], len(columns)))
        return np.where(columns >= 0, table[:, columns], 0.0)

    @staticmethod
    def _beyond(factor: Array, limit: float) -> Mask:
        """Far above what is usual: if all claims are too bold, it is the times and not the agents."""
        usual = max(float(np.median(factor)), 1.0) if factor.size else 1.0
        return np.asarray(factor > limit * usual)

    def _place(self, asker: str, agents: Sequence[str]) -> tuple[int, np.ndarray[Any, np.dtype[np.intp]]]:
        """Row and columns, made where there are none yet."""
        row = self._askers.setdefault(asker, len(self._askers))
        columns = np.array([self._agents.setdefault(a, len(self._agents)) for a in agents], dtype=np.intp)
        grow = [(0, len(self._askers) - self._weight.shape[0]), (0, len(self._agents) - self._weight.shape[1])]
        if any(more for _, more in grow):
            self._sums, self._weight = np.pad(self._sums, [(0, 0), *grow]), np.pad(self._weight, grow)
        return row, columns

    def state(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "askers": list(self._askers),
            "agents": list(self._agents),
            "sums": self._sums.copy(),
            "weight": self._weight.copy(),
        }

    @classmethod
    def from_state(cls, keep: float, state: Mapping[str, Any]) -> PairRecords:
        """The inverse of :meth:`state`."""
        records = cls(keep)
        records._askers = {str(name): i for i, name in enumerate(state["askers"])}
        records._agents = {str(name): i for i, name in enumerate(state["agents"])}
        shape = (len(records._askers), len(records._agents))
        records._sums = np.array(state["sums"], dtype=np.float64).reshape(_SAID, *shape)
        records._weight = np.array(state["weight"], dtype=np.float64).reshape(shape)
        return records


def _median(values: Array, counted: Mask) -> Array:
    """(n,) median over the rows that are counted in each column; NaN where none is."""
    count = counted.sum(axis=0)
    if not len(values):
        return np.full(values.shape[1], np.nan)
    median = middle(np.sort(np.where(counted, values, np.inf), axis=0), np.maximum(count, 1))
    return np.where(count > 0, median, np.nan)
