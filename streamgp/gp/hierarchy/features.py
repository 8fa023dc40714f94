"""Whitened interpolation of one latent process, and its derivative by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import safe_cholesky, solve_lower

#: what is added to the diagonal of every correlation matrix of inducing inputs (pFedHGP, 3.7)
JITTER = 1e-6


def correlation(X: Array, Z: Array, lengthscale: Array) -> Array:
    """(n, m) squared-exponential correlations of rows X (n, d) and Z (m, d), one lengthscale a column (d,)."""
    U, V = X / lengthscale, Z / lengthscale
    if U.shape[1] == 1:
        squared = np.square(U - V[:, 0])
    else:
        squared = (U * U).sum(axis=1)[:, None] + (V * V).sum(axis=1) - 2.0 * (U @ V.T)
        np.maximum(squared, 0.0, out=squared)
    squared *= -0.5
    return np.asarray(np.exp(squared, out=squared))


@dataclass(frozen=True, slots=True)
class Features:
    """A = rho(X, Z) L^-T with rho(Z, Z) + 1e-6 I = L L^T: a latent of unit variance is A v, v ~ N(0, I).

    This is the interpolation matrix of pFedHGP (7) in the whitened coordinates of 3.7.
    """

    A: Array  # (n, M)
    L_inv: Array  # (M, M)
    cross: Array  # (n, M)
    inner: Array  # (M, M)


def features(X: Array, Z: Array, lengthscale: Array) -> Features:
    """Features of rows X (n, d) on inducing inputs Z (M, d)."""
    inner = correlation(Z, Z, lengthscale)
    identity = np.eye(Z.shape[0])
    # the jitter bounds the condition number, so that products with L^-1 lose nothing that a solve would keep
    L_inv = solve_lower(safe_cholesky(inner + JITTER * identity).L, identity)
    cross = correlation(X, Z, lengthscale)
    return Features(cross @ L_inv.T, L_inv, cross, inner)


def features_backward(f: Features, A_bar: Array, *, X: Array, Z: Array, lengthscale: Array) -> tuple[Array, Array]:
    """Derivatives of an objective by lengthscale (d,) and Z (M, d), given its derivative ``A_bar`` (n, M) by A."""
    cross_bar = (A_bar @ f.L_inv) * f.cross
    T = A_bar.T @ f.A
    S_bar = -0.5 * (np.tril(T) + np.tril(T, -1).T)
    inner_bar = (f.L_inv.T @ S_bar @ f.L_inv) * f.inner
    rows, columns, sums = cross_bar.sum(axis=1), cross_bar.sum(axis=0), inner_bar.sum(axis=1)
    mixed = cross_bar.T @ X  # (M, d)
    pulled = inner_bar @ Z
    spread = rows @ (X * X) - 2.0 * (mixed * Z).sum(axis=0) + columns @ (Z * Z)
    spread += 2.0 * (sums @ (Z * Z) - (pulled * Z).sum(axis=0))
    Z_bar = (mixed - columns[:, None] * Z + 2.0 * (pulled - sums[:, None] * Z)) / lengthscale**2
    return spread / lengthscale**3, Z_bar
