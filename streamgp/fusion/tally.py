"""The running sums behind an agent's trust report, and the answers that wait for the truth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from streamgp.fusion.trust_report import AgentTrust, Standing
from streamgp.gp.gaussian import Array

Z2_CAP = 50.0  # one truth, perhaps a false one, must not decide
LEAST_EVIDENCE = 10.0  # effective number of scores before a record is believed
_Z90_SQUARED = 1.6448536269514722**2
_SIDES = ("trimmed", "mean_low", "mean_high", "variance_low", "variance_high", "outlying")


@final
@dataclass(frozen=True, slots=True)
class Pending:
    """Answers to one query that wait for the truth: unusable means are NaN, ``total`` includes the noise."""

    agents: tuple[str, ...]
    asker: str
    mean: Array
    total: Array

    def z2(self, truth: Array) -> Array:
        """(n, m) squared errors in units of the claimed variance, capped; NaN where nothing can be said."""
        with np.errstate(all="ignore"):  # a NaN or an absurd claim is dealt with by the mask and the cap
            ratio = (truth - self.mean) ** 2 / self.total
        return np.asarray(np.minimum(np.where(np.isfinite(truth - self.mean), ratio, np.nan), Z2_CAP))

    def state(self) -> dict[str, Any]:
        """Plain values."""
        return {"agents": list(self.agents), "asker": self.asker, "mean": self.mean, "total": self.total}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Pending:
        """The inverse of :meth:`state`."""
        mean, total = (np.asarray(state[k], dtype=np.float64) for k in ("mean", "total"))
        return cls(tuple(state["agents"]), str(state["asker"]), mean, total)


def scores(z2: Array, total: Array) -> Array:
    """(n, 3) what (n, m) squared errors in units of the claimed variances ``total`` say of each agent's answer.

    Mean squared error in these units, share of truths inside the claimed 90% band, mean negative log density; NaN
    where the truth says nothing.
    """
    known = np.isfinite(z2)
    count = known.sum(axis=1)
    z2, total = np.where(known, z2, 0.0), np.where(known, total, 1.0)
    nlpd = np.where(known, 0.5 * (np.log(2.0 * math.pi * total) + z2), 0.0)
    said = np.column_stack([part.sum(axis=1) for part in (z2, known & (z2 <= _Z90_SQUARED), nlpd)])
    return np.where(count[:, None] > 0, said / np.maximum(count, 1)[:, None], np.nan)


@final
@dataclass(slots=True)
class Tally:
    """Counts of one agent's answers, and sums that forget."""

    answered: int = 0
    missing: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    cut_weight: float = 0.0
    cuts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SIDES, 0.0))
    scored: float = 0.0

    def refuse(self, reason: str) -> None:
        """Count an answer that could not be used."""
        self.refused[reason] += 1

    def cut(self, shares: Mapping[str, float], keep: float) -> None:
        """Take in the shares of points by side of one answer."""
        self.cut_weight = keep * self.cut_weight + 1.0
        for side in _SIDES:
            self.cuts[side] = keep * self.cuts[side] + shares[side]

    def score(self, keep: float) -> None:
        """Count an answer that was held against the truth."""
        self.scored = keep * self.scored + 1.0

    def report(self, agent: str, *, said: Array, factor: float, barred: bool) -> AgentTrust:
        """The record in words and shares; ``said`` (3,) is what the truths say of it, as in :func:`scores`."""
        shares = {side: value / self.cut_weight if self.cut_weight else 0.0 for side, value in self.cuts.items()}
        z2, coverage, nlpd = said.tolist() if self.scored > 0 else (1.0, 0.9, 0.0)
        return AgentTrust(
            agent,
            self.answered,
            self.missing,
            dict(sorted(self.refused.items())),
            **shares,
            scored=self.scored,
            z2=z2,
            coverage=coverage,
            nlpd=nlpd,
            factor=factor,
            standing=self._standing(factor, barred),
        )

    def _standing(self, factor: float, barred: bool) -> Standing:
        if self.scored < LEAST_EVIDENCE:
            return "new"
        if barred:
            return "barred"
        if factor > 2.0:
            return "overconfident"
        return "underconfident" if factor < 0.5 else "sound"

    def state(self) -> dict[str, Any]:
        """Plain values."""
        own = {k: getattr(self, k) for k in ("answered", "missing", "cut_weight", "scored")}
        return {**own, "refused": dict(self.refused), "cuts": dict(self.cuts)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Tally:
        """The inverse of :meth:`state`."""
        cuts = {side: float(state["cuts"][side]) for side in _SIDES}
        sums = {k: float(state[k]) for k in ("cut_weight", "scored")}
        refused = Counter({str(k): int(v) for k, v in state["refused"].items()})
        return cls(int(state["answered"]), int(state["missing"]), refused, cuts=cuts, **sums)
