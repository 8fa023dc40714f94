"""The reach of the raw data: a vector autoregression on everybody's readings, which no station would give away."""

from __future__ import annotations

import numpy as np

from streamgp.experiments.network.local import Belief, Forecasts
from streamgp.experiments.network.stations import SensorNetwork
from streamgp.fusion.recursive import RecursiveRidge
from streamgp.gp.gaussian import Array

LAGS = 4
_RIDGES = (1.0, 10.0, 100.0, 1000.0)
_REFRESH = 25


def vector_autoregression(network: SensorNetwork, forecasts: Forecasts) -> Belief:
    """VAR(4) by recursive ridge, prequential: each station on the last four readings of all, missing ones as zero.

    The ridge is, at each step and station, the one with the least squared error so far; the variance is the running
    mean of its squared errors. Readings are standardised by the station's scale of that time.
    """
    T, N = network.y.shape
    h = forecasts.steps
    y, z = network.y, _rows(network, forecasts)
    d = z.shape[1]
    model = RecursiveRidge(forgetting=(1.0,), ridge=np.repeat(np.array(_RIDGES)[:, None], d, axis=1), refresh=_REFRESH)
    model.grow(N)
    loss = np.zeros((N, len(_RIDGES)))
    count = np.zeros(N)
    means = np.full((T, N, len(_RIDGES)), np.nan)
    out = Belief(np.full((T, N), np.nan), np.zeros((T, N)), np.full((T, N), np.nan))
    everyone = np.arange(N)
    for t in range(T):
        if t >= h:
            learn = np.flatnonzero(np.isfinite(y[t]) & np.isfinite(means[t - h]).all(axis=-1))
            level, spread = forecasts.level[t - h, learn], forecasts.spread[t - h, learn]
            target = (y[t, learn] - level) / spread
            loss[learn] += np.square(target[:, None] - means[t - h, learn])
            count[learn] += 1.0
            model.learn(learn, np.repeat(z[t - h][None], len(learn), axis=0), target, np.ones(len(learn)))
        mean, _, _ = model.predict(everyone, np.repeat(z[t][None], N, axis=0))
        level, spread = forecasts.level[t], forecasts.spread[t]
        means[t] = np.where(np.isfinite(level)[:, None], mean, np.nan)
        best = np.argmin(loss, axis=-1)
        out.mean[t] = means[t, everyone, best] * spread + level
        variance = np.where(count > 0.0, loss[everyone, best] / np.maximum(count, 1.0), 1.0)
        out.noise_variance[t] = variance * np.square(spread)
    return out


def _rows(network: SensorNetwork, forecasts: Forecasts) -> Array:
    """(T, 4 N + 1) the last four readings of all stations, standardised, and a constant."""
    T, N = network.y.shape
    standard = np.nan_to_num((network.y - forecasts.level) / forecasts.spread)
    lagged = [np.vstack([np.zeros((lag, N)), standard[: T - lag]]) for lag in range(LAGS)]
    return np.concatenate([*lagged, np.ones((T, 1))], axis=1)
