"""Squared distances between rows, for one pair of matrices or for stacks of small ones."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from streamgp.gp.gaussian import Array

# The product form of a squared distance loses about eps * (largest squared norm) absolutely; below this
# bound on the norm the loss (1e-14) disappears beside the rounding of the kernel's own value.
_PRODUCT_NORM_LIMIT = 64.0
_PRODUCT_MIN_COLUMNS = 3


def squared_distances(X: Array, Y: Array) -> Array:
    """Squared Euclidean distances between rows.

    Parameters
    ----------
    X, Y : (..., n, d), (..., m, d)
        Leading dimensions are a stack; both have the same ones, or one that broadcasts.

    Returns
    -------
    (..., n, m)
        Never negative; exactly zero on the diagonal where ``Y is X``.
    """
    if X.ndim == 2 and Y.ndim == 2:
        if X.shape[1] < _PRODUCT_MIN_COLUMNS:
            return np.asarray(cdist(X, Y, "sqeuclidean"))
        shift = X.mean(axis=0) if len(X) else 0.0
        Xc = X - shift
        Yc = Xc if Y is X else Y - shift
        x2 = np.einsum("ij,ij->i", Xc, Xc)
        y2 = x2 if Y is X else np.einsum("ij,ij->i", Yc, Yc)
        largest = max(float(x2.max(initial=0.0)), float(y2.max(initial=0.0)))
        if not largest <= _PRODUCT_NORM_LIMIT:
            return np.asarray(cdist(X, Y, "sqeuclidean"))
        return _by_product(Xc, Yc, x2, y2, same=Y is X)
    # A stack holds the neighbourhoods of a few points: its first rows are as good an origin as any.
    shift = X[..., :1, :]
    Xc = X - shift
    Yc = Xc if Y is X else Y - shift
    x2 = np.einsum("...ij,...ij->...i", Xc, Xc)
    y2 = x2 if Y is X else np.einsum("...ij,...ij->...i", Yc, Yc)
    return _by_product(Xc, Yc, x2, y2, same=Y is X)


def _by_product(Xc: Array, Yc: Array, x2: Array, y2: Array, *, same: bool) -> Array:
    # added before the product is taken off, so that the result is symmetric to the bit
    D: Array = x2[..., :, None] + y2[..., None, :]
    G: Array = np.matmul(Xc, np.swapaxes(Yc, -1, -2))
    G *= 2.0
    D -= G
    np.maximum(D, 0.0, out=D)
    if same:
        np.einsum("...ii->...i", D)[...] = 0.0
    return D


def weighted_squares(W: Array, X: Array, Y: Array) -> Array:
    """``sum_ij W_ij (X_ic - Y_jc)^2`` for every column c, without an (n, m, d) array.

    Parameters
    ----------
    W : (..., n, m)
    X, Y : (..., n, d), (..., m, d)

    Returns
    -------
    (d,)
        Summed over the stack as well.
    """
    shift = X[..., :1, :]
    Xc = X - shift
    Yc = Xc if Y is X else Y - shift
    rows, columns = W.sum(axis=-1), W.sum(axis=-2)
    total = np.sum(rows[..., None] * Xc * Xc - 2.0 * Xc * np.matmul(W, Yc), axis=-2)
    total += np.sum(columns[..., None] * Yc * Yc, axis=-2)
    return np.asarray(total.reshape(-1, X.shape[-1]).sum(axis=0))
