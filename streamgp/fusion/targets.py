"""All stations as targets at one horizon: regress, mix, choose, and learn when the truth is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamgp.fusion.budget import LossBudget
from streamgp.fusion.harm import HarmWatch
from streamgp.fusion.mixing import AdaHedge, softmax
from streamgp.fusion.network_settings import NetworkSettings
from streamgp.fusion.pending import Pending
from streamgp.fusion.recursive import RecursiveRidge
from streamgp.fusion.screening import Screening
from streamgp.fusion.surroundings import N_OWN, N_POOL, N_VOLATILITY, Regressors
from streamgp.fusion.table import Table
from streamgp.fusion.volatility import LogVariance
from streamgp.gp.gaussian import Array

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

FIRST_SOURCE = N_OWN + N_POOL
OWN_SHARE, POOL_SHARE = 0.1, 0.3  # prior precisions relative to those of the sources' weights
_HUBER = 2.5  # errors beyond this many standard deviations pull no harder than one at it
_LARGEST_SCORE = 9.0  # squared standardised errors count up to this in the choice among models
_KAPPA_RATE, _KAPPA_PRIOR, _KAPPA_CLIP = 0.002, 50.0, 16.0
N_CHOICES = 4  # local, own, network, careful


@dataclass(frozen=True, slots=True)
class Answer:
    """Per row (B,) mean and variance of the next standardised error; weights of the choices (B, 4)."""

    shift: Array
    ratio: Array
    weights: Array


@final
class Targets:
    """The learners of one horizon, a row per station; each row on its own.

    A row holds S = 2 F R ridge regressions, half of them with the sources and half without, mixed by their
    discounted likelihood; AdaHedge chooses among the local forecast as it is, the regressions on the station's own
    errors, the whole mixture, and the mixture without the sources that :class:`HarmWatch` has dropped. How far the
    choice may depart from the local forecast is up to :class:`LossBudget`.
    """

    def __init__(self, settings: NetworkSettings) -> None:
        self.settings = s = settings
        k, d = s.n_sources, FIRST_SOURCE + s.n_sources
        ridge = np.repeat(np.asarray(s.ridge)[:, None], d, axis=1)
        ridge[:, :N_OWN] *= OWN_SHARE
        ridge[:, N_OWN:FIRST_SOURCE] *= POOL_SHARE
        self.regression = RecursiveRidge(forgetting=s.forgetting, ridge=ridge, refresh=s.refresh)
        self.own = RecursiveRidge(forgetting=s.forgetting, ridge=ridge[:, :N_OWN], refresh=s.refresh)
        prior = np.zeros(N_VOLATILITY)
        prior[1:4] = (0.2, 0.4, 0.2)  # fast and slow running squares of its own, and of its sources
        self.volatility = LogVariance(
            ridge=np.full(N_VOLATILITY, s.volatility_ridge),
            prior=prior,
            forgetting=s.volatility_memory,
            refresh=s.refresh,
        )
        self.hedge = AdaHedge(N_CHOICES, memory=s.hedge_memory, handicap=(0.0, *[s.handicap] * (N_CHOICES - 1)))
        self.budget = LossBudget(share=s.budget)
        self.harm = HarmWatch(k, memory=s.harm_memory, threshold=s.harm_threshold)
        self.screening = Screening(n_candidates=s.n_candidates, n_sources=k, forgetting=max(s.forgetting))
        S = 2 * self.regression.n_settings
        self.pending = Pending(
            {
                "time_ms": 1, "mean": 1, "sd": 1, "z": d, "x": N_VOLATILITY, "means": S, "spreads": S,
                "moved": k, "choices": N_CHOICES, "awake": N_CHOICES, "shift": 1, "base": 1, "level": 1,
            }
        )  # fmt: skip
        self.table = Table({"log_weight": np.zeros(S), "kappa": 1.0, "count": np.int64(0)})

    def grow(self, n: int, *, coordinates: Array) -> None:
        """Let stations up to n join."""
        for part in (
            self.regression,
            self.own,
            self.volatility,
            self.hedge,
            self.budget,
            self.harm,
            self.pending,
            self.table,
        ):
            part.grow(n)
        self.screening.grow(n, coordinates=coordinates)

    def answer(
        self, rows: Rows, given: Regressors, *, time_ms: int, target_ms: NDArray[np.int64], mean: Array, sd: Array
    ) -> Answer:
        """Mean and variance of the next error of the distinct rows, remembered until their truth is in."""
        s, half = self.settings, self.regression.n_settings
        z, unheard = self._filled(rows, given.z, given.known)
        means, spreads, change = self._believe(rows, z)
        log_weight = self.table["log_weight"][rows]
        mixture = softmax(log_weight)
        own = np.sum(softmax(log_weight[:, half:]) * means[:, half:], axis=-1)
        network = np.sum(mixture * means, axis=-1)
        moved = np.sum(mixture[:, :half, None] * change[:, :, FIRST_SOURCE:], axis=1)
        careful, missed, awake = self._careful(rows, given, mixture)
        careful = np.where(awake[:, -1], careful, network)
        choices = np.clip(np.stack([np.zeros(len(rows)), own, network, careful], axis=-1), -s.clip, s.clip)
        warm = self.table["count"][rows] >= s.warm_up
        weights = np.where(warm[:, None], self.hedge.weights(rows, awake), np.eye(N_CHOICES)[0])
        shift = self.budget.limit(rows, sd, np.sum(weights * choices, axis=-1))
        level = self.volatility.predict(rows, given.x)
        within = level * (1.0 + np.sum(mixture * spreads, axis=-1)) + unheard + missed
        base = within + np.sum(mixture * (means - network[:, None]) ** 2, axis=-1)
        ratio = np.where(warm, self.table["kappa"][rows] * base, 1.0)
        self.pending.put(
            rows,
            target_ms,
            {
                "time_ms": np.full((len(rows), 1), float(time_ms)), "mean": mean[:, None], "sd": sd[:, None],
                "z": z, "x": given.x, "means": means, "spreads": spreads, "moved": moved,
                "choices": choices, "awake": awake.astype(np.float64), "shift": shift[:, None],
                "base": base[:, None], "level": level[:, None],
            },
        )  # fmt: skip
        return Answer(shift, ratio, weights)

    def _filled(self, rows: Rows, z: Array, known: Mask) -> tuple[Array, Array]:
        """z with the unknown integrated out by the slowest moments, and the variance that this adds."""
        return self.regression.fill(rows, z, known, setting=(len(self.settings.forgetting) - 1, 0))

    def _believe(self, rows: Rows, z: Array) -> tuple[Array, Array, Array]:
        """Means and spreads (B, S) of all regressions, and what each feature changes (B, S/2, d)."""
        means, spreads, change = self.regression.predict(rows, z)
        alone, alone_spreads, _ = self.own.predict(rows, z[:, :N_OWN])
        return np.concatenate([means, alone], axis=-1), np.concatenate([spreads, alone_spreads], axis=-1), change

    def _careful(self, rows: Rows, given: Regressors, mixture: Array) -> tuple[Array, Array, Mask]:
        """The mixture's mean (B,) with dropped sources integrated out, the variance this adds, who is awake."""
        dropped = self.harm.dropped[rows]
        mean, extra = np.zeros(len(rows)), np.zeros(len(rows))
        awake = np.ones((len(rows), N_CHOICES), dtype=bool)
        awake[:, -1] = dropped.any(axis=-1)
        some = np.flatnonzero(awake[:, -1])
        if len(some):
            known = given.known[some].copy()
            known[:, FIRST_SOURCE:] &= ~dropped[some]
            z, extra[some] = self._filled(rows[some], given.z[some], known)
            means, _, _ = self._believe(rows[some], z)
            mean[some] = np.sum(mixture[some] * means, axis=-1)
        return mean, extra, awake

    def learn(self, rows: Rows, time_ms: int, e: Array, *, tolerance_ms: int) -> tuple[Rows, dict[str, Array], Array]:
        """Learn from the standardised errors e (B,) of the distinct rows, of which ``time_ms`` brought the truth.

        Returns the rows whose answer was found, what it held, and their errors.
        """
        hit, was = self.pending.take(rows, time_ms, tolerance_ms=tolerance_ms)
        e = e[np.isin(rows, hit)]
        if len(hit) == 0:
            return hit, was, e
        base, level = was["base"][:, 0], was["level"][:, 0]
        residual = e - was["shift"][:, 0]
        network = was["choices"][:, 2]
        standard = np.abs(e - network) / np.sqrt(level)
        robust = np.minimum(1.0, _HUBER / np.maximum(standard, _HUBER))
        self.regression.learn(hit, was["z"], e, robust / level)
        self.own.learn(hit, was["z"][:, :N_OWN], e, robust / level)
        self._learn_mixture(hit, e, was)
        self.budget.learn(hit, was["sd"][:, 0], e, was["shift"][:, 0])
        self.hedge.update(hit, (e[:, None] - was["choices"]) ** 2, was["awake"] > 0.5)
        gap = (e - network)[:, None]
        added = (gap**2 - (gap + was["moved"]) ** 2) / level[:, None]
        self.harm.learn(hit, added)
        self.volatility.learn(hit, was["x"], residual**2 * level / base)
        count, kappa = self.table["count"], self.table["kappa"]
        rate = np.maximum(1.0 / (count[hit] + _KAPPA_PRIOR), _KAPPA_RATE)
        kappa[hit] += rate * (np.minimum(residual**2 / base, _KAPPA_CLIP) - kappa[hit])
        count[hit] += 1
        return hit, was, e

    def _learn_mixture(self, rows: Rows, e: Array, was: dict[str, Array]) -> None:
        variance = was["level"] * (1.0 + was["spreads"])
        square = np.minimum((e[:, None] - was["means"]) ** 2 / variance, _LARGEST_SCORE)
        gain = -0.5 * (square + np.log(variance))
        log_weight = self.table["log_weight"]
        fresh = self.settings.mixture_memory * log_weight[rows] + gain
        log_weight[rows] = fresh - np.max(fresh, axis=-1, keepdims=True)

    def screen(self, rows: Rows, e: Array, heard: Array, *, n_stations: int) -> None:
        """Hold the errors e (B,) against what the candidates had said before (B, C); choose sources when due."""
        self.screening.learn(rows, e, heard)
        due = rows[(self.table["count"][rows] + rows) % self.settings.review == 0]
        for row in due.tolist():
            for slot, _ in self.screening.review(row, n_stations=n_stations):
                self.regression.reset_feature(row, FIRST_SOURCE + slot)
                self.harm.forgive(row, slot)
                self.pending.blank(row, "z", FIRST_SOURCE + slot)
                self.pending.blank(row, "moved", slot)

    def source_weights(self, rows: Rows) -> Array:
        """(B, k) weights of the sources in the mixture, as of the last rebuild."""
        mixture = softmax(self.table["log_weight"][rows])
        half = self.regression.n_settings
        w = self.regression.table["w"][rows].reshape(len(rows), half, -1)
        return np.asarray(np.sum(mixture[:, :half, None] * w[:, :, FIRST_SOURCE:], axis=1))

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return {name: part.state() for name, part in self._parts().items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Become the learners that ``state`` describes."""
        for name, part in self._parts().items():
            part.restore(state[name])

    def _parts(self) -> dict[str, Any]:
        names = ("regression", "own", "volatility", "hedge", "budget", "harm", "screening", "pending")
        return {**{name: getattr(self, name) for name in names}, "rows": self.table}
