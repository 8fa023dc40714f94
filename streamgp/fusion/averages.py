"""Averages and robust averages that federated learning uses, for the comparison: they know no precisions."""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgp.errors import NoQuorumError
from streamgp.fusion.blocks import by_points, middle
from streamgp.fusion.fused import Fused, Mask, alone, as_answers, open_door, usable_mask
from streamgp.fusion.sums import order_free_sum
from streamgp.gp.gaussian import Array

_WEISZFELD_STEPS = 1000
_WEISZFELD_TOLERANCE = 1e-12


def mean_of_experts(means: ArrayLike, variances: ArrayLike) -> Fused:
    """Plain average (federated averaging): of the means, and of the variances, which no correlation can exceed.

    Parameters
    ----------
    means, variances : (n_agents, m)
        Answers; those that are not usable are left out.

    Examples
    --------
    >>> mean_of_experts([[10.0], [12.0]], [[1.0], [4.0]]).mean
    array([11.])
    """
    M, V, ok = open_door(means, variances)
    n = ok.sum(axis=0)
    claims = V if ok.all() else np.where(ok, V, 0.0)

    def rule(here: slice) -> Fused:
        return Fused(order_free_sum(M[:, here]) / n[here], order_free_sum(claims[:, here]) / n[here], ok[:, here])

    return alone(by_points(M.shape, rule), M, V, ok)


def median_of_experts(means: ArrayLike, variances: ArrayLike) -> Fused:
    """Median per point of the means, and of the variances (Yin et al. 2018).

    Examples
    --------
    >>> median_of_experts([[1.0], [2.0], [99.0]], [[1.0], [3.0], [2.0]]).variance
    array([2.])
    """
    M, V, ok = open_door(means, variances)
    count = ok.sum(axis=0)
    means_in_use = M if ok.all() else np.where(ok, M, np.inf)

    def rule(here: slice) -> Fused:
        by_mean, by_variance = np.sort(means_in_use[:, here], axis=0), np.sort(V[:, here], axis=0)
        return Fused(middle(by_mean, count[here]), middle(by_variance, count[here]), ok[:, here])

    return by_points(M.shape, rule)


def geometric_median(means: ArrayLike, variances: ArrayLike) -> Fused:
    """Geometric median of whole answers (Chen et al. 2017), by Weiszfeld's steps.

    An agent's answer is one point of R^2m: its means and its standard deviations, which have the same units. An
    agent that is not usable at some point is left out whole.

    Raises
    ------
    NoQuorumError
        If no agent's whole answer is usable.

    Examples
    --------
    >>> f = geometric_median([[0.0], [0.0], [1.0], [99.0], [0.0]], [[1.0]] * 5)
    >>> abs(float(f.mean[0])) < 1e-6
    True
    """
    points, who, shape = _whole(means, variances)
    agents = np.isin(np.arange(shape[0]), who)
    kept = np.repeat(agents[:, None], shape[1], axis=1)
    if len(who) == 1 or not shape[1]:
        return _answer_of(int(who[0]), means, variances, kept)
    scale = _size(points)
    centre = np.clip(_weiszfeld(points / scale) * scale, points.min(axis=0), points.max(axis=0))
    return Fused(centre[: shape[1]].copy(), centre[shape[1] :] ** 2, kept)


def krum(means: ArrayLike, variances: ArrayLike, n_byzantine: int) -> Fused:
    """Krum (Blanchard et al. 2017): the one answer that lies nearest to its n - f - 2 nearest others.

    Parameters
    ----------
    means, variances : (n_agents, m)
        Answers; an agent that is not usable at some point is left out whole.
    n_byzantine
        The number f of liars to stand.

    Raises
    ------
    NoQuorumError
        If n <= 2 f + 2, where Krum promises nothing; one agent alone with f = 0 is its own answer.

    Examples
    --------
    >>> krum([[1.0], [1.1], [0.9], [1.0], [50.0]], [[1.0]] * 5, 1).mean
    array([1.])
    """
    points, who, shape = _whole(means, variances)
    n, n_byzantine = len(who), operator.index(n_byzantine)
    if n_byzantine < 0:
        raise ValueError(f"n_byzantine must not be negative, got {n_byzantine}")
    if n == 1 and n_byzantine == 0:
        chosen = 0
    elif n <= 2 * n_byzantine + 2:
        raise NoQuorumError(f"{n_byzantine} liars need more than {2 * n_byzantine + 2} agents, got {n}")
    else:
        scaled = points / _size(points)
        square = np.stack([((scaled - row) ** 2).sum(axis=1) for row in scaled])
        nearest = np.sort(square, axis=1)[:, 1 : n - n_byzantine - 1]
        score = nearest.sum(axis=1)
        chosen = int(np.lexsort((*points.T[::-1], score))[0])  # ties by content, not by row
    row = int(who[chosen])
    kept = np.zeros(shape, dtype=np.bool_)
    kept[row] = True
    return _answer_of(row, means, variances, kept)


def _answer_of(row: int, means: ArrayLike, variances: ArrayLike, kept: Mask) -> Fused:
    M, V = as_answers(means, variances)
    return Fused(M[row].copy(), V[row].copy(), kept)


def _size(points: Array) -> float:
    """The greatest coordinate: squares of numbers divided by it cannot overflow. 1 where nothing was asked."""
    return float(np.abs(points).max()) if points.size else 1.0


def _weiszfeld(points: Array) -> Array:
    """Point of least summed distance to the rows of ``points`` (k, d)."""
    centre: Array = np.median(points, axis=0)
    for _ in range(_WEISZFELD_STEPS):
        distance = np.sqrt(order_free_sum(((points - centre) ** 2).T))
        typical = float(np.median(distance))
        if typical == 0.0:  # half of the points are the centre: no other can be nearer to all
            break
        weight = (typical / np.maximum(distance, 1e-12 * typical))[:, None]
        moved = order_free_sum(weight * points) / order_free_sum(weight)
        step = float(np.abs(moved - centre).max())
        centre = moved
        if step <= _WEISZFELD_TOLERANCE * typical:
            break
    return centre


def _whole(means: ArrayLike, variances: ArrayLike) -> tuple[Array, NDArray[np.intp], tuple[int, int]]:
    """(k, 2m) answers of the k agents that are usable everywhere, their rows, and the shape of it all."""
    M, V = as_answers(means, variances)
    who = np.flatnonzero(usable_mask(M, V).all(axis=1))
    if not who.size:
        raise NoQuorumError("no agent's whole answer is usable")
    return np.hstack([M[who], np.sqrt(V[who])]), who, (M.shape[0], M.shape[1])
