"""Hyperparameters that follow a stream: fits on a warm-up, then steps of constant cost.

Each step descends the predictive evidence of the last few observations, each given the neighbours that it had when
it came: what a forecaster is judged by, and one factor a point of the likelihood. The steps are scaled by the
information gathered so far, which fades, so that they settle where nothing changes and follow where something does.

No batch can do much harm: the influence of a single target is bounded, a step is bounded in every coordinate, and
what the steps have done is undone if the observations since were likelier under the values held before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.evidence import Sample, search
from streamgp.gp.gaussian import Array
from streamgp.gp.hyperparameters import NOISE_BOUNDS, LogNormalPrior, data_prior, fit_evidence
from streamgp.gp.local_evidence import Predictive, density, predictive

WARM_UPS = (32, 64, 128, 256, 512, 1024)  # numbers of observations at which the evidence is fitted
SAMPLE = 256  # places in such a fit
BATCH = 8  # observations between two steps
CHECK = 16  # steps between two checks
MEMORY = 600.0  # observations that the steps remember
STEP = 0.1  # the most that a step moves a parameter, in log units
LIMIT = 4.0  # standard deviations beyond which a target gains no more influence
MARGIN = 0.01  # nats an observation by which the steps may be worse before they are undone


class Seen(NamedTuple):
    """An observation z (d,), y (q,) and the neighbours it had when it came: rows (k, d), targets (k, q), counts (k,).

    A row that is missing because there were fewer than k has the count 0.
    """

    z: Array
    y: Array
    rows: Array
    targets: Array
    counts: Array


class Tuned(Protocol):
    """What the tuner needs of the model that it tunes."""

    kernel: CompiledKernel
    noise_variance: float

    def recentre(self) -> bool:
        """Choose the prior mean by the targets; True if it moved."""

    def neighbours_of(self, z: Array, y: Array) -> Seen:
        """An observation that the model has not learned yet, and its neighbours; targets without the prior mean."""

    def sample(self, size: int, rng: np.random.Generator | None) -> Sample:
        """At most ``size`` places: the last ones, or drawn at random; targets without the prior mean."""

    def left_out(self, sample: Sample, kernel: CompiledKernel, noise_variance: float) -> Predictive:
        """Predictive distribution at places that the model has, each left out of its own neighbours."""


@final
class Tuner:
    """The optimizer of one model; its state is part of the model's.

    Parameters
    ----------
    bounds : (p, 2)
        Logarithms of the bounds of theta.
    seed
        From which the places of a batch fit are drawn.
    """

    def __init__(self, bounds: Array, seed: int) -> None:
        p = len(bounds) + 1
        self.bounds = bounds
        self.seed = seed
        self.status = "no fit yet"
        self.steps = 0
        self.reverts = 0
        self._prior = LogNormalPrior(np.zeros(p), np.ones(p))
        self._information = np.zeros((p, p))
        self._waiting: list[Seen] = []
        self._held: Array | None = None
        self._worse = 0.0  # summed over the observations since the values were held
        self._power = 0.0  # running mean square of the targets, for the bounds of the noise

    # -- the stream

    def ahead(self, model: Tuned, z: Array, y: Array, learned: int) -> None:
        """An observation is about to be learned, after ``learned`` others; y without the prior mean."""
        if learned >= WARM_UPS[0]:
            self._waiting.append(model.neighbours_of(z, y))
        self._power += (float(np.mean(y * y)) - self._power) / min(learned + 1, 1000)

    def behind(self, model: Tuned, learned: int) -> bool:
        """It was learned, the ``learned``-th; True if the hyperparameters changed."""
        if learned in WARM_UPS:
            self._waiting = []
            moved, sample = model.recentre(), model.sample(SAMPLE, None)
            if moved:
                self._power = float(np.mean(sample.y**2))
            return self._fit(model, sample)
        if len(self._waiting) >= BATCH:
            batch, self._waiting = self._waiting, []
            return self._step(model, batch)
        return False

    def _fit(self, model: Tuned, sample: Sample) -> bool:
        self._prior = data_prior(model.kernel, sample)
        fit = fit_evidence(model.kernel, model.noise_variance, sample, bounds=self.bounds, prior=self._prior)
        self.status = "converged" if fit.converged else fit.message
        changed = fit.kernel is not model.kernel
        model.kernel, model.noise_variance = fit.kernel, fit.noise_variance
        self._held, self._worse = None, 0.0
        self._information = self._information_of(model, sample)
        return changed

    def _information_of(self, model: Tuned, sample: Sample) -> Array:
        """What a fit to a sample knows about the parameters, from the last of its places."""
        p, last = len(self._prior.mean), min(len(sample.X), 8 * BATCH)
        if last < 2:
            return np.zeros((p, p))
        part = Sample(*(column[-last:] for column in (sample.X, sample.y, sample.counts, sample.within)))
        at = model.left_out(part, model.kernel, model.noise_variance)
        rng = np.random.default_rng([self.seed, self.steps])
        total = np.sum([_information(at, rng) for _ in range(8)], axis=0) / 8.0
        return np.asarray(total * (min(float(sample.counts.sum()), MEMORY) / last))

    # -- a batch as a whole

    def fit(self, model: Tuned) -> bool:
        """Fit the evidence of a random sample of places; True if the hyperparameters changed."""
        model.recentre()
        return self._fit(model, model.sample(SAMPLE, np.random.default_rng([self.seed, 0])))

    def polish(self, model: Tuned) -> bool:
        """Then fit the local evidence of a sample, given its neighbours among all places."""
        sample = model.sample(SAMPLE, np.random.default_rng([self.seed, 1]))
        noise_fixed = model.noise_variance == 0.0

        def objective(parameters: Array) -> tuple[float, Array]:
            at = model.left_out(sample, *self._at(model, parameters))
            local = density(at, sample.y)
            penalty, pull = self._prior.penalty(parameters)
            gradient = at.gradient(local.by_variance, local.by_mean) + pull
            if noise_fixed:
                gradient[-1] = 0.0
            return float(np.sum(local.nlpd)) + penalty, gradient

        box = self._box(float(np.mean(sample.y**2)))
        found = search(objective, [self._parameters(model)], box, max_iter=30)
        if not found.value < objective(self._parameters(model))[0]:
            return False
        self._move(model, found.parameters)
        return True

    # -- one step

    def _step(self, model: Tuned, batch: list[Seen]) -> bool:
        here = self._parameters(model)
        y = np.array([seen.y for seen in batch])
        at = _predictive(batch, model.kernel, model.noise_variance)
        local = density(at, y, limit=LIMIT)
        gradient = at.gradient(local.by_variance, local.by_mean)
        if not (np.isfinite(gradient).all() and np.isfinite(local.held).all()):
            return False
        if self._held is None:
            self._held = here
        else:
            held = density(_predictive(batch, *self._at(model, self._held)), y, limit=LIMIT)
            self._worse += float(np.sum(local.held - held.held))
        self.steps += 1
        share = len(batch) / MEMORY
        self._information *= 1.0 - share
        self._information += _information(at, np.random.default_rng([self.seed, self.steps]))
        curvature = self._information + np.diag(self._prior.precision + 1e-9)
        gradient += share * self._prior.penalty(here)[1]
        move = np.clip(np.linalg.solve(curvature, gradient), -STEP, STEP)
        box = self._box(self._power)
        self._move(model, np.clip(here - move, box[:, 0], box[:, 1]))
        if self.steps % CHECK == 0:
            self._check(model)
        return True

    def _check(self, model: Tuned) -> None:
        """Go back to the values held if the observations since were likelier under them."""
        assert self._held is not None
        if self._worse > MARGIN * CHECK * BATCH:
            self._move(model, self._held)
            self.reverts += 1
        self._held, self._worse = self._parameters(model), 0.0

    # -- parameters: theta and the logarithm of the noise variance

    @staticmethod
    def _parameters(model: Tuned) -> Array:
        return np.append(model.kernel.theta, np.log(max(model.noise_variance, 1e-300)))

    @staticmethod
    def _at(model: Tuned, parameters: Array) -> tuple[CompiledKernel, float]:
        noise = 0.0 if model.noise_variance == 0.0 else float(np.exp(parameters[-1]))
        return model.kernel.with_theta(parameters[:-1]), noise

    def _move(self, model: Tuned, parameters: Array) -> None:
        model.kernel, model.noise_variance = self._at(model, parameters)

    def _box(self, mean_square: float) -> Array:
        scale = mean_square if mean_square > 0 else 1.0
        return np.vstack([self.bounds, np.log(scale * np.array(NOISE_BOUNDS))])

    # -- state

    def state(self) -> dict[str, Any]:
        """All of it, as numbers, arrays and a string."""
        state: dict[str, Any] = {
            "bounds": self.bounds.copy(),
            "seed": self.seed,
            "status": self.status,
            "steps": self.steps,
            "reverts": self.reverts,
            "prior_mean": self._prior.mean.copy(),
            "prior_precision": self._prior.precision.copy(),
            "information": self._information.copy(),
            "held": np.zeros(0) if self._held is None else self._held.copy(),
            "worse": self._worse,
            "power": self._power,
        }
        for i, name in enumerate(Seen._fields):
            state[f"waiting_{name}"] = np.array([seen[i] for seen in self._waiting])
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Tuner:
        """The twin; KeyError, TypeError or ValueError if the state is damaged."""
        new = cls(np.array(state["bounds"], dtype=np.float64).reshape(-1, 2), int(state["seed"]))
        new.status = str(state["status"])
        new.steps, new.reverts = int(state["steps"]), int(state["reverts"])
        mean, precision = (np.array(state[f"prior_{k}"], dtype=np.float64) for k in ("mean", "precision"))
        new._prior = LogNormalPrior(mean, precision)
        new._information = np.array(state["information"], dtype=np.float64)
        held = np.array(state["held"], dtype=np.float64)
        new._held = held if len(held) else None
        new._worse, new._power = float(state["worse"]), float(state["power"])
        columns = [np.array(state[f"waiting_{name}"], dtype=np.float64) for name in Seen._fields]
        new._waiting = [Seen(*parts) for parts in zip(*columns, strict=True)]
        return new


def _predictive(batch: list[Seen], kernel: CompiledKernel, noise_variance: float) -> Predictive:
    z, _, rows, targets, counts = (np.array(column) for column in zip(*batch, strict=True))
    # a missing neighbour is one whose noise drowns it
    return predictive(kernel, noise_variance, z, rows, targets, np.maximum(counts, 1e-12))


def _information(at: Predictive, rng: np.random.Generator) -> Array:
    """(p + 1, p + 1) Fisher information of a batch by one draw: the gradient's square for targets that the model makes.

    Targets of the model's own making, not the real ones: a real outlier must not make the steps after it small.
    """
    drawn = at.mean + np.sqrt(at.variance)[:, None] * rng.standard_normal(at.mean.shape)
    local = density(at, drawn)
    gradient = at.gradient(local.by_variance, local.by_mean)
    return np.outer(gradient, gradient)
