"""Prediction from the W nearest regions of every query point (Props 8-9, Def. 10, A.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamgp.gp.beliefs import Belief
from streamgp.gp.gaussian import Array
from streamgp.models.cpoe.aggregate import Aggregate, aggregate, local_prediction
from streamgp.models.cpoe.experts_data import Experts, Model
from streamgp.models.cpoe.graph import Clique

CHUNK = 4096
#: without a number asked for, all regions take part up to this many, beyond it the nearest few
ALL_REGIONS = 12
NEAREST_REGIONS = 4

Beliefs = Callable[[int], Belief]


@dataclass(frozen=True, slots=True)
class Locator:
    """Which regions lie nearest to a point: by the centre of the residual's nearest expert, in the scaled
    metric."""

    centres: Array  # (J, d), scaled
    scale: Array  # (d,)
    first: int  # experts in region 0

    def nearest(self, X: Array, count: int) -> NDArray[np.int64]:
        """(m, count) region numbers, in no order."""
        Z = X * self.scale
        D = np.sum(Z * Z, axis=1)[:, None] - 2.0 * (Z @ self.centres.T) + np.sum(self.centres**2, axis=1)
        by_region = np.column_stack([D[:, : self.first].min(axis=1), D[:, self.first :]])
        if count >= by_region.shape[1]:
            return np.broadcast_to(np.arange(by_region.shape[1]), by_region.shape).copy()
        return np.argpartition(by_region, count - 1, axis=1)[:, :count].astype(np.int64)


def how_many(n_regions: int, asked: int | None) -> int:
    """W: as asked, or by default all of a few regions and the nearest of many."""
    if asked is None:
        asked = n_regions if n_regions <= ALL_REGIONS else NEAREST_REGIONS
    return min(asked, n_regions)


def local_predictions(
    model: Model,
    experts: Experts,
    regions: Sequence[Clique],
    *,
    beliefs: Beliefs,
    X: Array,
    chosen: NDArray[np.int64],
) -> tuple[Array, Array, Array]:
    """Means (W, m, q) and variances (W, m) of the chosen regions, and the prior variance (m,)."""
    m, W = chosen.shape
    prior = model.kernel.variance(X)
    means = np.zeros((W, m, experts.n_outputs))
    variances = np.ones((W, m))
    flat = chosen.ravel()
    order = np.argsort(flat, kind="stable")
    cuts = np.flatnonzero(np.diff(flat[order])) + 1
    for group in np.split(order, cuts):
        if len(group) == 0:
            continue
        c = int(flat[group[0]])
        points, slots = group // W, group % W
        k = model.kernel(X[points], experts.inducing(regions[c]))
        mean, variance = local_prediction(k, beliefs(c), prior[points])
        means[slots, points], variances[slots, points] = mean, variance
    return means, variances, prior


def sharpness(n_rows: int, correlation: int) -> float:
    """Z = log(N) C of Def. 10."""
    return float(np.log(max(n_rows, 1)) * correlation)


def predict(
    model: Model,
    experts: Experts,
    regions: Sequence[Clique],
    *,
    beliefs: Beliefs,
    locator: Locator,
    X: Array,
    count: int,
    Z: float,
) -> Aggregate:
    """Latent mean (m, q) and variance (m,) at X, and the weights (W, m)."""
    parts = []
    for start in range(0, len(X), CHUNK):
        part = X[start : start + CHUNK]
        chosen = locator.nearest(part, count)
        means, variances, prior = local_predictions(model, experts, regions, beliefs=beliefs, X=part, chosen=chosen)
        parts.append(aggregate(means, variances, prior_variance=prior, sharpness=Z))
    return Aggregate(
        np.concatenate([p.mean for p in parts]),
        np.concatenate([p.variance for p in parts]),
        np.concatenate([p.weights for p in parts], axis=1),
    )


def joint_covariance(
    model: Model, experts: Experts, regions: Sequence[Clique], *, beliefs: Beliefs, X: Array, Z: float
) -> Array:
    """(m, m) latent covariance of a batch of queries whose diagonal is Prop. 8's variance.

    The local joint covariances S_j (Prop. 9 for several points) are joined as ``sum_j D_j S_j D_j`` with
    ``D_j = v* sqrt(beta_j) / v_j`` on the diagonal: positive semidefinite, exact for one region, and equal to
    Prop. 8 on the diagonal. All regions take part, so that all entries mix the same ones.
    """
    chosen = np.broadcast_to(np.arange(len(regions)), (len(X), len(regions)))
    means, variances, prior = local_predictions(model, experts, regions, beliefs=beliefs, X=X, chosen=chosen)
    whole = aggregate(means, variances, prior_variance=prior, sharpness=Z)
    total = np.zeros((len(X), len(X)))
    K = model.kernel(X, X)
    for c, region in enumerate(regions):
        k = model.kernel(X, experts.inducing(region))
        scale = whole.variance * np.sqrt(whole.weights[c]) / np.where(whole.variance > 0.0, variances[c], 1.0)
        total += scale[:, None] * (K - beliefs(c).explained_jointly(k)) * scale
    return 0.5 * (total + total.T)
