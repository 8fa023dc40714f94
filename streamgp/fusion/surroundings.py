"""The regressors of a station's next error: its own recent errors, its sources', and rival forecasts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamgp.fusion.innovations import (
    DEPTH,
    MEAN_FAST,
    MEAN_SLOW,
    SQUARE_FAST,
    SQUARE_SLOW,
    VALUE,
    InnovationStore,
)
from streamgp.gp.gaussian import Array

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

OWN_LAGS = 4
N_OWN = 14  # constant, own lags, own running means, level, persistence, fused, time of day
N_POOL = 3  # median over the sources: one lag back, fast and slow running mean
N_VOLATILITY = 10
_DAY_MS = 86_400_000
# What is read of a station itself: the last innovations one by one, then whatever is recent.
_OWN_LAG = np.array([*range(OWN_LAGS), 0])
_OWN_SPAN = np.array([1] * OWN_LAGS + [DEPTH])
# What is read of a source: now, one step back, and whatever is recent.
_SOURCE_LAG, _SOURCE_SPAN = np.array([0, 1, 0]), np.array([1, 1, DEPTH])
_RIVAL = 5.0  # rivals and levels farther away than this many standard deviations count as this far


@dataclass(frozen=True, slots=True)
class Standing:
    """Local forecasts (B,) that wait for a correction, in physical units; NaN where a thing is unknown.

    ``sd`` is the standard deviation of an observation; ``level`` the standardised mean; ``last`` the station's last
    value as its forecast and innovation tell it; ``fused`` the mean of the cloud's product.
    """

    mean: Array
    sd: Array
    level: Array
    last: Array
    fused: Array


@dataclass(frozen=True, slots=True)
class Regressors:
    """``z`` (B, d) for the mean, with what is known of it; ``x`` (B, q) for the log variance."""

    z: Array
    known: Mask
    x: Array


def regressors(
    store: InnovationStore, *, rows: Rows, sources: Rows, time_ms: int, horizon_ms: int, standing: Standing
) -> Regressors:
    """What is known at ``time_ms`` of the stations ``rows`` (B,) with ``sources`` (B, k), -1 for an empty slot.

    The columns of z are the own block, the pool block and one innovation per source. Only the sources and the
    station's own errors can be unknown; everything else is zero (its mean) where it is not given.
    """
    B = len(rows)
    own = store.read(rows[:, None], time_ms, lag=_OWN_LAG, span=_OWN_SPAN)
    own, mine = own[:, :OWN_LAGS, VALUE], own[:, OWN_LAGS]
    heard = store.read(sources[..., None], time_ms, lag=_SOURCE_LAG, span=_SOURCE_SPAN)
    now, before, running = heard[..., 0, VALUE], heard[..., 1, VALUE], heard[..., 2, :]
    means = _scaled(mine[..., [MEAN_FAST, MEAN_SLOW]])
    rivals = np.stack(
        [(standing.last - standing.mean) / standing.sd, (standing.fused - standing.mean) / standing.sd], -1
    )
    rivals = np.clip(rivals, -_RIVAL, _RIVAL)
    level = np.clip(np.nan_to_num(standing.level), -_RIVAL, _RIVAL)
    clock = _time_of_day(time_ms, horizon_ms)
    pool = [_median(v) for v in (before, *np.moveaxis(_scaled(running[..., [MEAN_FAST, MEAN_SLOW]]), -1, 0))]
    columns = [
        np.ones((B, 1)),
        own,
        means,
        level[:, None],
        rivals[:, :1],
        np.nan_to_num(rivals[:, 1:]),
        np.broadcast_to(clock, (B, 4)),
        np.stack(pool, axis=-1),
        np.where(sources >= 0, now, 0.0),
    ]
    z = np.concatenate(columns, axis=-1)
    size = _median(running[..., SQUARE_FAST], empty=1.0)
    volatility = np.concatenate(
        [
            np.ones((B, 1)),
            np.log(0.1 + np.nan_to_num(mine[..., [SQUARE_FAST, SQUARE_SLOW]], nan=1.0)),
            np.log(0.1 + size)[:, None],
            level[:, None],
            np.abs(np.nan_to_num(rivals[:, :1])),
            np.broadcast_to(clock, (B, 4)),
        ],
        axis=-1,
    )
    known = np.isfinite(z)
    return Regressors(np.where(known, z, 0.0), known, volatility)


def _scaled(means: Array) -> Array:
    """Running means in units of their own standard deviation under white innovations."""
    rate = np.array([0.2, 0.05])
    return np.asarray(means / np.sqrt(rate / (2.0 - rate)))


def _time_of_day(time_ms: int, horizon_ms: int) -> Array:
    """(4,) two harmonics of the day (UTC); zero for steps that see no course of the day."""
    if 2 * horizon_ms > _DAY_MS:
        return np.zeros(4)
    angle = 2.0 * np.pi * (time_ms % _DAY_MS) / _DAY_MS
    return np.array([np.sin(angle), np.cos(angle), np.sin(2.0 * angle), np.cos(2.0 * angle)])


def _median(values: Array, *, empty: float = 0.0) -> Array:
    """(B,) medians of the finite ones among (B, k), ``empty`` where there is none: half of them would have to lie."""
    if values.shape[1] == 0:
        return np.full(len(values), empty)
    ordered = np.sort(values, axis=-1)  # NaN last
    count = np.sum(np.isfinite(values), axis=-1)
    low, high = np.maximum(count - 1, 0) // 2, count // 2
    at = np.arange(len(values))
    middle = 0.5 * (ordered[at, low] + ordered[at, np.minimum(high, values.shape[1] - 1)])
    return np.where(count > 0, middle, empty)
