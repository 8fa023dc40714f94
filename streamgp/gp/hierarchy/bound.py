"""The bound of Theorem 1 with its optimal factors in closed form, for one client and for all of them.

In whitened coordinates the posterior precision is I + Phi^T Phi / sigma^2. Keeping blocks of it apart in q leaves
the optimal means where they are, makes each block's covariance the inverse of its own diagonal block, and only
replaces log|precision| in the collapsed bound by the sum over those blocks. So the three families of ``Factors``
share one code, and derivatives at the optimum follow from F, c alone (envelope theorem).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, Layout
from streamgp.gp.hierarchy.factors import FACTORS as FACTORS
from streamgp.gp.hierarchy.factors import Factors as Factors
from streamgp.gp.hierarchy.layers import Design, design_backward
from streamgp.gp.linalg import safe_cholesky


@dataclass(frozen=True, slots=True)
class Local:
    """A client's own factors, solved: the part of them that does not depend on q of the global block."""

    cov: Array  # (D_L, D_L) optimal covariance, given the global block where structured
    solve_c: Array  # (D_L,) (I + F_LL / s2)^-1 c_L / s2
    gain: Array  # (D_L, D_g) (I + F_LL / s2)^-1 F_Lg / s2
    log_det: float  # of the precision, by the blocks that q keeps
    schur: Array  # (D_g, D_g) Phi_g^T C^-1 Phi_g with C = s2 I + Phi_L Phi_L^T
    pull: Array  # (D_g,) Phi_g^T C^-1 y
    precision: Array  # (D_g, D_g) what the client adds to the precision of q(u_g): minus twice the S_g derivative


def solve_local(d: Design, factors: Factors) -> Local:
    """Optimal factors of a client, as functions of the global block."""
    g, s2 = d.columns.n_global, d.scales.noise
    F_gg, F_Lg, F_LL = d.F[:g, :g] / s2, d.F[g:, :g] / s2, d.F[g:, g:] / s2
    c = d.c / s2
    factor = safe_cholesky(F_LL + np.eye(len(F_LL)))
    together = factor.inverse()  # its condition number is at most 1 + |F_LL|, so products with it are safe
    solve_c, gain = together @ c[g:], together @ F_Lg
    schur = F_gg - F_Lg.T @ gain
    schur = 0.5 * (schur + schur.T)
    cov, log_det = together, factor.log_det()
    if factors == "mean_field":
        cov, log_det = _kept_apart(F_LL, d.columns.n_deviation)
    precision = schur if factors == "structured" else F_gg
    return Local(cov, solve_c, gain, log_det, schur, c[:g] - F_Lg.T @ solve_c, precision)


def _kept_apart(F_LL: Array, n_deviation: int) -> tuple[Array, float]:
    """Covariance of (deviation, residual) and the log determinant of its inverse, the two kept apart in q."""
    cov, log_det = np.zeros_like(F_LL), 0.0
    for part in (slice(0, n_deviation), slice(n_deviation, len(F_LL))):
        block = safe_cholesky(F_LL[part, part] + np.eye(len(F_LL[part])))
        cov[part, part] = block.inverse()
        log_det += block.log_det()
    return cov, log_det


@dataclass(frozen=True, slots=True)
class Shared:
    """q(v_g) = N(mean, cov), whitened: (D_g,) and (D_g, D_g), with the log determinant of its precision."""

    mean: Array
    cov: Array
    log_det: float

    def divergence(self) -> float:
        """KL to the prior N(0, I)."""
        return 0.5 * (float(np.trace(self.cov)) + float(self.mean @ self.mean) - len(self.mean) + self.log_det)


def shared_from_precision(precision: Array, pull: Array) -> Shared:
    """The Gaussian with natural parameters ``pull`` (D_g,) and ``precision`` (D_g, D_g)."""
    factor = safe_cholesky(precision)
    return Shared(factor.solve(pull), factor.inverse(), factor.log_det())


def solve_shared(locals_: list[Local], n_global: int) -> Shared:
    """Optimal q(v_g) given every client's factors."""
    schur, precision, pull = np.eye(n_global), np.eye(n_global), np.zeros(n_global)
    for local in locals_:
        schur += local.schur
        precision += local.precision
        pull += local.pull
    best = shared_from_precision(precision, pull)
    return Shared(safe_cholesky(schur).solve(pull), best.cov, best.log_det)


def client_value(d: Design, local: Local, q: Shared) -> float:
    """The client's terms of the bound (19), its own divergences included, at its optimal factors given q(v_g)."""
    g, s2 = d.columns.n_global, d.scales.noise
    value = -0.5 * d.data.count * np.log(2.0 * np.pi * s2) - 0.5 * (d.data.squares + d.residual) / s2
    value += 0.5 * float(d.c[g:] @ local.solve_c) / s2 - 0.5 * local.log_det
    value += float(local.pull @ q.mean) - 0.5 * float(q.mean @ local.schur @ q.mean)
    return float(value - 0.5 * np.sum(local.precision * q.cov))


def client_moments(d: Design, local: Local, q: Shared, factors: Factors) -> tuple[Array, Array]:
    """Mean (D,) and covariance (D, D) of (global, deviation, residual) under q, whitened."""
    g = d.columns.n_global
    mean = np.concatenate([q.mean, local.solve_c - local.gain @ q.mean])
    cov = np.zeros((len(mean), len(mean)))
    cov[:g, :g] = q.cov
    cov[g:, g:] = local.cov
    if factors == "structured" and g:
        lead = local.gain @ q.cov
        cov[g:, :g] = -lead
        cov[:g, g:] = -lead.T
        cov[g:, g:] += lead @ local.gain.T
    return mean, cov


def client_gradient(
    d: Design, local: Local, q: Shared, factors: Factors, *, shared: Block, own: Block, layout: Layout
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Derivatives of :func:`client_value` by the arrays of the shared and the own block, q(v_g) held."""
    s2 = d.scales.noise
    mean, cov = client_moments(d, local, q, factors)
    second = cov + np.outer(mean, mean)
    misfit = d.data.squares - 2.0 * float(mean @ d.c) + float(np.sum(d.F * second)) + d.residual
    return design_backward(
        d,
        shared,
        own,
        layout,
        F_bar=second * (-0.5 / s2),
        c_bar=mean / s2,
        residual_bar=-0.5 / s2,
        noise_bar=(-0.5 * d.data.count + 0.5 * misfit / s2) / s2,
    )
