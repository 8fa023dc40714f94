"""The one caller of a Cholesky factorisation, and the triangular solves that go with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.gaussian import Array

# Relative to the mean diagonal: the plain matrix first, then these.
JITTER_LADDER = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)


@dataclass(frozen=True, slots=True)
class Factor:
    """Lower Cholesky factor ``L`` of ``A + jitter * I``; ``jitter`` (absolute) is what had to be added."""

    L: Array
    jitter: float

    def solve(self, b: Array) -> Array:
        """``(A + jitter I)^-1 b`` for b of shape (n,) or (n, k)."""
        return solve_upper(self.L, solve_lower(self.L, b))

    def inverse_root(self) -> Array:
        """``L^-1``, whose square ``L^-T L^-1`` is the inverse."""
        root, _ = lapack.dtrtri(self.L, lower=1)
        return np.asarray(root)

    def inverse(self) -> Array:
        """``(A + jitter I)^-1``, exactly symmetric."""
        half, _ = lapack.dpotri(self.L, lower=1)
        return np.asarray(np.tril(half) + np.tril(half, -1).T)

    def log_det(self) -> float:
        """Log determinant of the factored matrix."""
        return 2.0 * float(np.sum(np.log(np.diagonal(self.L))))


def safe_cholesky(A: Array, *, ladder: tuple[float, ...] = JITTER_LADDER) -> Factor:
    """Factor a symmetric matrix, plain first and then with the least jitter of the ladder that suffices.

    Parameters
    ----------
    A : (n, n)
        Symmetric; only the lower triangle is read, and it is not changed.
    ladder
        Jitters to try in turn, relative to the mean of the diagonal.

    Raises
    ------
    NotPositiveDefiniteError
        If the matrix holds a NaN or an infinity, or no jitter of the ladder makes it positive definite.
    """
    n = A.shape[0]
    if n == 0:
        return Factor(np.zeros((0, 0)), 0.0)
    diagonal = np.diagonal(A)
    scale = float(np.mean(diagonal))
    if not np.isfinite(scale):
        raise NotPositiveDefiniteError("the matrix holds a NaN or an infinity")
    for relative in ladder:
        jitter = relative * (scale if scale > 0 else 1.0)
        B = A if jitter == 0.0 else A + jitter * np.eye(n)
        L, info = lapack.dpotrf(B, lower=1, clean=1, overwrite_a=0)
        if info == 0 and np.isfinite(L[-1, -1]):
            return Factor(L, jitter)
    if not np.isfinite(A).all():
        raise NotPositiveDefiniteError("the matrix holds a NaN or an infinity")
    raise NotPositiveDefiniteError(
        f"a {n} x {n} matrix is not positive definite, even with {ladder[-1]:g} of its mean diagonal added"
    )


def solve_lower(L: Array, b: Array) -> Array:
    """``L^-1 b`` for a lower triangular L (n, n) and b of shape (n,) or (n, k)."""
    return np.asarray(solve_triangular(L, b, lower=True, check_finite=False))


def solve_upper(L: Array, b: Array) -> Array:
    """``L^-T b`` for a lower triangular L (n, n) and b of shape (n,) or (n, k)."""
    return np.asarray(solve_triangular(L, b, lower=True, trans="T", check_finite=False))
