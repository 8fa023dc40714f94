"""Gaussian process regression on a few neighbours of each point, for many points at once.

Every function takes a stack: m points Z (m, d), and for each of them k rows X (m, k, d) with targets y (m, k, q).
Outputs are independent and share one kernel. A row may stand for several observations: ``counts`` (m, k) divides
its noise.
"""

from __future__ import annotations

import numpy as np

from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import forward_stack, safe_cholesky, solve_lower

# Below this share of the prior variance a difference of two variances has lost most of its digits.
_CANCELLED = 1e-8


def condition(
    kernel: CompiledKernel, noise_variance: float, Z: Array, X: Array, y: Array, counts: Array
) -> tuple[Array, Array]:
    """Latent mean and variance at each point given its own neighbours; for k = 1 eq. (5) of the Byzantine paper.

    Parameters
    ----------
    kernel, noise_variance
        Hyperparameters; white noise inside the kernel is noise as well.
    Z : (m, d)
    X : (m, k, d)
    y : (m, k, q)
    counts : (m, k)

    Returns
    -------
    mean : (m, q)
    variance : (m,)
        Positive always: see :func:`_refine`.

    Raises
    ------
    NotPositiveDefiniteError
        If a covariance is not finite.
    """
    k = X.shape[1]
    if k == 0:
        return np.zeros((len(Z), y.shape[2])), kernel.variance(Z)
    together = np.concatenate([X, Z[:, None, :]], axis=1)
    C = kernel.node.cross(together, together)
    prior = kernel.variance(Z)
    noise = ((noise_variance + kernel.nugget(X)) if kernel.white else noise_variance) / counts
    i = np.arange(k)
    C[:, i, i] += noise
    K, cross = C[:, :k, :k], C[:, k, :k]
    V, jitter = forward_stack(K, np.concatenate([cross[:, :, None], y], axis=2))
    v = V[:, :, 0]
    mean = np.einsum("mk,mkq->mq", v, V[:, :, 1:])
    variance = prior - np.einsum("mk,mk->m", v, v)
    low = np.flatnonzero(~(variance > _CANCELLED * prior))
    if len(low):
        K[low[:, None], i, i] += jitter[low, None]
        variance[low] = _refine(variance[low], prior[low], K[low], cross[low], noise[low] + jitter[low, None])
    return mean, variance


def _refine(variance: Array, prior: Array, C: Array, cross: Array, noise: Array) -> Array:
    """A variance that cancellation may have spoilt, held to what is known about it.

    With ``w = C^-1 k`` the variance is ``|phi - Phi w|^2 + w^T N w``, a square and the noise that the weights let
    through, so ``w^T N w`` is a lower bound that does not cancel. Nor can it be known better than to rounding of
    the prior variance: that is the second bound, and keeps it positive where the truth is zero (no noise, at a
    row that was seen).
    """
    w = np.linalg.solve(C, cross[:, :, None])[:, :, 0]
    through = np.einsum("mk,mk,mk->m", w, noise, w)
    rounding = np.finfo(np.float64).eps * C.shape[1] * prior
    return np.asarray(np.maximum(np.maximum(variance, through), rounding))


def condition_on_all(
    kernel: CompiledKernel, noise_variance: float, Z: Array, X: Array, y: Array, counts: Array
) -> tuple[Array, Array]:
    """:func:`condition` where all points share the neighbours X (n, d), y (n, q), counts (n,), factored once."""
    C = kernel.node.cross(X, X)
    noise = (noise_variance + kernel.nugget(X)) / counts
    i = np.arange(len(X))
    C[i, i] += noise
    factor = safe_cholesky(C)
    cross = kernel.node.cross(Z, X)
    prior = kernel.variance(Z)
    V = solve_lower(factor.L, cross.T)
    mean = V.T @ solve_lower(factor.L, y)
    variance = prior - np.einsum("nm,nm->m", V, V)
    low = np.flatnonzero(~(variance > _CANCELLED * prior))
    if len(low):
        w = factor.solve(cross[low].T)
        through = np.einsum("nm,n,nm->m", w, noise + factor.jitter, w)
        rounding = np.finfo(np.float64).eps * len(X) * prior[low]
        variance[low] = np.maximum(np.maximum(variance[low], through), rounding)
    return mean, variance
