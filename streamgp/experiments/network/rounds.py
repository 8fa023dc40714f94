"""The network layer over a whole run, as the cloud would run it, and stations that lie in their innovations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamgp.experiments.network.local import Belief, Forecasts
from streamgp.experiments.network.stations import SensorNetwork
from streamgp.fusion.asked import Asked, Influence
from streamgp.fusion.network import NetworkLayer
from streamgp.fusion.network_settings import NetworkSettings
from streamgp.gp.gaussian import Array

LIES = ("clip-high", "noise", "sign-flipped", "copy", "sleeper")
AGENT_CLIP = 8.0  # what an agent clips its innovation to before it leaves the station
SLEEPER_WAKES = 1000


def innovations(network: SensorNetwork, forecasts: Forecasts) -> Array:
    """(T, N) standardised errors of the local forecasts whose target each time was; NaN where unknown."""
    h, local = forecasts.steps, forecasts.local
    e = np.full(network.y.shape, np.nan)
    e[h:] = (network.y[h:] - local.mean[:-h]) / np.sqrt(local.total[:-h])
    return np.asarray(np.clip(e, -AGENT_CLIP, AGENT_CLIP))


def lie(kind: str, e: Array, liars: Sequence[int], *, rng: np.random.Generator) -> Array:
    """(T, N) what the stations say when the ``liars`` (columns) lie; silences stay silences.

    Raises
    ------
    KeyError
        If no lie is called so.
    """
    told = e.copy()
    honest = [i for i in range(e.shape[1]) if i not in liars]
    for j in liars:
        heard = np.isfinite(e[:, j])
        neighbour = e[:, min(honest, key=lambda i: ((i - j) % e.shape[1], i))]
        lies = {
            "clip-high": np.full(len(e), AGENT_CLIP),
            "noise": rng.normal(size=len(e)),
            "sign-flipped": -e[:, j],
            "copy": neighbour,
            "sleeper": np.where(np.arange(len(e)) < SLEEPER_WAKES, e[:, j], -e[:, j]),
        }
        told[:, j] = np.where(heard, lies[kind], np.nan)
    return told


@dataclass(frozen=True, slots=True)
class Outcome:
    """Corrected forecasts, how often (N, N) a target dropped a source, and who foretells whom in the end."""

    belief: Belief
    dropped: Array
    influences: list[Influence]


def run_layer(
    network: SensorNetwork, forecasts: Forecasts, said: Array, *, settings: NetworkSettings | None = None
) -> Outcome:
    """Every step: all innovations of that time, then all corrections."""
    T, N = network.y.shape
    layer = NetworkLayer(settings, coordinates=network.places)
    local, trimmed = forecasts.local, forecasts.trimmed
    out = Belief(*(np.full((T, N), np.nan) for _ in range(3)))
    dropped = np.zeros((N, N))
    column = {name: i for i, name in enumerate(network.stations)}
    horizon = forecasts.steps * network.step_ms
    for t, now in enumerate(network.time_ms.tolist()):
        asked = [
            Asked(
                station=network.stations[i],
                target_ms=now + horizon,
                mean=float(local.mean[t, i]),
                variance=float(local.variance[t, i]),
                noise_variance=float(local.noise_variance[t, i]),
                innovation=_number(said[t, i]),
                level=_number(forecasts.level[t, i]),
                spread=_number(forecasts.spread[t, i]),
                fused_mean=_number(trimmed.mean[t, i]),
            )
            for i in np.flatnonzero(np.isfinite(local.mean[t])).tolist()
        ]
        for c in layer.step(now, asked):
            i = column[c.station]
            out.mean[t, i], out.variance[t, i], out.noise_variance[t, i] = c.mean, c.variance, c.noise_variance
            dropped[i, [column[name] for name in c.dropped]] += 1.0
    return Outcome(out, dropped, layer.influences(horizon_ms=horizon))


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
