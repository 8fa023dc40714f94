"""What every station forecasts by itself, and the trimmed product of all its neighbours' answers, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamgp.errors import NoQuorumError
from streamgp.experiments.network.stations import SensorNetwork
from streamgp.experiments.registry import Progress
from streamgp.fusion import n_trim_for, trimmed_poe
from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.features import FeatureSettings
from streamgp.models.local import EstimatorModel
from streamgp.models.nearest import NearestNeighborGP
from streamgp.models.station import StationModel

BETA = 1 / 6  # share cut at each end, as the cloud's default
WARM_UP = 200  # readings before scale and hyperparameters are fitted, as the agent's default


@dataclass(frozen=True, slots=True)
class Belief:
    """Forecasts issued at each step, (T, N) in physical units, NaN where there was none."""

    mean: Array
    variance: Array
    noise_variance: Array

    @property
    def total(self) -> Array:
        """(T, N) variance of an observation."""
        return self.variance + self.noise_variance

    def until(self, steps: int) -> Belief:
        """Those of the first steps."""
        return Belief(self.mean[:steps], self.variance[:steps], self.noise_variance[:steps])


@dataclass(frozen=True, slots=True)
class Forecasts:
    """Prequential forecasts of one horizon: row t was issued at time t, for time t + steps.

    ``level`` and ``spread`` (T, N) are the stations' scales at that time.
    """

    steps: int
    local: Belief
    trimmed: Belief
    level: Array
    spread: Array

    def until(self, steps: int) -> Forecasts:
        """Those of the first steps."""
        local, trimmed = self.local.until(steps), self.trimmed.until(steps)
        return Forecasts(self.steps, local, trimmed, self.level[:steps], self.spread[:steps])


def default_station(*, seed: int, warm_up: int = WARM_UP) -> StationModel:
    """A station with the defaults of an agent: lags 1 to 3, mean of ten, calendar; 32 nearest neighbours."""

    def make(fit: bool) -> EstimatorModel:
        return EstimatorModel(
            NearestNeighborGP(n_neighbors=32, max_points=20_000, optimizer="lbfgs" if fit else None, random_state=seed)
        )

    return StationModel(FeatureSettings(), make=make, load=EstimatorModel.from_state, warm_up=warm_up)


def forecasts(
    network: SensorNetwork, horizons: Sequence[int], *, seed: int, progress: Progress, warm_up: int = WARM_UP
) -> dict[int, Forecasts]:
    """Let every station learn and ask at every step, and all of them answer all, as the agents do.

    The trimmed product is made for one-step queries; longer ones have the local forecast alone.
    """
    T, N = network.y.shape
    stations = [default_station(seed=seed, warm_up=warm_up) for _ in range(N)]
    found = {h: _empty(h, T, N) for h in horizons}
    steps = progress(range(T), description=f"local forecasts, {network.name}", total=T)
    for t in steps:
        now, y = int(network.time_ms[t]), network.y[t]
        for i in np.flatnonzero(np.isfinite(y)).tolist():
            stations[i].observe(now, {}, float(y[i]))
        for h, out in found.items():
            asked = {}
            for i, station in enumerate(stations):
                if np.isfinite(y[i]) and (row := station.ask(now + h * network.step_ms)) is not None:
                    asked[i] = row
            _answer(out, t, stations, asked)
    return found


def _answer(out: Forecasts, t: int, stations: list[StationModel], asked: dict[int, tuple[Array, float, float]]) -> None:
    if not asked:
        return
    who = list(asked)
    Z = np.array([asked[i][0] for i in who])
    scale = np.array([asked[i][2] for i in who])
    shift = np.array([asked[i][1] for i in who])
    out.level[t, who], out.spread[t, who] = shift, scale
    if out.steps > 1:
        for k, i in enumerate(who):
            _keep(out.local, t, [i], stations[i].answer(Z[k : k + 1]), shift[k], scale[k])
        return
    answers = {j: s.answer(Z) for j, s in enumerate(stations) if s.warm or j in asked}
    for k, i in enumerate(who):
        _keep(out.local, t, [i], _rows(answers[i], [k]), shift[k], scale[k])
    warm = [j for j in answers if stations[j].warm]
    try:
        n_trim = n_trim_for(BETA, len(warm))
    except NoQuorumError:
        return
    means, variances = (np.stack([getattr(answers[j], f) for j in warm]) for f in ("mean", "variance"))
    noise = np.median(np.stack([answers[j].noise_variance for j in warm]), axis=0)
    fused = trimmed_poe(means, variances, n_trim)
    _keep(out.trimmed, t, who, Gaussian(fused.mean, fused.variance, noise), shift, scale)


def _rows(g: Gaussian, at: list[int]) -> Gaussian:
    return Gaussian(g.mean[at], g.variance[at], g.noise_variance[at])


def _keep(into: Belief, t: int, who: list[int], g: Gaussian, shift: Array | float, scale: Array | float) -> None:
    into.mean[t, who] = g.mean * scale + shift
    into.variance[t, who] = g.variance * np.square(scale)
    into.noise_variance[t, who] = g.noise_variance * np.square(scale)


def _empty(h: int, T: int, N: int) -> Forecasts:
    def nothing() -> Array:
        return np.full((T, N), np.nan)

    def unknown() -> Belief:
        return Belief(nothing(), nothing(), nothing())

    return Forecasts(h, unknown(), unknown(), nothing(), nothing())
