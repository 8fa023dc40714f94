"""Gaussian messages on one clique of a junction tree, in forms that never invert the clique's own kernel matrix.

A clique holds the values ``a = (a_s, a_r)`` of the function at its inducing inputs: the separator ``s`` that it
shares with a neighbour, then the residual ``r``. Its prior is ``N(0, K)``; what has been seen arrives as
information
``(Lambda, eta)``: the likelihood ``exp(eta' a - a' Lambda a / 2)``. With ``e = a_r - F a_s``, ``F = K_rs
K_ss^-1`` and
``Q = K_rr - F K_sr`` (Prop. 4 of Schürch et al., Correlated Product of Experts), ``e`` is independent of ``a_s`` a
priori, so a message is a bounded function of Q and the information on e. A belief is kept as ``A = K^-1 - K^-1
Sigma
K^-1 = (K + Lambda^-1)^-1`` and ``alpha = K^-1 mu`` (mu, Sigma: the clique's posterior), which is all that
prediction
(Prop. 9) and gradients (D.3) need: ``mean = k alpha``, ``variance = k** - k A k'``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.beliefs import Belief
from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import Factor, lower_times, safe_cholesky, solve_lower, solve_upper, upper_times

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Info:
    """Information on a clique's values: ``rr`` (l, l) or one number times I; ``rs`` and ``ss`` None where zero.

    ``eta_r`` is (l, q) and ``eta_s`` (s, q) or None, q = number of outputs.
    """

    rr: Array | float
    eta_r: Array
    rs: Array | None = None
    ss: Array | None = None
    eta_s: Array | None = None

    def dense(self, n_s: int) -> tuple[Array, Array]:
        """The same as one (n, n) matrix and one (n, q) vector."""
        width, q = self.eta_r.shape
        Lam, eta = np.zeros((n_s + width, n_s + width)), np.zeros((n_s + width, q))
        Lam[n_s:, n_s:] = self.rr * np.eye(width) if isinstance(self.rr, float) else self.rr
        eta[n_s:] = self.eta_r
        if self.ss is not None:
            Lam[:n_s, :n_s] = self.ss
        if self.rs is not None:
            Lam[n_s:, :n_s] = self.rs
            Lam[:n_s, n_s:] = self.rs.T
        if self.eta_s is not None:
            eta[:n_s] = self.eta_s
        return Lam, eta

    def plus(self, Lam: Array, eta: Array, *, at: Positions, n_s: int) -> Info:
        """With a further message ``(Lam, eta)`` on the clique's positions ``at`` (separator first)."""
        width = len(self.eta_r)
        inside = at[at >= n_s] - n_s
        if len(inside) == len(at):
            rr = float(self.rr) * np.eye(width) if isinstance(self.rr, float) else self.rr.copy()
            eta_r = self.eta_r.copy()
            if len(at) == width and np.array_equal(inside, np.arange(width)):
                rr += Lam
                eta_r += eta
            else:
                rr[np.ix_(inside, inside)] += Lam
                eta_r[inside] += eta
            return replace(self, rr=rr, eta_r=eta_r)
        full, vector = self.dense(n_s)
        full[np.ix_(at, at)] += Lam
        vector[at] += eta
        return split(full, vector, n_s)


def split(Lam: Array, eta: Array, n_s: int) -> Info:
    """A dense (n, n), (n, q) pair as an :class:`Info` whose separator is the first ``n_s`` values."""
    rs = Lam[n_s:, :n_s]
    return Info(Lam[n_s:, n_s:], eta[n_s:], rs if rs.any() else None, Lam[:n_s, :n_s], eta[:n_s])


def pack(M: Array) -> Array:
    """The lower triangle of a symmetric matrix as one vector: half the memory."""
    packed, _ = lapack.dtrttp(M.T if M.flags.c_contiguous else M, uplo="L")
    return np.asarray(packed)


def unpack(message: Array) -> Array:
    """The symmetric matrix again; one that was not packed as it is."""
    if message.ndim == 2:
        return message
    n = int((np.sqrt(8 * len(message) + 1) - 1) / 2)
    if n == 0:
        return np.zeros((0, 0))
    lower, _ = lapack.dtpttr(n, message, uplo="L")  # zero above the diagonal
    whole = lower + lower.T
    np.einsum("ii->i", whole)[:] *= 0.5
    return np.asarray(whole)


@dataclass(frozen=True, slots=True)
class Elimination:
    """A clique with its residual integrated out.

    ``M``, ``eta`` is the message to the separator; ``log_z`` the logarithm of what integration left, summed over
    outputs.
    """

    K_ss: Factor  # of the separator's prior covariance
    F: Array  # (l, s)
    M: Array  # (s, s)
    eta: Array  # (s, q)
    log_z: float
    seen: Seen
    half: Array  # (l, s)

    def back(self) -> Array:
        """(l, s) ``Q^-1 d E[e | a_s] / d(-a_s)``: what a change of belief on the separator needs on its way into
        the clique."""
        return self.seen.out(self.half)


def psd_root(A: Array) -> tuple[Array, bool]:
    """U with ``U U' = A`` for a positive semidefinite A: Cholesky (True), or eigenvectors where A is singular."""
    try:
        return safe_cholesky(A.T, ladder=(0.0,)).L, True
    except NotPositiveDefiniteError:
        values, vectors = np.linalg.eigh(_finite(A))
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))), False


def _pseudo_targets(U: Array, triangular: bool, eta: Array) -> Array:
    """zeta with ``U zeta = eta``."""
    if triangular:
        return solve_lower(U, eta)
    squares = np.sum(U * U, axis=0)  # columns of an eigenvector root are orthogonal
    kept = squares > 1e-14 * max(float(squares.max(initial=0.0)), 1e-300)
    return (U.T @ eta) * np.where(kept, 1.0 / np.where(kept, squares, 1.0), 0.0)[:, None]


@dataclass(frozen=True, slots=True)
class Seen:
    """Information E, eta on values of prior covariance Q, as ``(Q + E^-1)^-1 = Y' Y`` with ``Y = S^-1 U'``,
    ``E = U U'``."""

    root: Array | float  # U, or the root of one number
    triangular: bool
    S: Array  # lower factor of I + U' Q U
    zeta: Array  # U^-1 eta
    half: Array  # S^-1 zeta
    log_z: float

    def across(self, F: Array, plus: Array | None = None) -> Array:
        """``S^-1 (U' F + plus)``, that is ``Y F`` without a plus."""
        G = self.root * F if isinstance(self.root, float) else upper_times(self.root, F) if self.triangular else None
        if G is None:
            G = np.asarray(self.root).T @ F
        return solve_lower(self.S, G if plus is None else G + plus)

    def out(self, G: Array) -> Array:
        """``Y' G = U S^-T G``."""
        half = solve_upper(self.S, G)
        if isinstance(self.root, float):
            return self.root * half
        return lower_times(self.root, half) if self.triangular else self.root @ half

    def belief(self) -> Belief:
        """Of the values themselves."""
        Y = self.across(np.eye(len(self.S)))
        return Belief(Y, self.out(self.half), "root")


def _see(Q: Array, E: Array | float, eta: Array) -> Seen:
    """By the factor of ``I + U' Q U``, U U' = E: nothing is inverted that may be singular.

    Q is a Schur complement: rounding may leave it negative where nothing is uncertain, by more than the information
    on it forgives. Then its positive part stands for it, which is what it would be with more digits.
    """
    width, q = eta.shape
    root: Array | float
    root, triangular = (float(np.sqrt(E)), True) if isinstance(E, float) else psd_root(E)
    zeta = eta / root if isinstance(root, float) else _pseudo_targets(root, triangular, eta)
    try:
        factor = safe_cholesky(_plus_one(Q, root, triangular), ladder=(0.0,))
    except NotPositiveDefiniteError:
        values, vectors = np.linalg.eigh(_finite(Q))
        positive = vectors * np.sqrt(np.maximum(values, 0.0))
        half_root = positive.T * root if isinstance(root, float) else positive.T @ root
        factor = safe_cholesky(half_root.T @ half_root + np.eye(width))
    half = solve_lower(factor.L, zeta)
    log_z = 0.5 * (float(np.sum(zeta * zeta)) - float(np.sum(half * half)) - q * factor.log_det())
    return Seen(root, triangular, factor.L, zeta, half, log_z)


def _plus_one(Q: Array, root: Array | float, triangular: bool) -> Array:
    """``I + U' Q U``, in the order that a factorisation need not copy."""
    if isinstance(root, float):
        G = np.asarray((Q * root**2).T)
    elif triangular:
        G = upper_times(root, upper_times(root, Q.T).T)
    else:
        G = root.T @ (Q @ root)
    np.einsum("ii->i", G)[:] += 1.0
    return G


def _finite(A: Array) -> Array:
    if not np.isfinite(A).all():
        raise NotPositiveDefiniteError("the matrix holds a NaN or an infinity")
    return A


def eliminate(K: Array, info: Info, n_s: int) -> Elimination:
    """Integrate the residual of a clique out (one step towards the separator's other side).

    Parameters
    ----------
    K : (n, n)
        Prior covariance of the clique's values, separator first; K_ss gets the jitter that it needs.
    info
        Everything seen on this side of the separator.
    n_s
        Size of the separator; 0 at a root.
    """
    return eliminate_blocks(K[:n_s, :n_s], K[:n_s, n_s:], K[n_s:, n_s:], info)


def eliminate_blocks(K_ss: Array, K_sr: Array, K_rr: Array, info: Info) -> Elimination:
    """:func:`eliminate` for a clique whose prior covariance comes in blocks."""
    n_s, q = len(K_ss), info.eta_r.shape[1]
    if n_s == 0:
        seen = _see(K_rr, info.rr, info.eta_r)
        nothing = np.zeros((0, 0))
        F = np.zeros((len(K_rr), 0))
        return Elimination(Factor(nothing, 0.0), F, nothing, np.zeros((0, q)), seen.log_z, seen, F)
    factor = safe_cholesky(K_ss.T)
    half = solve_lower(factor.L, K_sr)
    F, Q = solve_upper(factor.L, half).T, K_rr - half.T @ half
    seen = _see(Q, info.rr, info.eta_r)
    M = np.zeros((n_s, n_s))
    eta = np.zeros((n_s, q))
    T = None
    if info.rs is not None and not isinstance(seen.root, float):
        # with Lambda_rr = U U': the part of Lambda_ss that e does not explain, then B' S^-1 B with
        # B = U^-1 Lambda_rs + U' F and S = I + U' Q U, so that M is a sum and not a difference of large terms
        T = _pseudo_targets(seen.root, seen.triangular, info.rs)
        M -= T.T @ T
        eta -= T.T @ seen.zeta
    across = seen.across(F, T)
    M += across.T @ across
    eta += across.T @ seen.half
    if info.ss is not None:
        M += info.ss
    if info.eta_s is not None:
        eta += info.eta_s
    return Elimination(factor, F, 0.5 * (M + M.T), eta, seen.log_z, seen, across)


def log_integral(K: Array, Lam: Array, eta: Array) -> float:
    """``log E exp(eta' a - a' Lambda a / 2)`` under the prior N(0, K), summed over outputs."""
    return _see(K, Lam, eta).log_z


#: where information is this much weaker than the prior, its inverse is not formed
_WEAK = 1e3


def settle(K: Array, info: Info, n_s: int) -> Belief:
    """The belief of a clique on which everything has been told: ``A = (K + Lambda^-1)^-1``.

    Information of full rank is inverted, block by block, into a noise covariance; weaker information goes through
    its root. Both are as stable as the factorisation of a Gaussian process with that noise.
    """
    noise = _noise_form(info, n_s, limit=_WEAK * float(np.max(np.diagonal(K))))
    if noise is None:
        Lam, eta = info.dense(n_s)
        return _see(K, Lam, eta).belief()
    N, z = noise
    if isinstance(N, tuple):
        B = np.array(K)
        B[:n_s, :n_s] += N[0]
        if isinstance(N[1], float):
            B.flat[n_s * (len(K) + 1) :: len(K) + 1] += N[1]
        else:
            B[n_s:, n_s:] += N[1]
    else:
        B = K + N
    factor = safe_cholesky(B.T)
    return Belief(factor.L, factor.solve(z), "factor")


def _noise_form(info: Info, n_s: int, *, limit: float) -> tuple[Array | tuple[Array, Array | float], Array] | None:
    """``Lambda^-1`` (whole, or as its separator and residual blocks) and ``Lambda^-1 eta``; None if it is too
    weak."""
    try:
        if info.rs is not None or (n_s > 0 and (info.ss is None or info.eta_s is None)):
            Lam, eta = info.dense(n_s)
            factor = safe_cholesky(Lam.T, ladder=(0.0,))
            N = factor.inverse()
            return (N, factor.solve(eta)) if np.max(np.diagonal(N)) <= limit else None
        N_s, z_s = np.zeros((0, 0)), np.zeros((0, info.eta_r.shape[1]))
        if n_s > 0 and info.ss is not None and info.eta_s is not None:
            factor = safe_cholesky(info.ss.T, ladder=(0.0,))
            N_s, z_s = factor.inverse(), factor.solve(info.eta_s)
        N_r: Array | float
        if isinstance(info.rr, float):
            N_r, z_r = 1.0 / info.rr, info.eta_r / info.rr
            weakest = N_r
        else:
            factor = safe_cholesky(info.rr.T, ladder=(0.0,))
            N_r, z_r = factor.inverse(), factor.solve(info.eta_r)
            weakest = float(np.max(np.diagonal(N_r)))
        if max(weakest, float(np.max(np.diagonal(N_s), initial=0.0))) > limit:
            return None
        return (N_s, N_r), np.concatenate([z_s, z_r])
    except NotPositiveDefiniteError:
        return None


def absorb(K: Array, belief: Belief, U: Array, z: Array) -> tuple[Belief, float]:
    """Condition on pseudo-observations ``z = U' a + N(0, I)``; also the log density of z, summed over outputs.

    Parameters
    ----------
    U : (n, k)
    z : (k, q)
    """
    KU = K @ U
    W = U - belief.full() @ KU
    S = U.T @ KU - KU.T @ (belief.full() @ KU)
    S.flat[:: len(S) + 1] += 1.0
    factor = safe_cholesky(0.5 * (S + S.T))
    r = solve_lower(factor.L, z - KU.T @ belief.alpha)
    Y = solve_lower(factor.L, W.T)
    k, q = z.shape
    log_density = -0.5 * (float(np.sum(r * r)) + q * factor.log_det() + q * k * np.log(2 * np.pi))
    return Belief(belief.full() + Y.T @ Y, belief.alpha + Y.T @ r), log_density
