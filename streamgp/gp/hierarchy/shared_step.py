"""One ascent of the shared block along a summed derivative (pFedHGP 23-29): a server's, or a fit's in rounds.

q(v_g) moves by a natural-gradient step, which for a Gaussian likelihood is a weighted mean of natural parameters
and needs no more than the derivatives by m_g and S_g that (23) sends. Everything else moves by Adam.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, Layout
from streamgp.gp.hierarchy.bound import Local, Shared, shared_from_precision
from streamgp.gp.hierarchy.total import add_log_prior

#: what stands for q(v_g) among the arrays of a shared state, and of an update
MEAN, PRECISION, COVARIANCE = "mean", "precision", "covariance"
Q_NAMES = (MEAN, PRECISION, COVARIANCE)


@dataclass(frozen=True, slots=True)
class Ascent:
    """How the shared block moves in a round.

    ``rate`` is the step of Adam (eta_global of (25)), ``q_rate`` in (0, 1] that of the natural gradient;
    ``hold`` names arrays that stay as they are.
    """

    rate: float = 0.1
    q_rate: float = 1.0
    decay: tuple[float, float] = (0.9, 0.99)
    hold: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedState:
    """The shared block, the natural parameters of q(v_g), and Adam's two moments; ``steps`` counts ascents."""

    block: dict[str, Array]
    mean: Array  # (D_g,) whitened
    precision: Array  # (D_g, D_g)
    first: dict[str, Array]
    second: dict[str, Array]
    steps: int = 0

    @property
    def q(self) -> Shared:
        """q(v_g) as mean and covariance."""
        return shared_from_precision(self.precision, self.precision @ self.mean)


def first_state(block: Block, layout: Layout) -> SharedState:
    """The state before any round: q(v_g) is the prior."""
    size = layout.rank_global * len(block["inducing"])
    zeros = {name: np.zeros_like(a) for name, a in block.items()}
    return SharedState(dict(block), np.zeros(size), np.eye(size), zeros, dict(zeros))


def q_derivative(local: Local, q: Shared) -> dict[str, Array]:
    """The client's part of (23) by m_g (D_g,) and S_g (D_g, D_g), whitened."""
    return {MEAN: local.pull - local.schur @ q.mean, COVARIANCE: -0.5 * local.precision}


def ascend(state: SharedState, total: Mapping[str, Array], layout: Layout, ascent: Ascent) -> SharedState:
    """The state after one step along ``total``, the sum of the clients' summaries (24).

    The divergence of q(v_g) and the prior of the shared loadings, which the server alone can evaluate, are added
    here. ``total`` may lack positive definiteness (after a robust aggregation, or noise): the covariance part is
    projected on the negative semidefinite matrices, where every honest client's lies.
    """
    rho = ascent.q_rate
    added = -2.0 * negative_part(total[COVARIANCE])
    precision = (1.0 - rho) * state.precision + rho * (np.eye(len(state.mean)) + added)
    natural = (1.0 - rho) * (state.precision @ state.mean) + rho * (total[MEAN] + added @ state.mean)
    q = shared_from_precision(precision, natural)
    gradient = {name: np.array(total[name]) for name in state.block}
    add_log_prior(gradient, state.block, layout)
    steps = state.steps + 1
    block, first, second = {}, {}, {}
    b1, b2 = ascent.decay
    for name, value in state.block.items():
        g = gradient[name]
        first[name] = b1 * state.first[name] + (1.0 - b1) * g
        second[name] = b2 * state.second[name] + (1.0 - b2) * g * g
        move = (first[name] / (1.0 - b1**steps)) / (np.sqrt(second[name] / (1.0 - b2**steps)) + 1e-8)
        block[name] = value if name in ascent.hold else value + ascent.rate * move
    return SharedState(block, q.mean, precision, first, second, steps)


def negative_part(S: Array) -> Array:
    """The nearest negative semidefinite matrix to the symmetric part of S (D, D)."""
    S = 0.5 * (S + S.T)
    values, vectors = np.linalg.eigh(S)
    if len(values) == 0 or values[-1] <= 0.0:
        return np.asarray(S)
    return np.asarray((vectors * np.minimum(values, 0.0)) @ vectors.T)
