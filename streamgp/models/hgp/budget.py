"""How many inducing inputs a residual needs, judged by the bound itself.

What inducing inputs miss costs the bound (residual trace) / (2 sigma^2) nats, see (19). Choosing them among rows
by a pivoted Cholesky shrinks that trace greedily and gives the cost of every smaller budget on the way.
"""

from __future__ import annotations

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.features import correlation

#: a budget suffices when more inducing inputs could gain the bound at most this much, in nats a client
ENOUGH_NATS = 0.5


def chosen_rows(
    X: Array, lengthscales: Array, *, weights: Array, noise: float, most: int, enough: float = ENOUGH_NATS
) -> tuple[Array, float]:
    """Rows of X (n, d) to serve as inducing inputs, in the order of what they gain: (M, d), 1 <= M <= ``most``.

    The second value is what all of them still miss, in nats of the bound.

    Parameters
    ----------
    lengthscales : (R, d)
        Of the latents that share the inducing inputs.
    weights : (R,)
        Sum over outputs of the squared effective loadings of each latent.
    noise
        Noise variance.
    """
    distinct, counts = np.unique(X, axis=0, return_counts=True)
    n, R = len(distinct), len(lengthscales)
    if n == 0:
        return np.zeros((1, X.shape[1])), 0.0
    left = np.ones((R, n))  # residual variance of each latent at each row
    roots = np.zeros((R, min(most, n), n))
    chosen: list[int] = []
    while len(chosen) < min(most, n):
        cost = weights @ left * counts
        if chosen and cost.sum() <= 2.0 * noise * enough:
            break
        pivot = int(np.argmax(np.where(np.max(left, axis=0) > 1e-9, cost, -1.0)))
        if pivot in chosen:
            break
        k = len(chosen)
        for r in range(R):
            if left[r, pivot] <= 1e-9:
                continue
            column = correlation(distinct, distinct[pivot : pivot + 1], lengthscales[r])[:, 0]
            column -= roots[r, :k, pivot] @ roots[r, :k]
            roots[r, k] = column / np.sqrt(left[r, pivot])
            left[r] = np.maximum(left[r] - roots[r, k] ** 2, 0.0)
            left[r, pivot] = 0.0
        chosen.append(pivot)
    return np.asarray(distinct[chosen]), float((weights @ left * counts).sum()) / (2.0 * noise)
