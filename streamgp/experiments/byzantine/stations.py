"""Networks of real stations that forecast tomorrow for each other, for the comparison of the two robust rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from streamgp.experiments.byzantine.network import fit_prior, local_answers
from streamgp.experiments.byzantine.toy import AGENTS, NOISE_VARIANCE, eta, toy_data, toy_prior
from streamgp.experiments.registry import Progress
from streamgp.experiments.tables import find_file, read_columns
from streamgp.gp.gaussian import Array

_WARM_UP_DAYS = 365
_PM10_STATIONS = 20
_PM10_FROM = np.datetime64("2005-01-01")
_YEAR = 365.25
_TOY_SIZE = 10_000


@final
@dataclass(frozen=True, slots=True)
class Stream:
    """What an honest network answers query by query, and what became true.

    Parameters
    ----------
    name
        Of the network.
    names
        Of its agents.
    means, variances : (queries, n)
        Latent predictions of every agent, standardised by the asker.
    noise : (n,)
        Noise variance of each agent.
    truth : (queries,)
        The observation.
    asker : (queries,)
        Row of the agent that asked, or -1.
    learned : (queries,)
        Days (or rounds) before it.

    Examples
    --------
    >>> none = np.zeros((0, 3))
    >>> Stream("s", ("A", "B", "C"), none, none, np.ones(3), np.zeros(0), np.arange(0), np.arange(0)).agents
    3
    """

    name: str
    names: tuple[str, ...]
    means: Array
    variances: Array
    noise: Array
    truth: Array
    asker: np.ndarray[tuple[int, ...], np.dtype[np.intp]]
    learned: np.ndarray[tuple[int, ...], np.dtype[np.intp]]

    @property
    def agents(self) -> int:
        """n."""
        return len(self.noise)


def irish_wind() -> tuple[Array, tuple[str, ...]]:
    """(days, 12) daily wind speeds, and the stations."""
    columns = read_columns(find_file("irish_wind.csv.gz"))
    names = tuple(name for name in columns if name != "date")
    return np.column_stack([columns[name] for name in names]), names


def german_pm10() -> tuple[Array, tuple[str, ...]]:
    """(days, 20) daily PM10 from 2005 on, at the stations that miss the fewest days, NaN where missing; and those."""
    columns = read_columns(find_file("de_pm10.csv.gz"))
    late = columns["date"] >= _PM10_FROM
    day = (columns["date"][late] - _PM10_FROM).astype("timedelta64[D]").astype(np.intp)
    names, station = np.unique(columns["station"][late].astype(str), return_inverse=True)
    grid = np.full((day.max() + 1, len(names)), np.nan)
    grid[day, station] = columns["pm10"][late]
    complete = np.argsort(np.isnan(grid).sum(axis=0), kind="stable")[:_PM10_STATIONS]
    chosen = np.sort(complete)
    return grid[:, chosen], tuple(str(name) for name in names[chosen])


def station_stream(
    name: str, network: tuple[Array, tuple[str, ...]], *, days: int, n_neighbors: int, seed: int, progress: Progress
) -> Stream:
    """Every station asks every other one about its own tomorrow, each agent with its own kernel and own past."""
    daily, names = network
    rows, y = _features(daily)
    whole = np.isfinite(rows).all(axis=2)
    known = whole & np.isfinite(y)
    n = daily.shape[1]
    priors = [
        fit_prior(rows[:_WARM_UP_DAYS, i][k], y[:_WARM_UP_DAYS, i][k], seed=seed)
        for i, k in enumerate(known[:_WARM_UP_DAYS].T)
    ]
    asked, means, variances = [], [], []
    last = min(_WARM_UP_DAYS + days, len(y))
    for day in progress(range(_WARM_UP_DAYS, last), description=f"{name} k={n_neighbors}", total=last - _WARM_UP_DAYS):
        askers = np.flatnonzero(known[day])
        answers = [
            local_answers(rows[None, :day, i][:, past], y[None, :day, i][:, past], rows[day, askers], priors[i],
                          n_neighbors=n_neighbors)
            for i, past in enumerate(known[:day].T)
        ]  # fmt: skip
        means.append(np.vstack([a[0] for a in answers]).T)
        variances.append(np.vstack([a[1] for a in answers]).T)
        asked += [(day, asker) for asker in askers]
    day_of, asker_of = np.array(asked, dtype=np.intp).T
    noise = np.array([prior.noise_variance for prior in priors])
    truth = y[day_of, asker_of]
    assert np.vstack(means).shape == (len(truth), n)
    return Stream(name, names, np.vstack(means), np.vstack(variances), noise, truth, asker_of, day_of - _WARM_UP_DAYS)


def toy_stream(*, rounds: int, n_neighbors: int, seed: int) -> Stream:
    """The toy's 40 agents, asked from outside at one new point after another."""
    rng, prior = np.random.default_rng([seed, 64]), toy_prior(seed)
    Z, y, _ = toy_data(_TOY_SIZE, rng)
    Zs = rng.random((rounds, 1))
    means, variances = local_answers(Z, y, Zs, prior, n_neighbors=n_neighbors)
    truth = eta(Zs[:, 0]) + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(rounds)
    number = np.arange(rounds)
    noise = np.full(AGENTS, prior.noise_variance)
    names = tuple(f"{i:02d}" for i in range(AGENTS))
    return Stream("toy", names, means.T, variances.T, noise, truth, np.full(rounds, -1), number)


def _features(daily: Array) -> tuple[Array, Array]:
    """(days, n, 4) rows: the two last values and the season; (days, n) targets; standardised on the warm-up."""
    warm = daily[:_WARM_UP_DAYS]
    y = (daily - np.nanmean(warm, axis=0)) / np.nanstd(warm, axis=0)
    angle = 2.0 * np.pi * np.arange(len(y)) / _YEAR
    rows = np.full((*y.shape, 4), np.nan)
    rows[1:, :, 0], rows[2:, :, 1] = y[:-1], y[:-2]
    rows[:, :, 2], rows[:, :, 3] = 0.5 * np.sin(angle)[:, None], 0.5 * np.cos(angle)[:, None]
    return rows, y
