"""The likelihood as a product of exact conditionals of blocks, each given a near block alone (Vecchia 1988, by blocks).

Every factor ``p(y_block | y_given)`` is the full Gaussian process's own, so the gradient of the sum is zero in
expectation at the true hyperparameters whatever blocks take part: a few of them, at the density of all rows, do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import lower_times, safe_cholesky, solve_lower, solve_upper


@final
@dataclass(frozen=True, slots=True)
class Block:
    """Rows X (n, d), y (n, q); the first ``given`` of them are what the others are conditioned on."""

    X: Array
    y: Array
    given: int


def conditional_evidence(kernel: CompiledKernel, noise_variance: float, blocks: Sequence[Block]) -> tuple[float, Array]:
    """Sum of ``log p(y_block | y_given)`` over blocks and outputs, at the cost of one factorisation a block.

    Returns
    -------
    value : float
    gradient : (p + 1,)
        With respect to the kernel's theta and to the logarithm of the noise variance.

    Raises
    ------
    NotPositiveDefiniteError
        If a block's covariance is not positive definite even with jitter.
    """
    value, noise_slope = 0.0, 0.0
    gradient = np.zeros(len(kernel.theta))
    for block in blocks:
        X, m = block.X, block.given
        (n, q) = block.y.shape
        K, pull = kernel.node.vjp(X, X)
        C = K.copy()
        white = kernel.nugget(X)
        np.einsum("ii->i", C)[:] += noise_variance + white
        L = safe_cholesky(C.T).L
        z = solve_lower(L, block.y)
        value -= 0.5 * float(np.sum(z[m:] ** 2)) + q * float(np.sum(np.log(np.diagonal(L)[m:])))
        value -= 0.5 * q * (n - m) * np.log(2.0 * np.pi)
        # the last rows of L^-1: what the block's own inverse adds to that of the given rows
        R = last_rows_of_inverse(L, m)
        own = R.T @ z[m:]
        W = np.asarray(R.T @ R)
        W *= -0.5 * q
        W += (solve_upper(L, z) - 0.5 * own) @ own.T
        diagonal = np.diagonal(W)
        noise_slope += float(np.sum(diagonal))
        gradient += pull(W)
        if kernel.white:
            gradient += kernel.diag_gradient_dot(X, diagonal) - kernel.diag_gradient_dot(X, diagonal, nugget=False)
    return value, np.append(gradient, noise_variance * noise_slope)


def last_rows_of_inverse(L: Array, m: int) -> Array:
    """Rows from m on of ``L^-1`` (n - m, n), L lower triangular (n, n)."""
    n = len(L)
    R = np.empty((n - m, n))
    corner = np.asfortranarray(L[m:, m:])
    R[:, m:] = solve_lower(corner, np.eye(n - m))
    if m > 0:
        across = solve_upper(np.asfortranarray(L[:m, :m]), L[m:, :m].T).T  # L_rp L_pp^-1
        R[:, :m] = -lower_times(np.asfortranarray(R[:, m:]), across)
    return R
