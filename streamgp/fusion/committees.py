"""Bayesian committee machines: products of experts that share a prior, with the prior counted once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from streamgp.errors import NoQuorumError
from streamgp.fusion.blocks import by_points
from streamgp.fusion.fused import Fused, alone, open_door, per_point
from streamgp.fusion.sums import order_free_sum
from streamgp.fusion.weights import entropy_gain
from streamgp.gp.gaussian import Array


def bcm(means: ArrayLike, variances: ArrayLike, prior_variance: ArrayLike) -> Fused:
    """Bayesian committee machine (Tresp 2000): the product, with the prior that it counts n times divided out.

    An expert that claims to know less than the prior has no share: dividing it out could leave less than nothing.
    Where no expert knows more than the prior, the prior is the answer. The prior mean is zero.

    Parameters
    ----------
    means, variances : (n_agents, m)
        Answers; those that are not usable are left out.
    prior_variance : float or (m,)
        Variance of the latent function before any data.

    Examples
    --------
    >>> bcm([[1.0], [1.0]], [[0.5], [0.5]], prior_variance=1.0).variance.round(12)
    array([0.33333333])
    """
    M, V, ok = open_door(means, variances)
    prior = per_point(prior_variance, V.shape[1], "prior_variance")

    def rule(here: slice) -> Fused:
        v = V[:, here]
        return _committee(M[:, here], v, (prior[here] >= v).astype(np.float64), prior[here])

    return alone(by_points(M.shape, rule), M, V, ok)


def rbcm(means: ArrayLike, variances: ArrayLike, prior_variance: ArrayLike) -> Fused:
    """Robust Bayesian committee machine (Deisenroth and Ng 2015): BCM with entropy weights.

    Same arguments as :func:`bcm`, and the same treatment of experts that know less than the prior.

    Examples
    --------
    >>> rbcm([[1.0], [5.0]], [[0.1], [1.0]], prior_variance=1.0).kept[:, 0].tolist()
    [True, False]
    """
    M, V, ok = open_door(means, variances)
    prior = per_point(prior_variance, V.shape[1], "prior_variance")

    def rule(here: slice) -> Fused:
        v = V[:, here]
        return _committee(M[:, here], v, entropy_gain(v, prior[here]), prior[here])

    return alone(by_points(M.shape, rule), M, V, ok)


def grbcm(means: ArrayLike, variances: ArrayLike, prior_variance: ArrayLike | None = None) -> Fused:
    """Generalised robust BCM (Liu et al. 2018): the first row is the communication expert.

    The other experts learned the communication expert's rows beside their own, so its answer plays the part that
    the prior has in :func:`rbcm`. One of them has weight 1 (there the conditional is exact), the rest their gain
    in entropy over the communication expert; which one is left open, and here it is the one that gains most, so
    that the order of the others does not matter.

    Parameters
    ----------
    means, variances : (n_agents, m)
        Row 0 is the communication expert; it must be usable everywhere.
    prior_variance : float or (m,), optional
        Not needed; checked, so that all committee machines can be called alike.

    Raises
    ------
    NoQuorumError
        If the communication expert's answer is not usable at some point.

    Examples
    --------
    >>> f = grbcm([[1.0], [2.0]], [[1.0], [0.5]])  # one augmented expert: it has seen all there is
    >>> f.mean, f.variance
    (array([2.]), array([0.5]))
    """
    M, V, ok = open_door(means, variances)
    if prior_variance is not None:
        per_point(prior_variance, V.shape[1], "prior_variance")
    if not ok[0].all():
        raise NoQuorumError("the communication expert's answer is not usable at every point")
    if M.shape[0] == 1:
        return Fused(M[0].copy(), V[0].copy(), ok.copy())
    fused = by_points(M.shape, lambda here: _with_communication(M[:, here], V[:, here]))
    return alone(fused, M, V, ok)


def _with_communication(M: Array, V: Array) -> Fused:
    """Row 0 is the communication expert, which the others have learned too."""
    M1, V1, base = M[1:], V[1:], V[0]
    W = entropy_gain(V1, base)
    least_of_them = V1.min(axis=0)
    best = (least_of_them == V1) & (base >= V1)
    ties = np.maximum(best.sum(axis=0), 1)
    row, point = np.nonzero(best)
    W[row, point] = (1.0 + (ties[point] - 1) * W[row, point]) / ties[point]  # one has weight 1, others their gain
    weighs = W > 0
    informed = weighs.any(axis=0)
    surest = np.minimum(base, least_of_them)  # precisions in units of the greatest
    share = surest / V1
    share *= W
    excess = order_free_sum(W) - 1.0
    counted = excess * (surest / base)
    total = np.where(informed, order_free_sum(share) - counted, 1.0)
    share *= M1
    mean = np.where(informed, (order_free_sum(share) - counted * M[0]) / total, M[0])
    return Fused(mean, surest / total, np.vstack([(excess != 0) | ~informed, weighs]))


def _committee(M: Array, V: Array, W: Array, prior: Array) -> Fused:
    """Weighted product, the prior divided out (sum of weights - 1) times; the prior where no weight is left."""
    kept = W > 0
    surest = np.minimum(prior, V.min(axis=0))  # precisions in units of the greatest
    share = surest / V
    share *= W
    before = surest / prior
    W *= before
    np.subtract(share, W, out=W)
    total = before + order_free_sum(W)
    share *= M
    return Fused(order_free_sum(share) / total, surest / total, kept)
