"""Gradient of the evidence (8) by Fisher's identity: every term is local to a clique's posterior (D.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamgp.errors import SettingsError
from streamgp.gp.beliefs import Belief
from streamgp.gp.cliques import Info, settle
from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.gaussian import Array
from streamgp.gp.projections import pull_back
from streamgp.models.cpoe.conditioning import steadied
from streamgp.models.cpoe.experts_data import Experts, Model
from streamgp.models.cpoe.graph import Clique
from streamgp.models.cpoe.tree import Own, downward, separator_belief, upward


def nugget(kernel: CompiledKernel, X: Array) -> float:
    """Variance that the kernel's white noise adds to an observation.

    Raises
    ------
    SettingsError
        If it differs from row to row.
    """
    sample = kernel.nugget(X[: min(len(X), 32)])
    if np.ptp(sample) > 1e-12 * max(1.0, float(np.max(np.abs(sample)))):
        raise SettingsError("the kernel's white noise must be the same for every row")
    return float(sample[0])


class Accumulator:
    """Adds up ``dL / d theta`` and ``dL / d s`` over cliques; s is the variance of an observation."""

    def __init__(self, model: Model, experts: Experts, *, tree: bool) -> None:
        self.tree = tree
        self.model = model
        self.experts = experts
        self.theta = np.zeros(len(model.kernel.theta))
        self.s = 0.0

    def prior(self, A: Array, K_weight: Array) -> None:
        """Add ``sum K_weight dK_aa / d theta`` at inducing inputs A."""
        kernel, jitter = self.model.kernel, self.model.jitter
        self.theta += kernel.gradient_dot(A, A, K_weight)
        if jitter > 0.0:
            self.theta += kernel.diag_gradient_dot(A, jitter * np.diagonal(K_weight), nugget=False)

    def clique(self, clique: Clique, K: Array, own: Own, belief: Belief, outer: Belief) -> None:
        """Add one clique: ``log N(a; 0, K)``, less its separator's, plus its rows' likelihood."""
        q, n_s = self.experts.n_outputs, len(outer.alpha)
        A_full = belief.full()
        weight = 0.5 * (belief.alpha @ belief.alpha.T - q * A_full)
        if clique.parent >= 0 or self.experts.past is None or not self.tree:
            weight[:n_s, :n_s] -= 0.5 * (outer.alpha @ outer.alpha.T - q * outer.full())
        A = self.experts.inducing(clique)
        X, y, groups = self.experts.rows(clique)
        if own.projection is None or own.K_xa is None:
            K_r, s = K[n_s:], self.model.noise
            r = y - K_r @ belief.alpha
            if clique.children or not self.tree:
                trace = float(np.trace(K_r[:, n_s:])) - float(np.sum(belief.explained(K_r)))
            else:  # nothing but its own rows speaks of the residual: A_rr = I / s - Sigma_rr / s^2
                trace = s * (len(y) - s * float(np.trace(A_full[n_s:, n_s:])))
            self.s += 0.5 * ((float(np.sum(r * r)) + q * trace) / s / s - q * len(y) / s)
            self.prior(A, weight)
            return
        back = pull_back(own.projection, own.K_xa, y, belief)
        self.s += back.s
        kernel = self.model.kernel
        self.prior(A, weight + back.K)
        self.theta += kernel.gradient_dot(X, A, back.K_xa)
        if own.projection.noise.factors:
            for g, delta in zip(groups, back.K_xx, strict=True):
                self.theta += kernel.gradient_dot(X[g], X[g], delta)
        else:
            self.theta += kernel.diag_gradient_dot(X, back.K_xx[0], nugget=False)

    def gradient(self, noise_variance: float) -> Array:
        """(p + 1,) with respect to theta and log noise_variance."""
        X = self.experts.X[0][:1]
        kernel, one = self.model.kernel, np.ones(1)
        white = kernel.diag_gradient_dot(X, one) - kernel.diag_gradient_dot(X, one, nugget=False)
        return np.append(self.theta + self.s * white, self.s * noise_variance)


def tree_evidence(
    model: Model,
    experts: Experts,
    cliques: Sequence[Clique],
    *,
    noise_variance: float,
    keep_bytes: float = 2e9,
) -> tuple[float, Array]:
    """Evidence (8) and its gradient with respect to theta and log noise_variance, (p + 1,)."""
    model = steadied(model, experts, cliques)
    messages, kept = upward(model, experts, cliques, keep_bytes=keep_bytes)
    total = Accumulator(model, experts, tree=True)

    def visit(c: int, K: Array, own: Own, info: Info) -> None:
        n_s = experts.separator_size(cliques[c])
        outer = separator_belief(K, messages, c, n_s)
        total.clique(cliques[c], K, own, settle(K, info, n_s), outer)

    downward(model, experts, cliques, messages, kept=kept, visit=visit)
    return messages.log_evidence, total.gradient(noise_variance)
