"""Hyperparameters that follow a stream: fits on a warm-up, then steps of constant cost.

Each step descends the local evidence of the last few observations, each given its own neighbours: one factor a
point of the likelihood, so its gradient is right on average. No batch can do much harm: the influence of a single
target is bounded, a step is bounded in every coordinate, and what the steps have done is undone if the last
observations are less likely under it than under the values held before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol, final

import numpy as np

from streamgp.gp.evidence import Sample, search
from streamgp.gp.gaussian import Array
from streamgp.gp.hyperparameters import NOISE_BOUNDS, fit_evidence
from streamgp.gp.kernels import CompiledKernel
from streamgp.gp.neighbourhood import LocalEvidence

WARM_UPS = (32, 128, 512)  # numbers of observations at which the evidence is fitted
SAMPLE = 256  # places in such a fit
BATCH = 8  # observations between two steps
WINDOW = 64  # observations that a check looks at
CHECK = 16  # steps between two checks
RATE = 0.02  # a step's usual length, in log units
LIMIT = 3.0  # standard deviations beyond which a target gains no more influence
MARGIN = 0.01  # nats an observation by which a check may be worse before it undoes the steps


class Neighbourhoods(Protocol):
    """What the tuner needs of the model that it tunes."""

    kernel: CompiledKernel
    noise_variance: float

    def evidence_of(
        self, Z: Array, y: Array, kernel: CompiledKernel, noise_variance: float, *, limit: float
    ) -> LocalEvidence | None:
        """Local evidence of observations that the model has learned, each left out of its own neighbours."""

    def sample(self, size: int, rng: np.random.Generator) -> Sample:
        """At most ``size`` places."""


@final
class Tuner:
    """The optimizer of one model; its state is part of the model's.

    Parameters
    ----------
    bounds : (p, 2)
        Logarithms of the bounds of theta.
    seed
        From which the places of a fit are drawn.
    """

    def __init__(self, bounds: Array, seed: int) -> None:
        self.bounds = bounds
        self.seed = seed
        self.status = "no fit yet"
        self.steps = 0
        self.reverts = 0
        self._square = np.zeros(len(bounds) + 1)
        self._recent: deque[tuple[Array, Array]] = deque(maxlen=WINDOW)
        self._held: Array | None = None
        self._power = 0.0  # running mean square of the targets, for the bounds of the noise

    # -- the stream

    def observed(self, model: Neighbourhoods, z: Array, y: Array, learned: int) -> bool:
        """One observation was learned, the ``learned``-th; True if the hyperparameters changed."""
        self._recent.append((z, y))
        self._power += (float(np.mean(y * y)) - self._power) / min(learned, 1000)
        if learned in WARM_UPS:
            return self.fit(model, learned)
        if learned > WARM_UPS[0] and learned % BATCH == 0:
            return self._step(model)
        return False

    def fit(self, model: Neighbourhoods, learned: int) -> bool:
        """Fit the evidence of a sample; then, if there is more than the sample, the local evidence."""
        rng = np.random.default_rng([self.seed, learned])
        sample = model.sample(SAMPLE, rng)
        fit = fit_evidence(model.kernel, model.noise_variance, sample, bounds=self.bounds, rng=rng)
        self.status = "converged" if fit.converged else fit.message
        changed = fit.kernel is not model.kernel
        model.kernel, model.noise_variance = fit.kernel, fit.noise_variance
        self._held = None
        return changed

    def polish(self, model: Neighbourhoods, learned: int) -> bool:
        """Fit the local evidence of a sample of places, given their neighbours among all places."""
        sample = model.sample(SAMPLE, np.random.default_rng([self.seed, learned, 1]))
        if np.mean(sample.counts) > 1.1:
            return False  # a mean of several targets is not one target: its noise is smaller
        noise_fixed = model.noise_variance == 0.0

        def objective(parameters: Array) -> tuple[float, Array]:
            kernel, noise = self._at(model, parameters)
            local = model.evidence_of(sample.X, sample.y, kernel, noise, limit=np.inf)
            assert local is not None
            gradient = local.gradient / len(sample.X)
            if noise_fixed:
                gradient[-1] = 0.0
            return float(np.mean(local.nlpd)), gradient

        box = self._box(float(np.mean(sample.y**2)))
        found = search(objective, [self._parameters(model)], box, max_iter=30)
        if not found.value < objective(self._parameters(model))[0]:
            return False
        self._move(model, found.parameters)
        return True

    # -- one step

    def _step(self, model: Neighbourhoods) -> bool:
        Z, y = self._last(BATCH)
        local = model.evidence_of(Z, y, model.kernel, model.noise_variance, limit=LIMIT)
        if local is None or not np.isfinite(local.gradient).all():
            return False
        gradient = local.gradient / len(Z)
        if self._held is None:
            self._held = self._parameters(model)
        self.steps += 1
        keep = min(0.97, 1.0 - 1.0 / self.steps)
        self._square = keep * self._square + (1.0 - keep) * gradient**2
        step = RATE * gradient / (np.sqrt(self._square) + 1e-6)
        step = np.clip(step, -2.0 * RATE, 2.0 * RATE)
        box = self._box(self._power)
        self._move(model, np.clip(self._parameters(model) - step, box[:, 0], box[:, 1]))
        if self.steps % CHECK == 0:
            self._check(model)
        return True

    def _check(self, model: Neighbourhoods) -> None:
        """Go back to the values held at the last check if the last observations were likelier under them."""
        assert self._held is not None
        Z, y = self._last(WINDOW)
        now = model.evidence_of(Z, y, model.kernel, model.noise_variance, limit=LIMIT)
        held = model.evidence_of(Z, y, *self._at(model, self._held), limit=LIMIT)
        if now is None or held is None:
            return
        worse = float(np.mean(now.held - held.held))
        if not worse <= MARGIN:
            self._move(model, self._held)
            self.reverts += 1
        else:
            self._held = self._parameters(model)

    def _last(self, n: int) -> tuple[Array, Array]:
        rows = list(self._recent)[-n:]
        return np.array([z for z, _ in rows]), np.array([y for _, y in rows])

    # -- parameters: theta and the logarithm of the noise variance

    @staticmethod
    def _parameters(model: Neighbourhoods) -> Array:
        return np.append(model.kernel.theta, np.log(max(model.noise_variance, 1e-300)))

    @staticmethod
    def _at(model: Neighbourhoods, parameters: Array) -> tuple[CompiledKernel, float]:
        noise = 0.0 if model.noise_variance == 0.0 else float(np.exp(parameters[-1]))
        return model.kernel.with_theta(parameters[:-1]), noise

    def _move(self, model: Neighbourhoods, parameters: Array) -> None:
        model.kernel, model.noise_variance = self._at(model, parameters)

    def _box(self, mean_square: float) -> Array:
        scale = mean_square if mean_square > 0 else 1.0
        return np.vstack([self.bounds, np.log(scale * np.array(NOISE_BOUNDS))])

    # -- state

    def state(self) -> dict[str, Any]:
        """All of it, as numbers, arrays and a string."""
        Z, y = self._last(WINDOW)
        return {
            "bounds": self.bounds.copy(),
            "seed": self.seed,
            "status": self.status,
            "steps": self.steps,
            "reverts": self.reverts,
            "square": self._square.copy(),
            "recent_z": Z,
            "recent_y": y,
            "held": np.zeros(0) if self._held is None else self._held.copy(),
            "power": self._power,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Tuner:
        """The twin; KeyError, TypeError or ValueError if the state is damaged."""
        new = cls(np.array(state["bounds"], dtype=np.float64).reshape(-1, 2), int(state["seed"]))
        new.status = str(state["status"])
        new.steps, new.reverts = int(state["steps"]), int(state["reverts"])
        new._square = np.array(state["square"], dtype=np.float64)
        new._recent.extend(zip(np.array(state["recent_z"]), np.array(state["recent_y"]), strict=True))
        held = np.array(state["held"], dtype=np.float64)
        new._held = held if len(held) else None
        new._power = float(state["power"])
        return new
