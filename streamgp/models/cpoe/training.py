"""Hyperparameters: by L-BFGS-B on the evidence (8) with analytic gradient, or by Adam over experts (A.3.2)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, minimize
from sklearn.exceptions import ConvergenceWarning

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.evidence import Sample, log_evidence
from streamgp.gp.gaussian import Array
from streamgp.gp.hyperparameters import mean_square_of
from streamgp.gp.projections import Approximation
from streamgp.models.cpoe import sparse
from streamgp.models.cpoe.conditioning import steadied
from streamgp.models.cpoe.experts_data import Experts, Model
from streamgp.models.cpoe.gradient import Accumulator, nugget, tree_evidence
from streamgp.models.cpoe.graph import Clique
from streamgp.models.cpoe.prior import LogNormalPrior

#: of a climb, in logarithms of hyperparameters
FIRST_STEP = 0.5

Evaluate = Callable[["Hyper"], tuple[float, Array]]


@dataclass(frozen=True, slots=True)
class Hyper:
    """Kernel and noise variance, with the line of Table 5 that the evidence is taken under."""

    kernel: CompiledKernel
    noise_variance: float
    approximation: Approximation

    @property
    def vector(self) -> Array:
        """(p + 1,) logarithms, the noise variance last."""
        return np.append(self.kernel.theta, np.log(self.noise_variance))

    def at(self, t: Array) -> Hyper:
        """The same at other values (p + 1,)."""
        return Hyper(self.kernel.with_theta(t[:-1]), float(np.exp(t[-1])), self.approximation)

    def model(self, X: Array) -> Model:
        """What inference needs; X is any sample of rows."""
        return Model(self.kernel, self.noise_variance + nugget(self.kernel, X), self.approximation)


def bounds(hyper: Hyper, y: Array) -> Array:
    """(p + 1, 2) log bounds: the kernel's own, and the noise between 1e-8 and 10 times the mean square of y."""
    power = mean_square_of(y)
    low = min(hyper.noise_variance, 1e-8 * power)
    high = max(hyper.noise_variance, 10.0 * power)
    return np.vstack([hyper.kernel.bounds.reshape(-1, 2), np.log([[low, high]])])


def graph_evidence(experts: Experts, parts: Sequence[Clique], is_tree: bool) -> Evaluate:
    """(8) and its gradient for a fixed partition and graph."""
    if is_tree:
        return lambda h: tree_evidence(h.model(experts.X[0]), experts, parts, noise_variance=h.noise_variance)
    symbolic = sparse.pattern(len(experts.A), parts)

    def evaluate(h: Hyper) -> tuple[float, Array]:
        model = steadied(h.model(experts.X[0]), experts, parts)
        solution = sparse.solve(model, experts, parts, symbolic)
        total = Accumulator(model, experts, tree=False)
        sparse.visit_regions(
            model,
            experts,
            parts,
            solution,
            visit=lambda c, K, own, b, o: total.clique(parts[c], K, own, b, o),
        )
        return solution.log_evidence, total.gradient(h.noise_variance)

    return evaluate


def exact_evidence(X: Array, y: Array) -> Evaluate:
    """The evidence of the full GP on some rows: that of one expert which keeps them all, without any message."""
    sample = Sample.of(X, y)
    return lambda h: log_evidence(h.kernel, h.noise_variance, sample)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an optimisation came to; ``hyper`` is the start where it failed."""

    hyper: Hyper
    value: float
    failed: str
    iterations: int = 0


def maximise(
    evaluate: Evaluate,
    start: Hyper,
    *,
    log_bounds: Array,
    max_iter: int,
    prior: LogNormalPrior | None,
    offset: float = 0.0,
) -> Outcome:
    """L-BFGS-B from ``start``; a point where the evidence cannot be had is a bad point, not an end.

    ``offset`` is taken off the evidence so that the relative stopping rule means the same in any unit of y. The
    function is scaled so that the first step is ``FIRST_STEP`` long: between bounds, L-BFGS-B would begin with the
    whole gradient, end where nothing is a number, and take the way back for convergence.
    """
    best_t, best, worst, scale = start.vector, -np.inf, 0.0, 0.0

    def negative(t: Array) -> tuple[float, Array]:
        nonlocal best_t, best, worst, scale
        try:
            value, gradient = evaluate(start.at(t))
        except NotPositiveDefiniteError:
            value, gradient = np.nan, np.full_like(t, np.nan)
        if prior is not None:
            extra, slope = prior.log_density(t)
            value, gradient = value + extra, gradient + slope
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return (scale or 1.0) * (worst + 1e3 * (1.0 + abs(worst))), np.zeros_like(t)
        worst = max(worst, offset - value)
        if value > best:
            best_t, best = t.copy(), value
        if scale == 0.0:
            scale = min(1.0, FIRST_STEP / max(float(np.linalg.norm(gradient)), 1e-300))
        return scale * (offset - value), -scale * gradient

    iterations = 0
    first = np.clip(start.vector, log_bounds[:, 0], log_bounds[:, 1])
    if max_iter > 0 and len(first):
        found = minimize(
            negative,
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(log_bounds[:, 0], log_bounds[:, 1]),
            options={"maxiter": max_iter},
        )
        iterations = int(found.nit)
    if not np.isfinite(best):
        return Outcome(start, best, "the evidence could not be computed anywhere that was tried")
    return Outcome(start.at(best_t), best, "", iterations)


@dataclass(frozen=True, slots=True)
class Adam:
    """State of the optimiser of Kingma & Ba for ascent."""

    t: Array
    m: Array
    v: Array
    steps: int = 0

    @classmethod
    def at(cls, t: Array) -> Adam:
        """At the start."""
        return cls(t.copy(), np.zeros_like(t), np.zeros_like(t))

    def step(self, gradient: Array, *, rate: float, log_bounds: Array) -> Adam:
        """One step up the gradient, kept within bounds."""
        n = self.steps + 1
        m, v = 0.9 * self.m + 0.1 * gradient, 0.999 * self.v + 0.001 * gradient**2
        direction = (m / (1 - 0.9**n)) / (np.sqrt(v / (1 - 0.999**n)) + 1e-8)
        return Adam(np.clip(self.t + rate * direction, log_bounds[:, 0], log_bounds[:, 1]), m, v, n)


def expert_evidence(
    hyper: Hyper, experts: Experts, some: Sequence[int], prior: LogNormalPrior | None
) -> tuple[float, Array]:
    """Terms l_j of the factorised evidence for some experts, the prior shared out evenly (A.3.2, 3.6.2)."""
    part = Experts(
        [experts.X[j] for j in some], [experts.y[j] for j in some], [experts.A[j] for j in some], experts.exact
    )
    alone = [Clique((), (j,), -1) for j in range(len(some))]
    value, gradient = tree_evidence(hyper.model(part.X[0]), part, alone, noise_variance=hyper.noise_variance)
    if prior is not None:
        extra, slope = prior.log_density(hyper.vector)
        share = len(some) / len(experts.X)
        value, gradient = value + share * extra, gradient + share * slope
    return value, gradient


Watch = Callable[[int, float, Hyper], None]


def ascend(
    experts: Experts,
    start: Hyper,
    *,
    log_bounds: Array,
    epochs: int,
    prior: LogNormalPrior | None,
    rng: np.random.Generator,
    rate: float = 0.03,
    batch: int = 1,
    tolerance: float = 1e-2,
    watch: Watch | None = None,
) -> Outcome:
    """Adam over minibatches of ``batch`` experts, until an epoch's evidence changes by less than ``tolerance``."""
    J = len(experts.X)
    adam = Adam.at(np.clip(start.vector, log_bounds[:, 0], log_bounds[:, 1]))
    previous, failures = np.nan, 0
    total, epoch = -np.inf, 0
    for epoch in range(epochs):
        total = 0.0
        order = rng.permutation(J)
        for first in range(0, J, batch):
            some = [int(j) for j in order[first : first + batch]]
            try:
                value, gradient = expert_evidence(start.at(adam.t), experts, some, prior)
            except NotPositiveDefiniteError:
                failures += 1
                continue
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                failures += 1
                continue
            total += value
            adam = adam.step(gradient * (J / len(some)), rate=rate, log_bounds=log_bounds)
        if watch is not None:
            watch(epoch, total, start.at(adam.t))
        if adam.steps == 0:
            return Outcome(start, -np.inf, "no expert's evidence could be computed")
        if abs(total - previous) < tolerance * abs(previous):
            break
        previous = total
    return Outcome(start.at(adam.t), total, "", epoch + 1)


def say(outcome: Outcome) -> None:
    """Warn where an optimisation failed: the old values stand."""
    if outcome.failed:
        warnings.warn(f"hyperparameters kept as they were: {outcome.failed}", ConvergenceWarning, stacklevel=3)
