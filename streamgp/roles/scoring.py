"""What a forecast is worth once the truth is known, and what of a station is needed to say so."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from river import stats
from scipy.special import ndtri

#: mean, latent variance and noise variance of a forecast
Belief: TypeAlias = tuple[float, float, float]

_SQRT_PI = math.sqrt(math.pi)


def score(
    mean: float, variance: float, noise_variance: float, y: float, *, band: float = 0.9
) -> tuple[float, float, float, bool]:
    """Error, negative log predictive density (nats), CRPS (units of y) and coverage of a Gaussian forecast of y.

    The CRPS is the closed form of Gneiting and Raftery (2007), equation (21).

    Examples
    --------
    >>> error, nlpd, crps, covered = score(0.0, 0.75, 0.25, 1.0)
    >>> error, round(nlpd, 4), round(crps, 4), covered
    (-1.0, 1.4189, 0.6024, True)
    """
    total = variance + noise_variance
    std = math.sqrt(total)
    z = (y - mean) / std
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    cdf = 0.5 * math.erfc(-z / math.sqrt(2))
    nlpd = 0.5 * (math.log(2 * math.pi * total) + z * z)
    crps = std * (z * (2 * cdf - 1) + 2 * density - 1 / _SQRT_PI)
    return mean - y, nlpd, crps, abs(z) <= float(ndtri(0.5 + band / 2))


@dataclass(slots=True)
class Pending:
    """Forecasts of one station for one target time, waiting for the truth."""

    station: str
    query_id: str
    target_ms: int
    asked_ms: int
    scale: float | None = None
    beliefs: dict[str, Belief] = field(default_factory=dict)


@final
class StationTruth:
    """One station's truth so far: what persistence would say, and the values still needed."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.truth: OrderedDict[int, float] = OrderedDict()
        self.persistence: OrderedDict[int, tuple[float, float]] = OrderedDict()
        self.pending: dict[int, list[Pending]] = {}
        self._steps = stats.Var()
        self._last: float | None = None
        self._last_ms = 0

    def observe(self, time_ms: int, y: float) -> bool:
        """False if the time was seen before."""
        if time_ms in self.truth or (self._last is not None and time_ms <= self._last_ms):
            return False
        if self._last is not None:
            self._steps.update(y - self._last)
        self._last, self._last_ms = y, time_ms
        self.truth[time_ms] = y
        if self._steps.n > 1 and self._steps.get() > 0:
            self.persistence[time_ms] = (y, float(self._steps.get()))
        for table in (self.truth, self.persistence):
            if len(table) > self.keep:
                table.popitem(last=False)
        return True

    def state(self, number: Mapping[int, int]) -> dict[str, Any]:
        """``number`` gives each pending forecast's place in the table that the role writes."""
        spread = self._steps
        return {
            "truth": [list(row) for row in self.truth.items()],
            "persistence": [[time_ms, *row] for time_ms, row in self.persistence.items()],
            "pending": [[target_ms, [number[id(p)] for p in ps]] for target_ms, ps in self.pending.items()],
            "steps": [spread.mean.n, spread.mean.get(), spread._S],
            "last": [self._last, self._last_ms],
        }

    def restore(self, state: Mapping[str, Any], table: list[Pending]) -> None:
        self.truth = OrderedDict((time_ms, y) for time_ms, y in state["truth"])
        self.persistence = OrderedDict((time_ms, (y, var)) for time_ms, y, var in state["persistence"])
        self.pending = {target_ms: [table[i] for i in places] for target_ms, places in state["pending"]}
        n, mean, self._steps._S = state["steps"]
        self._steps.mean = stats.Mean._from_state(n, mean)
        self._last, self._last_ms = state["last"]
