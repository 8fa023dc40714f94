"""Hyperparameters that are best for what the cloud serves, by gradient descent through the trimmed product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.optimize import minimize

from streamgp.experiments.byzantine.network import Prior
from streamgp.fusion import trimmed_poe
from streamgp.gp.gaussian import Array

LEVELS = (-3.0, 3.0)  # of standardised outputs
BOUNDS = ((-2.0, 7.0), (-14.0, 3.0))  # of the logarithms of a length-scale and of the noise variance


@final
@dataclass(frozen=True, slots=True)
class Network:
    """Agents with their rows, and points of known truth to be asked at.

    Parameters
    ----------
    Z : (n, p, d)
        Inputs of the agents.
    y : (n, p)
        Observations.
    Zs : (m, d)
        Points.
    truth : (m,)
        What is true there.

    Examples
    --------
    >>> Network(np.zeros((3, 2, 1)), np.zeros((3, 2)), np.zeros((1, 1)), np.zeros(1)).Zs.shape
    (1, 1)
    """

    Z: Array
    y: Array
    Zs: Array
    truth: Array


def best_prior(
    networks: list[Network], start: Prior, *, n_neighbors: int, n_trim: int, steps: int
) -> tuple[Prior, float]:
    """The prior of signal variance 1 of least mean squared error over the networks, near ``start``, and that error.

    L-BFGS over the logarithms of length-scales and noise and over the level, with the exact gradient for fixed
    neighbours and cuts: both change in steps, which the line search takes as it finds them.
    """
    logs = np.log(np.append(start.lengthscale, max(start.noise_variance / start.signal_variance, 1e-3)))
    at = np.append(logs, start.level)
    bounds = [BOUNDS[0]] * (len(logs) - 1) + [BOUNDS[1], LEVELS]

    def objective(at: Array) -> tuple[float, Array]:
        found = [loss_and_gradient(at, network, n_neighbors=n_neighbors, n_trim=n_trim) for network in networks]
        return float(np.mean([f[0] for f in found])), np.mean([f[1] for f in found], axis=0)

    at = np.clip(at, *np.array(bounds).T)
    best = minimize(objective, at, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps})
    return _prior(best.x), float(best.fun)


def loss_and_gradient(at: Array, network: Network, *, n_neighbors: int, n_trim: int) -> tuple[float, Array]:
    """Mean squared error of the trimmed product, and its derivatives (d + 2,).

    They are by the logarithms of the length-scales (d,), that of the noise, and the level.
    """
    prior, Zs = _prior(at), network.Zs
    X, y = _rows(network, prior, n_neighbors)  # (n, 1 or m, k, d) and (n, 1 or m, k)
    n, k, m = len(X), X.shape[2], len(Zs)
    scale = prior.lengthscale
    cross = prior.kappa(_distance(Zs[None, :, None, :] / scale, X / scale))[:, :, 0, :]  # (n, m, k)
    inner = prior.kappa(_distance(X / scale, X / scale))  # (n, 1 or m, k, k)
    inverse = np.linalg.inv(inner + prior.noise_variance * np.eye(k))
    alpha = (inverse @ (y - prior.level)[..., None])[..., 0]
    beta = cross @ inverse[:, 0] if X.shape[1] == 1 else np.einsum("nmp,nmpq->nmq", cross, inverse)
    M = prior.level + (cross * alpha).sum(axis=2)
    V = prior.signal_variance - (cross * beta).sum(axis=2)
    fused = trimmed_poe(M, V, n_trim)
    error = fused.mean - network.truth
    share = fused.kept / V
    share /= share.sum(axis=0)
    by_mean = (2.0 / m) * error * share  # (n, m)
    by_variance = -by_mean * (M - fused.mean) / V
    by_level = float((by_mean * (1.0 - beta.sum(axis=2))).sum())
    by_cross = by_mean[:, :, None] * alpha - 2.0 * by_variance[:, :, None] * beta
    by_cross *= cross
    left, right = by_mean[:, :, None] * beta, by_variance[:, :, None] * beta
    if X.shape[1] == 1:
        by_inner = beta.transpose(0, 2, 1) @ right - left.sum(axis=1)[:, :, None] * alpha
        by_inner = by_inner[:, None]
    else:
        by_inner = right[..., None] * beta[:, :, None, :] - left[..., None] * alpha[:, :, None, :]
    by_noise = prior.noise_variance * float(np.einsum("nmpp->", by_inner))
    moved = _spread_of(by_cross[:, :, None, :], Zs[None, :, None, :], X) + _spread_of(by_inner * inner, X, X)
    assert n == len(by_mean)
    return float(np.mean(error**2)), np.concatenate([moved / scale**2, [by_noise, by_level]])


def _prior(at: Array) -> Prior:
    return Prior(1.0, np.exp(at[:-2]), float(np.exp(at[-2])), level=float(at[-1]))


def _rows(network: Network, prior: Prior, k: int) -> tuple[Array, Array]:
    """Each agent's k nearest rows at each point; all its rows, the same at each, if it has no more."""
    Z, y = network.Z, network.y
    if k >= Z.shape[1]:
        return Z[:, None], y[:, None]
    distance = _distance(network.Zs[None] / prior.lengthscale, Z / prior.lengthscale)  # (n, m, p)
    nearest = distance.argmin(axis=2)[:, :, None] if k == 1 else np.argpartition(distance, k - 1, axis=2)[:, :, :k]
    agent = np.arange(len(Z))[:, None, None]
    return Z[agent, nearest], y[agent, nearest]


def _distance(A: Array, B: Array) -> Array:
    """(..., k, l) distances between rows (..., k, d) and (..., l, d)."""
    square = -2.0 * A @ np.swapaxes(B, -1, -2)
    square = square + (A**2).sum(axis=-1)[..., :, None] + (B**2).sum(axis=-1)[..., None, :]
    return np.asarray(np.sqrt(np.maximum(square, 0.0)))


def _spread_of(weight: Array, A: Array, B: Array) -> Array:
    """(d,) sum over all of weight (n, m, k, l) times the squared differences of A (.., k, d) and B (.., l, d)."""
    shape = weight.shape[:2]
    A, B = (np.broadcast_to(x, (*shape, *x.shape[2:])) if x.shape[0] == 1 or x.shape[1] == 1 else x for x in (A, B))
    own = np.einsum("nmk,nmkd->d", weight.sum(axis=3), A**2) + np.einsum("nml,nmld->d", weight.sum(axis=2), B**2)
    return np.asarray(own - 2.0 * np.einsum("nmkd,nmkd->d", weight @ B, A))
