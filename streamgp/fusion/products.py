"""Products of experts: what Gaussian opinions about one value say together, if nobody lies."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from streamgp.errors import NoQuorumError
from streamgp.fusion.blocks import by_points, least, within
from streamgp.fusion.fused import Fused, Mask, alone, open_door, per_point
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
    if weights is not None:
        if rho is not None:
            raise ValueError("give weights or rho, not both: a weighted variance says nothing of correlation")
        return _by_weights(M, V, ok, weights, INDEPENDENT)
    W = ok.astype(np.float64)
    if rho is None:
        return alone(_product(M, V, W, INDEPENDENT), M, V, ok)
    if not 0.0 <= rho <= 1.0:
        raise ValueError(f"rho must be in [0, 1], got {rho}")
    fused = by_points(M.shape, lambda here: _correlated(M[:, here], V[:, here], W[:, here], rho))
    return alone(fused, M, V, ok)


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
        return _by_weights(M, V, ok, weights, "")
    prior = None if prior_variance is None else per_point(prior_variance, V.shape[1], "prior_variance")

    def rule(here: slice) -> Fused:
        W = ok[:, here].astype(np.float64)
        if prior is not None:
            W = or_equal(entropy_gain(V[:, here], prior[here]), ok[:, here])
        return _weighted(M[:, here], V[:, here], W, "", order_free_sum(W))

    return alone(by_points(M.shape, rule), M, V, ok)


def min_variance(means: ArrayLike, variances: ArrayLike) -> Fused:
    """The answer of the expert that is surest (CPoE paper, B.2, minVar); experts that are equally sure share it.

    Examples
    --------
    >>> min_variance([[10.0], [12.0]], [[1.0], [4.0]]).mean
    array([10.])
    """
    M, V, ok = open_door(means, variances)
    least = V.min(axis=0)
    fused = _product(M, V, (ok & (least == V)).astype(np.float64), "")
    return Fused(fused.mean, least, fused.kept)


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
    given = None if weights is None else exponents(weights, ok)[0]
    prior = None if prior_variance is None else per_point(prior_variance, V.shape[1], "prior_variance")

    def rule(here: slice) -> Fused:
        if given is not None:
            W = given[:, here]
        elif prior is None:
            W = ok[:, here].astype(np.float64)
        else:
            W = or_equal(_sharpened(entropy_gain(V[:, here], prior[here]), sharpness), ok[:, here])
        return _weighted(M[:, here], V[:, here], W, "", order_free_sum(W))

    return alone(by_points(M.shape, rule), M, V, ok)


def _sharpened(gain: Array, sharpness: float) -> Array:
    """(n, m) gains over the greatest one at each point, to the power Z of Definition 10."""
    best = gain.max(axis=0)
    ratio = gain / np.where(best > 0, best, 1.0)
    return np.asarray(np.power(ratio, sharpness, out=ratio))


def _product(M: Array, V: Array, W: Array, note: str) -> Fused:
    """The product of all answers with exponents W (n, m)."""
    return by_points(M.shape, lambda here: _weighted(M[:, here], V[:, here], W[:, here], note))


def _by_weights(M: Array, V: Array, ok: Mask, weights: ArrayLike, note: str) -> Fused:
    """The product with the exponents that the caller gave."""
    W, power = exponents(weights, ok)
    fused = _product(M, V, W, note)
    with np.errstate(over="ignore"):
        variance = np.ldexp(fused.variance, -power)
    if not np.isfinite(variance).all():
        raise NoQuorumError("at some point the weights are so small that no number can hold the variance")
    return Fused(fused.mean, variance, fused.kept, note)


def _weighted(M: Array, V: Array, W: Array, note: str, normaliser: Array | float = 1.0) -> Fused:
    """The product with exponents W (n, m) over ``normaliser`` (m,)."""
    share, total, surest, kept = _shares(V, W)
    share *= M
    # a weighted mean lies among its members: only rounding could say otherwise
    mean = within(order_free_sum(share) / total, M, kept)
    return Fused(mean, surest * normaliser / total, kept, note)


def _correlated(M: Array, V: Array, W: Array, rho: float) -> Fused:
    """The product's mean with the variance it has when any two errors correlate by rho."""
    share, total, surest, kept = _shares(V, W)
    # Var(sum a_i e_i) = (1 - rho) sum a_i^2 v_i + rho (sum a_i s_i)^2 with a_i = share_i / total
    common = order_free_sum(np.sqrt(share)) ** 2
    variance = surest * ((1.0 - rho) * total + rho * common) / total**2
    share *= M
    return Fused(within(order_free_sum(share) / total, M, kept), variance, kept, f"correlation {rho:g} assumed")


def _shares(V: Array, W: Array) -> tuple[Array, Array, Array, Mask]:
    """Weighted precisions relative to the greatest one, their sum, that greatest one's variance, and who has any."""
    kept = W > 0
    surest = least(V, kept)
    share = surest / V  # at most 1e300 for those without weight
    share *= W
    return share, order_free_sum(share), surest, kept
