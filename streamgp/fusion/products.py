"""Products of experts: what Gaussian opinions about one value say together, if nobody lies."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from streamgp.fusion.fused import Fused, alone, open_door, per_point
from streamgp.fusion.sums import order_free_sum
from streamgp.fusion.weights import entropy_gain, exponents, or_equal
from streamgp.gp.gaussian import Array

INDEPENDENT = "independence assumed"


def product_of_experts(
    means: ArrayLike, variances: ArrayLike, weights: ArrayLike | None = None, *, rho: float | None = None
) -> Fused:
    """Product of experts (Hinton 2002; CPoE paper, B.2 with g the identity): precisions add up.

    Parameters
    ----------
    means, variances : (n_agents, m)
        Answers; those that are not usable are left out.
    weights : (n_agents,) or (n_agents, m), optional
        Exponents of the experts, not negative; all 1 without them.
    rho
        Correlation of the errors of any two experts, in [0, 1], instead of weights. The variance is then that of
        the same mean under such errors; without it the experts count as independent, and the note says so.

    Raises
    ------
    NoQuorumError
        If a point has no usable answer of positive weight.

    Examples
    --------
    >>> f = product_of_experts([[10.0], [12.0]], [[1.0], [4.0]])
    >>> f.mean.round(12), f.variance, f.note
    (array([10.4]), array([0.8]), 'independence assumed')
    """
    M, V, ok = open_door(means, variances)
    W = exponents(weights, ok)
    if rho is not None and weights is not None:
        raise ValueError("give weights or rho, not both: a weighted variance says nothing of correlation")
    if weights is not None:
        return _product(M, V, W, INDEPENDENT)
    return alone(_product(M, V, W, INDEPENDENT) if rho is None else _correlated(M, V, W, rho), M, V, ok)


def gpoe(
    means: ArrayLike,
    variances: ArrayLike,
    weights: ArrayLike | None = None,
    prior_variance: ArrayLike | None = None,
) -> Fused:
    """Generalised product of experts (Cao and Fleet 2014; CPoE paper, B.2): weights that add up to 1 per point.

    Parameters
    ----------
    means, variances : (n_agents, m)
        Answers; those that are not usable are left out.
    weights : (n_agents,) or (n_agents, m), optional
        Used as they are. Without them: 1/n, or, given ``prior_variance``, the difference in entropy between
        prior and posterior, normalised.
    prior_variance : float or (m,), optional
        Variance of the latent function before any data.

    Examples
    --------
    >>> f = gpoe([[10.0], [12.0]], [[1.0], [4.0]])
    >>> f.mean.round(12), f.variance
    (array([10.4]), array([1.6]))
    """
    M, V, ok = open_door(means, variances)
    if weights is not None:
        return _product(M, V, exponents(weights, ok), "")
    W = ok.astype(np.float64)
    if prior_variance is not None:
        W = or_equal(np.where(ok, entropy_gain(V, per_point(prior_variance, V.shape[1], "prior_variance")), 0), ok)
    return alone(_product(M, V, W / order_free_sum(W), ""), M, V, ok)


def min_variance(means: ArrayLike, variances: ArrayLike) -> Fused:
    """The answer of the expert that is surest (CPoE paper, B.2, minVar); experts that are equally sure share it.

    Examples
    --------
    >>> min_variance([[10.0], [12.0]], [[1.0], [4.0]]).mean
    array([10.])
    """
    M, V, ok = open_door(means, variances)
    fused = _product(M, V, (ok & (V.min(axis=0) == V)).astype(np.float64), "")
    return Fused(fused.mean, V.min(axis=0), fused.kept)


def covariance_intersection(
    means: ArrayLike,
    variances: ArrayLike,
    weights: ArrayLike | None = None,
    prior_variance: ArrayLike | None = None,
    *,
    sharpness: float = 1.0,
) -> Fused:
    """Covariance intersection: consistent whatever the correlation between the experts.

    Parameters
    ----------
    means, variances : (n_agents, m)
        Answers; those that are not usable are left out.
    weights : (n_agents,) or (n_agents, m), optional
        Normalised to add up to 1 per point. Without them: those of Definition 10 of the CPoE paper if
        ``prior_variance`` is given, else equal ones.
    prior_variance : float or (m,), optional
        Variance of the latent function before any data.
    sharpness
        The exponent Z of Definition 10, there log(N) C.

    Examples
    --------
    >>> twenty = [[5.0]] * 20, [[1.0]] * 20
    >>> covariance_intersection(*twenty).variance  # the same rows learned twenty times are no better than once
    array([1.])
    """
    M, V, ok = open_door(means, variances)
    if not (np.isfinite(sharpness) and sharpness > 0):
        raise ValueError(f"sharpness must be positive and finite, got {sharpness}")
    if weights is not None:
        W = exponents(weights, ok)
    elif prior_variance is None:
        W = ok.astype(np.float64)
    else:
        gain = np.where(ok, entropy_gain(V, per_point(prior_variance, V.shape[1], "prior_variance")), 0.0)
        best = gain.max(axis=0)
        with np.errstate(divide="ignore"):
            W = np.exp(sharpness * np.log(gain / np.where(best > 0, best, 1.0)))
        W = or_equal(W, ok)
    return _product(M, V, W / order_free_sum(W), "")


def _shares(M: Array, V: Array, W: Array) -> tuple[Array, Array, Array]:
    """Weighted precisions relative to the greatest one, their sum, and that greatest precision's variance."""
    surest = np.where(W > 0, V, np.inf).min(axis=0)
    share = W * np.where(W > 0, surest / V, 0.0)
    return share, order_free_sum(share), surest


def _product(M: Array, V: Array, W: Array, note: str) -> Fused:
    share, total, surest = _shares(M, V, W)
    kept = W > 0
    mean = order_free_sum(share * M) / total
    # a weighted mean lies among its members: only rounding could say otherwise
    mean = np.clip(mean, np.where(kept, M, np.inf).min(axis=0), np.where(kept, M, -np.inf).max(axis=0))
    return Fused(mean, surest / total, kept, note)


def _correlated(M: Array, V: Array, W: Array, rho: float) -> Fused:
    """The product's mean with the variance it has when any two errors correlate by rho."""
    if not 0.0 <= rho <= 1.0:
        raise ValueError(f"rho must be in [0, 1], got {rho}")
    fused = _product(M, V, W, f"correlation {rho:g} assumed")
    share, total, surest = _shares(M, V, W)
    # Var(sum a_i e_i) = (1 - rho) sum a_i^2 v_i + rho (sum a_i s_i)^2 with a_i = share_i / total
    common = order_free_sum(np.sqrt(share)) ** 2
    return Fused(fused.mean, surest * ((1.0 - rho) * total + rho * common) / total**2, fused.kept, fused.note)
