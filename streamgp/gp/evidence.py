"""The marginal likelihood of hyperparameters, its gradient, and the search for its maximum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.optimize import Bounds, minimize

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import safe_cholesky

#: of a descent, in logarithms of hyperparameters
FIRST_STEP = 0.5

#: parameters (p,) -> value and gradient (p,), to be made small
Objective: TypeAlias = Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True, slots=True)
class Sample:
    """Observations gathered by place.

    Attributes
    ----------
    X : (n, d)
        Places.
    y : (n, q)
        Mean target of each; outputs are independent and share the kernel.
    counts : (n,)
        Observations behind each mean.
    within : (n,)
        Sum of squared deviations of the observations from their place's mean, over outputs.
    """

    X: Array
    y: Array
    counts: Array
    within: Array

    @staticmethod
    def of(X: Array, y: Array) -> Sample:
        """One observation a row; y (n,) or (n, q)."""
        return Sample(X, y.reshape(len(X), -1), np.ones(len(X)), np.zeros(len(X)))


def log_evidence(kernel: CompiledKernel, noise_variance: float, sample: Sample) -> tuple[float, Array]:
    """Log marginal likelihood of all observations (Rasmussen & Williams 2006, eqs (2.30) and (5.9)).

    Parameters
    ----------
    kernel, noise_variance
        Hyperparameters; the noise variance must be positive where a place has more than one observation.
    sample
        The observations.

    Returns
    -------
    value : float
    gradient : (p + 1,)
        With respect to the kernel's theta and to the logarithm of the noise variance.

    Raises
    ------
    NotPositiveDefiniteError
        If the covariance is not positive definite even with jitter.
    """
    X, y, counts = sample.X, sample.y, sample.counts
    n, q = y.shape
    K, pull = kernel.node.vjp(X, X)
    white, pull_white = kernel.node.diag(X, nugget=True)
    plain, pull_plain = kernel.node.diag(X, nugget=False)
    level = noise_variance + (white - plain)
    C = K.copy()
    np.einsum("ii->i", C)[:] += level / counts
    factor = safe_cholesky(C)
    alpha = factor.solve(y)
    value = -0.5 * (float(np.vdot(y, alpha)) + q * factor.log_det() + n * q * np.log(2.0 * np.pi))
    # the derivative of the value with respect to C, folded: all that it meets is symmetric
    W = factor.folded_inverse()
    W *= -q
    W += alpha @ alpha.T
    W *= 0.5
    per_place = np.diagonal(W) / counts
    # what the observations of one place say among themselves: independent of the kernel's function
    repeats = counts - 1.0
    if repeats.any():
        ratio = sample.within / level
        value -= 0.5 * float(np.sum(q * repeats * np.log(2.0 * np.pi * level) + q * np.log(counts) + ratio))
        per_place = per_place + 0.5 * (ratio - q * repeats) / level
    gradient = pull(W)
    if np.any(white != plain):
        gradient = gradient + pull_white(per_place) - pull_plain(per_place)
    return value, np.append(gradient, noise_variance * float(per_place.sum()))


@dataclass(frozen=True, slots=True)
class Search:
    """How a search for hyperparameters ended.

    Attributes
    ----------
    parameters : (p,)
        The best found, or where it began if nothing better was found.
    value : float
        Objective there; infinite if it was never finite.
    converged : bool
        Whether the optimiser of the best start says so. If not, ``message`` tells why.
    message : str
    discarded : int
        Starts given up because the objective was not finite there.
    """

    parameters: Array
    value: float
    converged: bool
    message: str
    discarded: int


def search(
    objective: Objective, starts: Sequence[Array], bounds: Array, *, max_iter: int = 100, screen: int = 12
) -> Search:
    """Minimise by L-BFGS-B: a few iterations from every start, then the best one to its end.

    The objective is scaled so that the first step is ``FIRST_STEP`` long at most: between bounds, L-BFGS-B would begin
    with the whole gradient, end where nothing is a number, and take the way back for convergence.

    A start, or a step, where the objective is not finite or its matrix not positive definite is given up; it never
    stops the others. If nothing ends below the first start's own value, the first is returned unchanged.

    Parameters
    ----------
    objective
        Value and gradient, to be made small.
    starts
        Parameters to begin from, each (p,); the first are the values held. They are moved into the bounds.
    bounds : (p, 2)
    max_iter, screen
        Iterations of the best start, and of every start before one is chosen.
    """
    first = np.asarray(starts[0], dtype=np.float64)
    held, _ = _guarded(objective, first, np.inf)
    best = Search(first, held, False, "no start was better than the values held", 0)
    if len(starts) > 1:
        for start in starts:
            best = _better(best, _descend(objective, start, bounds, screen))
    return _better(best, _descend(objective, best.parameters, bounds, max_iter))


def _descend(objective: Objective, start: Array, bounds: Array, max_iter: int) -> Search:
    low, high = bounds[:, 0], bounds[:, 1]
    begin = np.clip(start, low, high)
    begun, slope = _guarded(objective, begin, np.inf)
    if not np.isfinite(begun):
        return Search(begin, np.inf, False, "the objective is not finite at the start", 1)
    scale = min(1.0, FIRST_STEP / max(float(np.linalg.norm(slope)), FIRST_STEP))
    # high enough that a line search steps back from it, low enough that its cubics do not overflow
    wall = begun + 1e4 * (1.0 + abs(begun))
    result = minimize(
        _scaled(objective, wall, origin=begun, scale=scale),
        begin,
        method="L-BFGS-B",
        jac=True,
        bounds=Bounds(low, high),
        options={"maxiter": max_iter, "maxls": 20, "gtol": 1e-5 * scale},
    )
    end, value = np.asarray(result.x, dtype=np.float64), begun + float(result.fun) / scale
    if not (np.isfinite(value) and np.isfinite(end).all()):
        return Search(begin, np.inf, False, "the objective left the finite numbers", 1)
    return Search(end, value, bool(result.success), str(result.message), 0)


def _better(best: Search, other: Search) -> Search:
    discarded = best.discarded + other.discarded
    better = np.isfinite(other.value) and other.value <= best.value
    return replace(other if better else best, discarded=discarded)


def _scaled(objective: Objective, wall: float, *, origin: float, scale: float) -> Objective:
    """The guarded objective, zero at the origin."""

    def evaluate(parameters: Array) -> tuple[float, Array]:
        value, gradient = _guarded(objective, parameters, wall)
        return scale * (value - origin), scale * gradient

    return evaluate


def _guarded(objective: Objective, parameters: Array, wall: float) -> tuple[float, Array]:
    """The objective, or the wall with a zero gradient where it cannot be had."""
    with np.errstate(all="ignore"):
        try:
            value, gradient = objective(parameters)
        except (NotPositiveDefiniteError, np.linalg.LinAlgError, FloatingPointError, OverflowError):
            return wall, np.zeros_like(parameters)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return wall, np.zeros_like(parameters)
    return value, gradient
