"""The one caller of a Cholesky factorisation, and the triangular solves that go with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

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

    def solve_vector(self, b: Array) -> Array:
        """:meth:`solve` for one vector (n,), without the overhead that is felt row by row."""
        x, _ = lapack.dpotrs(self.L, b, lower=1)
        return np.asarray(x)

    def inverse_root(self) -> Array:
        """``L^-1``, whose square ``L^-T L^-1`` is the inverse."""
        root, _ = lapack.dtrtri(self.L, lower=1)
        return np.asarray(root)

    def inverse(self) -> Array:
        """``(A + jitter I)^-1``, symmetric, at a third of the cost of solving for the identity."""
        lower = self._lower_inverse()
        whole = lower + lower.T
        np.einsum("ii->i", whole)[:] *= 0.5
        return np.asarray(whole)

    def folded_inverse(self) -> Array:
        """An upper triangle with twice the entries of the inverse, its diagonal once.

        Its product sum with any symmetric matrix is that of the inverse, at less cost.
        """
        folded = self._lower_inverse().T
        diagonal = np.diagonal(folded).copy()
        folded *= 2.0
        np.einsum("ii->i", folded)[:] = diagonal
        return folded

    def _lower_inverse(self) -> Array:
        if self.L.shape[0] == 0:
            return np.zeros((0, 0))
        lower, info = lapack.dpotri(self.L, lower=1)  # what is above the diagonal stays as it is in L: zero
        if info != 0:
            raise NotPositiveDefiniteError("the factor has a zero on its diagonal")
        return np.asarray(lower)

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


def steady_cholesky(A: Array) -> Factor:
    """:func:`safe_cholesky`, but also with jitter (1e-8) where the factor exists and its inverse means nothing."""
    factor = safe_cholesky(A)
    scale = float(np.mean(np.diagonal(A))) if len(A) else 1.0
    if len(A) and float(np.min(np.diagonal(factor.L))) ** 2 < 1e-10 * scale:
        return safe_cholesky(A, ladder=(1e-8, 1e-6, 1e-4))
    return factor


def add_outer(A: Array, W: Array, d: Array) -> None:
    """``A += W diag(1 / d) W'`` in place; A (n, n) symmetric and C-contiguous, W (n, k)."""
    if W.shape[1] == 1:
        w = W[:, 0]
        blas.dger(1.0 / float(d[0]), w, w, a=A.T, overwrite_a=1)
    elif W.shape[1] > 1:
        blas.dgemm(1.0, W / d, W, trans_b=1, beta=1.0, c=A.T, overwrite_c=1)


def solve_lower(L: Array, b: Array) -> Array:
    """``L^-1 b`` for a lower triangular L (n, n) without a zero on its diagonal and b of shape (n,) or (n, k)."""
    return _triangular(blas.dtrsm, L, b, transposed=False)


def solve_upper(L: Array, b: Array) -> Array:
    """``L^-T b`` for a lower triangular L (n, n) without a zero on its diagonal and b of shape (n,) or (n, k)."""
    return _triangular(blas.dtrsm, L, b, transposed=True)


def lower_times(L: Array, b: Array) -> Array:
    """``L b`` for a lower triangular L (n, n) and b of shape (n,) or (n, k), at half the cost of a full product."""
    return _triangular(blas.dtrmm, L, b, transposed=False)


def upper_times(L: Array, b: Array) -> Array:
    """``L' b`` for a lower triangular L (n, n) and b of shape (n,) or (n, k)."""
    return _triangular(blas.dtrmm, L, b, transposed=True)


def _triangular(routine: Any, L: Array, b: Array, *, transposed: bool) -> Array:
    """One of BLAS's triangular routines, from the side on which b need not be copied into another order.

    scipy's own ``solve_triangular`` costs as much again for blocks of a hundred rows.
    """
    if b.size == 0:
        return np.zeros(b.shape)
    if b.ndim == 1:
        return _triangular(routine, L, b[:, None], transposed=transposed)[:, 0]
    trans, lower = int(transposed), 1
    if not L.flags.f_contiguous:
        L, trans, lower = L.T, 1 - trans, 0
    if b.flags.f_contiguous:
        return np.asarray(routine(1.0, L, b, lower=lower, trans_a=trans))
    return np.asarray(routine(1.0, L, b.T, side=1, lower=lower, trans_a=1 - trans).T)


# Far above any sum of squares that a border's pivot loses, far below overflow when squared under a root.
_BORDER = 1e300


def forward_stack(A: Array, B: Array) -> tuple[Array, Array]:
    """``L^-1 B`` for a stack of symmetric matrices ``A + jitter I = L L^T``, by one batched factorisation.

    The right sides are factored along as a border of A, so no triangular solve of its own is needed.

    Parameters
    ----------
    A : (m, n, n)
        Only the lower triangles are read.
    B : (m, n, r)

    Returns
    -------
    V : (m, n, r)
    jitter : (m,)
        What had to be added to each diagonal (:func:`safe_cholesky`'s ladder).

    Raises
    ------
    NotPositiveDefiniteError
        If no jitter of the ladder makes one of them positive definite.
    """
    m, n, r = B.shape
    bordered = np.zeros((m, n + r, n + r))
    bordered[:, :n, :n] = A
    bordered[:, n:, :n] = np.swapaxes(B, 1, 2)
    i = np.arange(n, n + r)
    bordered[:, i, i] = _BORDER
    try:
        L = np.linalg.cholesky(bordered)
    except np.linalg.LinAlgError:
        factors = [safe_cholesky(a) for a in A]
        V = np.stack([solve_lower(f.L, b) for f, b in zip(factors, B, strict=True)])
        return V, np.array([f.jitter for f in factors])
    return np.swapaxes(L[:, n:, :n], 1, 2), np.zeros(m)
