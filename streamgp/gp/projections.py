"""What rows say about the inducing values of their clique: the projections of Table 5 and their gradients.

``f | a ~ N(H a, w D)`` with ``H = K_xa K_aa^-1`` and ``D = K_xx - H K_ax``, and a correction lambda of the
evidence
(Schürch et al., Correlated Product of Experts, A.1):

========= ============== =======================================================
name      w D            lambda
========= ============== =======================================================
dtc       0              0
fitc      diag D         0
pitc      D              0
vfe       0              tr D / (2 s)
pep       alpha diag D   (1 - alpha) / (2 alpha) sum log(1 + alpha D_ii / s)
pep_block alpha D        (1 - alpha) / (2 alpha) log |I + alpha D / s|
========= ============== =======================================================

s is the noise variance; D is block diagonal over experts. With every row an inducing point D = 0 and all agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from streamgp.errors import SettingsError
from streamgp.gp.beliefs import Belief
from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import Factor, safe_cholesky, solve_lower, solve_upper

APPROXIMATIONS = ("fitc", "vfe", "dtc", "pitc", "pep", "pep_block")


@dataclass(frozen=True, slots=True)
class Approximation:
    """One line of Table 5; ``alpha`` in (0, 1] counts for the two PEP lines only."""

    name: str
    alpha: float = 0.5

    def __post_init__(self) -> None:
        if self.name not in APPROXIMATIONS:
            raise SettingsError(f"approximation must be one of {', '.join(APPROXIMATIONS)}, got {self.name!r}")
        if not 0.0 < self.alpha <= 1.0:
            raise SettingsError(f"alpha must lie in (0, 1], got {self.alpha}")

    @property
    def block(self) -> bool:
        """Whether D keeps its off-diagonal entries."""
        return self.name in ("pitc", "pep_block")

    @property
    def share(self) -> float:
        """w, the share of D that counts as noise."""
        fixed: dict[str, float] = {"dtc": 0.0, "vfe": 0.0, "fitc": 1.0, "pitc": 1.0}
        return fixed.get(self.name, self.alpha)


@dataclass(frozen=True, slots=True)
class Noise:
    """V = w D + s I: its diagonal ``v`` (b,), or one Cholesky factor a group of rows."""

    v: Array
    factors: tuple[Factor, ...]
    groups: tuple[slice, ...]

    def solve(self, B: Array) -> Array:
        """``V^-1 B`` for B (b, k)."""
        if not self.factors:
            return B / self.v[:, None]
        return np.concatenate([f.solve(B[g]) for f, g in zip(self.factors, self.groups, strict=True)])

    def half_solve(self, B: Array) -> Array:
        """``V^-1/2 B`` (some root of V) for B (b, k)."""
        if not self.factors:
            return B / np.sqrt(self.v)[:, None]
        return np.concatenate([solve_lower(f.L, B[g]) for f, g in zip(self.factors, self.groups, strict=True)])

    def log_det(self) -> float:
        """``log |V|``."""
        if self.factors:
            return float(sum(f.log_det() for f in self.factors))
        return float(np.sum(np.log(self.v)))


@dataclass(frozen=True, slots=True)
class Projection:
    """Rows of one clique seen through its inducing values; made by :func:`project`."""

    H: Array  # (b, n)
    Y: Array  # (n, b): H K H' = Y' Y
    D: Array  # (b,) diagonal
    noise: Noise
    s: float
    approximation: Approximation
    correction: float  # lambda

    def log_density_at_zero(self, y: Array) -> float:
        """log N(y; H a, V) at a = 0, less lambda, summed over the columns of y (b, q)."""
        b, q = y.shape
        half = self.noise.half_solve(y)
        constant = b * np.log(2 * np.pi) + self.noise.log_det()
        return float(-0.5 * (q * constant + np.sum(half * half)) - q * self.correction)


def project(
    K: Array,
    K_xa: Array,
    K_xx: Callable[[slice], Array],
    *,
    variance: Array,
    noise: float,
    groups: Sequence[slice],
    approximation: Approximation,
) -> Projection:
    """Make the projection of b rows on the n inducing values of their clique.

    Parameters
    ----------
    K, K_xa : (n, n), (b, n)
    K_xx
        Gives the (g, g) prior covariance of a group of rows; called for the block forms only.
    variance : (b,)
        Prior variance of the latent function at the rows.
    noise
        Variance s of an observation about it.
    groups
        The rows of each expert.
    """
    L = safe_cholesky(K).L
    Y = solve_lower(L, K_xa.T)
    H = solve_upper(L, Y).T
    D = variance - np.einsum("ij,ij->j", Y, Y)
    share, alpha = approximation.share, approximation.alpha
    groups = tuple(groups)
    if approximation.block:
        factors = []
        for g in groups:
            V = share * (K_xx(g) - Y[:, g].T @ Y[:, g])
            V.flat[:: len(V) + 1] += noise
            factors.append(safe_cholesky(V))
        N = Noise(share * D + noise, tuple(factors), groups)
    else:
        N = Noise(share * np.maximum(D, -0.5 * noise) + noise, (), groups)
    correction = 0.0
    if approximation.name == "vfe":
        correction = float(np.sum(D)) / (2.0 * noise)
    elif approximation.name in ("pep", "pep_block"):
        correction = (1.0 - alpha) / (2.0 * alpha) * (N.log_det() - len(D) * np.log(noise))
    return Projection(H, Y, D, N, noise, approximation, correction)


@dataclass(frozen=True, slots=True)
class Pullback:
    """Weights on the derivatives of K_aa (n, n), K_xa (b, n), K_xx (diagonal or blocks) and s."""

    K: Array
    K_xa: Array
    K_xx: tuple[Array, ...]  # one (b,) diagonal, or a block a group
    s: float


def pull_back(p: Projection, K_xa: Array, y: Array, belief: Belief) -> Pullback:
    """Gradient of the expected log likelihood of the rows under the clique's posterior (D.3 by Fisher's identity).

    ``d log q(y) = E[d log q(y | a)]``: the derivative of (8) with the posterior held still.
    """
    q = y.shape[1]
    name, alpha, s = p.approximation.name, p.approximation.alpha, p.s
    r = y - K_xa @ belief.alpha
    KA = K_xa @ belief.full()
    G = p.noise.solve(r @ belief.alpha.T - q * (p.H - KA))
    h = np.einsum("ij,ij->j", p.Y, p.Y) - np.einsum("ij,ij->i", KA, K_xa)
    trace_inverse: float
    if p.noise.factors:
        omegas, deltas, trace_omega, trace_inverse = [], [], 0.0, 0.0
        for f, g in zip(p.noise.factors, p.noise.groups, strict=True):
            inverse = f.inverse()
            spread = r[g] @ r[g].T + q * (p.Y[:, g].T @ p.Y[:, g] - KA[g] @ K_xa[g].T)
            omega = 0.5 * (inverse @ spread @ inverse - q * inverse)
            trace_omega += float(np.trace(omega))
            trace_inverse += float(np.trace(inverse))
            delta = p.approximation.share * omega
            if name == "pep_block":
                delta -= 0.5 * q * (1.0 - alpha) * inverse
            omegas.append(omega)
            deltas.append(0.5 * (delta + delta.T))
        K_xx = tuple(deltas)
        DH = np.concatenate([d @ p.H[g] for d, g in zip(deltas, p.noise.groups, strict=True)])
    else:
        v = p.noise.v
        omega = 0.5 * ((np.sum(r * r, axis=1) + q * h) / v / v - q / v)
        trace_omega, trace_inverse = float(np.sum(omega)), float(np.sum(1.0 / v))
        delta = p.approximation.share * omega
        if name == "vfe":
            delta = delta - q / (2.0 * s)
        elif name == "pep":
            delta = delta - 0.5 * q * (1.0 - alpha) / v
        K_xx, DH = (delta,), delta[:, None] * p.H
    noise = trace_omega
    if name == "vfe":
        noise += q * float(np.sum(p.D)) / (2.0 * s) / s
    elif name in ("pep", "pep_block"):
        noise -= q * (1.0 - alpha) / (2.0 * alpha) * (trace_inverse - len(p.D) / s)
    W = p.H.T @ (DH - G)
    return Pullback(0.5 * (W + W.T), G - 2.0 * DH, K_xx, noise)
