"""The same passes where the graph is not chordal: block-sparse Cholesky of T + S (Prop. 7, A.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.beliefs import Belief
from streamgp.gp.blocks import BlockCholesky, SelectedInverse, Symbolic, analyse
from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import safe_cholesky, solve_lower, steady_cholesky
from streamgp.models.cpoe.experts_data import Experts, Model
from streamgp.models.cpoe.graph import Clique
from streamgp.models.cpoe.tree import Own, own_information

Visit = Callable[[int, Array, Own, Belief, Belief], None]


@dataclass(frozen=True, slots=True)
class Solution:
    """Posterior mean per expert, the factor of the posterior precision, and the evidence (8)."""

    mean: list[Array]
    factor: BlockCholesky
    log_evidence: float


def pattern(n_experts: int, regions: Sequence[Clique]) -> Symbolic:
    """Elimination order and fill of the block graph."""
    return analyse(n_experts, [r.members for r in regions])


def solve(model: Model, experts: Experts, regions: Sequence[Clique], symbolic: Symbolic) -> Solution:
    """Assemble ``Sigma^-1 = T + S`` and ``b`` region by region, factor, and solve for the mean."""
    sizes = [len(A) for A in experts.A]
    q = experts.n_outputs
    blocks: dict[tuple[int, int], Array] = {}
    b = [np.zeros((n, q)) for n in sizes]
    total, log_det_q = 0.0, 0.0
    for region in regions:
        A = experts.inducing(region)
        n_s = experts.separator_size(region)
        K = model.prior(A)
        own = own_information(model, experts, region, K)
        Lam, eta = own.info.dense(n_s)
        L = steady_cholesky(K).L
        R = L[n_s:, n_s:]
        log_det_q += 2.0 * float(np.sum(np.log(np.diagonal(R))))
        # R^-1 [-F, I] are the last rows of L^-1, F = L_rs L_ss^-1
        half = solve_lower(L, np.eye(len(L)))[n_s:]
        Lam += half.T @ half
        total += own.log_density
        scatter(blocks, b, experts, region, Lam, eta)
    factor = BlockCholesky(symbolic, sizes, blocks)
    mean = factor.solve(b)
    quadratic = sum(float(np.sum(x * y)) for x, y in zip(b, mean, strict=True))
    return Solution(mean, factor, total + 0.5 * (quadratic - q * (factor.log_det() + log_det_q)))


def scatter(
    blocks: dict[tuple[int, int], Array],
    b: list[Array],
    experts: Experts,
    region: Clique,
    Lam: Array,
    eta: Array,
) -> None:
    """Add a region's information to the blocks of its experts."""
    cuts = [int(c) for c in np.cumsum([0, *(len(experts.A[e]) for e in region.members)])]
    for a, i in enumerate(region.members):
        b[i] += eta[cuts[a] : cuts[a + 1]]
        for c, j in enumerate(region.members):
            if j > i:
                continue
            part = Lam[cuts[a] : cuts[a + 1], cuts[c] : cuts[c + 1]]
            blocks[i, j] = blocks[i, j] + part if (i, j) in blocks else part


def visit_regions(
    model: Model, experts: Experts, regions: Sequence[Clique], solution: Solution, *, visit: Visit
) -> None:
    """``visit(c, K, own, belief, belief on the separator)`` for every region."""
    inverse = solution.factor.selected_inverse()
    for c, region in enumerate(regions):
        A = experts.inducing(region)
        K = model.prior(A)
        n_s = experts.separator_size(region)
        own = own_information(model, experts, region, K)
        belief = region_belief(K, inverse, solution.mean, region.members)
        outer = region_belief(K[:n_s, :n_s], inverse, solution.mean, region.separator)
        visit(c, K, own, belief, outer)


def _explained(whitened: Array) -> Array:
    """``I`` less the posterior covariance in the prior's units, which rounding must not leave negative.

    It may exceed the prior: what a region's experts have in common under this graph is not all of their kernel matrix.
    """
    one = np.eye(len(whitened))
    try:
        safe_cholesky(whitened + 1e-12 * one, ladder=(0.0,))
    except NotPositiveDefiniteError:
        values, vectors = np.linalg.eigh(whitened)
        return np.asarray(one - (vectors * np.maximum(values, 0.0)) @ vectors.T)
    return np.asarray(one - whitened)


def region_belief(K: Array, inverse: SelectedInverse, mean: Sequence[Array], members: tuple[int, ...]) -> Belief:
    """``K^-1 - K^-1 Sigma K^-1`` and ``K^-1 mu`` of some experts' values."""
    if not members:
        return Belief(np.zeros((0, 0)), np.zeros((0, mean[0].shape[1])))
    factor = steady_cholesky(K)
    L = factor.L
    whitened = solve_lower(L, solve_lower(L, inverse.dense(members)).T)
    inner = _explained(0.5 * (whitened + whitened.T))
    mu = np.concatenate([mean[e] for e in members])
    return Belief(inner, factor.solve(mu), "white", factor.inverse_root())
