"""Proper scores of prequential forecasts, over stations, in units of each station's standard deviation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from streamgp.experiments.network.local import Belief, Forecasts
from streamgp.experiments.network.stations import SensorNetwork
from streamgp.gp.gaussian import Array

METRICS = ("rmse", "nlpd", "crps", "coverage")
BURN_IN = 1000  # steps before the scores count
_BAND = float(norm.ppf(0.95))


def persistence(network: SensorNetwork, forecasts: Forecasts) -> Belief:
    """The last value, with the variance of the changes seen so far over as many steps."""
    h, y = forecasts.steps, network.y
    change = np.zeros_like(y)
    change[h:] = np.square(y[h:] - y[:-h])
    known = np.isfinite(change)
    known[:h] = False
    total = np.cumsum(np.where(known, change, 0.0), axis=0)
    count = np.cumsum(known, axis=0)
    variance = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return Belief(y.copy(), np.zeros_like(y), variance)


def score(
    network: SensorNetwork, belief: Belief, scored: Array, *, steps: int, columns: Sequence[int]
) -> dict[str, float]:
    """RMSE, NLPD, CRPS and coverage of the central 90% band over the targets ``scored`` (T, N).

    Row t of a belief is about ``time + steps``; NLPD is that of the value in units of the station's deviation.
    """
    error, total = _standardised(network, belief, steps=steps)
    use = scored[:, columns]
    e, v = error[:, columns][use], total[:, columns][use]
    sd = np.sqrt(v)
    z = e / sd
    crps = sd * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    return {
        "rmse": float(np.sqrt(np.mean(e * e))),
        "nlpd": float(np.mean(0.5 * (z * z + np.log(2.0 * np.pi * v)))),
        "crps": float(np.mean(crps)),
        "coverage": float(np.mean(np.abs(z) <= _BAND)),
    }


def scorable(network: SensorNetwork, beliefs: Sequence[Belief], *, steps: int, burn_in: int = BURN_IN) -> Array:
    """(T, N) the targets whose truth is known and for which every one of the beliefs has a forecast."""
    use = np.isfinite(network.y)
    use[: burn_in + steps] = False
    for belief in beliefs:
        error, total = _standardised(network, belief, steps=steps)
        use &= np.isfinite(error) & (np.nan_to_num(total) > 0.0)
    return use


def running_ratio(
    network: SensorNetwork, belief: Belief, against: Belief, *, steps: int, columns: Sequence[int], first: int
) -> Array:
    """RMSE over that of ``against`` from the start of the run up to each time, from ``first`` targets on."""
    (ours, _), (theirs, _) = (_standardised(network, b, steps=steps) for b in (belief, against))
    both = (np.isfinite(ours) & np.isfinite(theirs))[:, columns]
    sums = [np.cumsum(np.where(both, np.square(e[:, columns]), 0.0).sum(axis=1)) for e in (ours, theirs)]
    enough = np.cumsum(both.sum(axis=1)) >= first
    return np.asarray(np.sqrt(sums[0][enough] / sums[1][enough]))


def _standardised(network: SensorNetwork, belief: Belief, *, steps: int) -> tuple[Array, Array]:
    """Errors and predictive variances (T, N) at their target times."""
    error, total = np.full(network.y.shape, np.nan), np.full(network.y.shape, np.nan)
    error[steps:] = (network.y[steps:] - belief.mean[:-steps]) / network.unit
    total[steps:] = belief.total[:-steps] / np.square(network.unit)
    return error, total
