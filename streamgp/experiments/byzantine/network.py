"""A network of agents that have learned and now answer: the local predictions (5) of many agents at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial import cKDTree

from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import safe_cholesky, solve_lower

Ints: TypeAlias = NDArray[np.intp]

DEFAULT_NEIGHBORS = 32  # of NearestNeighborGP
_WARM_UP = 300  # rows that hyperparameters are fitted on
_STACK = 2_000_000  # numbers in one stack of neighbourhoods
_FEW = 100  # rows that are searched faster by looking at all of them


@final
@dataclass(frozen=True, slots=True)
class Prior:
    """Squared-exponential kernel and noise that the agents share, as in section 6.1.

    Parameters
    ----------
    signal_variance, noise_variance
        sigma_f^2 and sigma_e^2.
    lengthscale : (d,)
        One an input; distances are measured in these units, so that Assumption 2 holds in the scaled space.
    level
        Prior mean, the same everywhere.

    Examples
    --------
    >>> Prior(1.0, np.array([0.2]), 0.01).kappa(np.zeros(1))
    array([1.])
    """

    signal_variance: float
    lengthscale: Array
    noise_variance: float
    level: float = 0.0

    def kappa(self, distance: Array) -> Array:
        """Covariance at a distance in length-scales."""
        shape = np.multiply(distance, distance)
        shape *= -0.5
        np.exp(shape, out=shape)
        return np.asarray(self.signal_variance * shape)

    def describe(self) -> str:
        """The numbers, for the notes of a study."""
        lengths = ", ".join(f"{length:.3g}" for length in self.lengthscale)
        level = f", level {self.level:.2g}" if self.level else ""
        noise = f"noise {self.noise_variance:.2g}"
        return f"signal variance {self.signal_variance:.3g}, length-scale {lengths}, {noise}{level}"


def fit_prior(Z: Array, y: Array, *, seed: int) -> Prior:
    """Maximum-likelihood hyperparameters, one length-scale, on at most 300 rows of a warm-up set Z (n, d), y (n,).

    The paper does not state its hyperparameters, nor how they were found; this is ours.
    """
    rows = np.random.default_rng(seed).permutation(len(y))[:_WARM_UP]
    square = _squared(Z[rows][None], Z[rows][None])[0]
    spread = float(np.sqrt(np.median(square)))
    starts: list[Array] = [np.log([spread * f, r]) for f in (0.1, 0.3, 1.0) for r in (1e-3, 1e-1)]
    best = min(starts, key=lambda start: _misfit(start, square, y[rows])[0])

    def objective(logs: Array) -> float:
        return _misfit(logs, square, y[rows])[0]

    found = minimize(objective, best, method="Nelder-Mead", tol=1e-3)
    signal = _misfit(found.x, square, y[rows])[1]
    return Prior(signal, np.full(Z.shape[1], np.exp(found.x[0])), signal * float(np.exp(found.x[1])))


def _misfit(logs: Array, square: Array, y: Array) -> tuple[float, float]:
    """Negative log evidence for (log length-scale, log noise share), and the best signal variance there."""
    lengthscale, share = np.exp(np.clip(logs, -20.0, 20.0))
    factor = safe_cholesky(np.exp(-0.5 * square / lengthscale**2) + share * np.eye(len(y)))
    signal = float((solve_lower(factor.L, y) ** 2).mean())
    return 0.5 * len(y) * float(np.log(signal)) + 0.5 * factor.log_det(), signal


def local_answers(Z: Array, y: Array, Zs: Array, prior: Prior, *, n_neighbors: int) -> tuple[Array, Array]:
    """Means and variances (n, m) of n agents at m points, each from its own nearest rows; (5) for one neighbour.

    Parameters
    ----------
    Z : (n, p, d)
        Inputs, p rows an agent.
    y : (n, p)
        Observations.
    Zs : (m, d)
        The points asked for.
    prior
        Kernel and noise.
    n_neighbors
        k; with no more rows than that an agent uses them all.
    """
    scaled, points = Z / prior.lengthscale, Zs / prior.lengthscale
    off = y - prior.level
    if min(n_neighbors, Z.shape[1]) == 1:
        mean, variance = _from_one(scaled, off, points, prior)
    elif n_neighbors >= Z.shape[1]:
        mean, variance = _from_all(scaled, off, points, prior)
    else:
        answers = [_from_some(scaled[i], off[i], points, prior, n_neighbors) for i in range(len(Z))]
        mean, variance = np.array([a[0] for a in answers]), np.array([a[1] for a in answers])
    return mean + prior.level, variance


def dispersions(Z: Array, region: Array) -> Array:
    """(n,) largest distance from a point of ``region`` (g, d) to each agent's rows Z (n, p, d)."""
    return np.array([_nearest(rows, region, 1)[0].max() for rows in Z])


def _from_one(Z: Array, y: Array, Zs: Array, prior: Prior) -> tuple[Array, Array]:
    if Z.shape[1] <= _FEW:
        square = _squared(Zs[None, :, :], Z)  # (n, m, p)
        row = square.argmin(axis=2)
        distance = np.sqrt(np.take_along_axis(square, row[:, :, None], axis=2)[:, :, 0])
    else:
        found = [_nearest(rows, Zs, 1) for rows in Z]
        distance, row = np.array([f[0][:, 0] for f in found]), np.array([f[1][:, 0] for f in found])
    cross = prior.kappa(distance)
    gain = cross / (prior.signal_variance + prior.noise_variance)
    return gain * np.take_along_axis(y, row, axis=1), prior.signal_variance - gain * cross


def _from_some(Z: Array, y: Array, Zs: Array, prior: Prior, k: int) -> tuple[Array, Array]:
    distance, row = _nearest(Z, Zs, k)
    cross = prior.kappa(distance)  # (m, k)
    mean, variance = np.empty(len(Zs)), np.empty(len(Zs))
    step = max(1, _STACK // (k * k))
    for start in range(0, len(Zs), step):
        here = slice(start, start + step)
        K = _covariance(Z[row[here]], prior)
        gain = np.linalg.solve(K, cross[here][:, :, None])[..., 0]
        mean[here] = (gain * y[row[here]]).sum(axis=1)
        variance[here] = prior.signal_variance - (gain * cross[here]).sum(axis=1)
    return mean, variance


def _from_all(Z: Array, y: Array, Zs: Array, prior: Prior) -> tuple[Array, Array]:
    cross = prior.kappa(np.sqrt(_squared(Zs[None, :, :], Z)))  # (n, m, p)
    # p is small and m is large: inverses are cheaper than m right-hand sides
    inverse = np.linalg.inv(_covariance(Z, prior))
    mean = (cross @ (inverse @ y[:, :, None]))[:, :, 0]
    return mean, prior.signal_variance - np.einsum("nmp,nmp->nm", cross @ inverse, cross)


def _nearest(Z: Array, Zs: Array, k: int) -> tuple[Array, Ints]:
    """(m, k) distances to the nearest rows, and which they are."""
    distance, row = cKDTree(Z).query(Zs, k=[*range(1, k + 1)])
    return np.asarray(distance), np.asarray(row, dtype=np.intp)


def _covariance(Z: Array, prior: Prior) -> Array:
    """(s, k, k) covariances of observations at a stack of rows (s, k, d)."""
    K = prior.kappa(np.sqrt(_squared(Z, Z)))
    K += prior.noise_variance * np.eye(Z.shape[1])
    return K


def _squared(A: Array, B: Array) -> Array:
    """(s, k, l) squared distances between stacks of rows (s or 1, k, d) and (s, l, d)."""
    square = -2.0 * A @ B.transpose(0, 2, 1)
    square += (A**2).sum(axis=2)[:, :, None]
    square += (B**2).sum(axis=2)[:, None, :]
    return np.asarray(np.maximum(square, 0.0, out=square))
