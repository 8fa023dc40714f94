"""Inducing budgets and ranks of the residuals, grown and pruned by the bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamgp import HierarchicalGP
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, Layout, softplus_inverse
from streamgp.gp.hierarchy.data import ClientData, client_data
from streamgp.gp.hierarchy.total import total_bound
from streamgp.models.hgp.budget import ENOUGH_NATS, chosen_rows
from streamgp.models.hgp.fit import Plan, resized
from streamgp.models.hgp.reconsider import reconsider_budgets
from streamgp.models.hgp.start import shared_reach, start_own, start_shared

LAYOUT = Layout(1, 1, 1, 1)
PLAN = Plan(
    layout=LAYOUT, factors="structured", n_global=8, n_local=6, most_local=60, n_starts=1, max_iter=5, most_global=0
)
NOISE = 0.05


def federation(lengthscale: float, n_inducing: int) -> tuple[list[ClientData], list[dict[str, Array]]]:
    """Three clients of 60 rows whose residuals have this lengthscale, at their true kernels and noise."""
    rng = np.random.default_rng(4)
    data, owns = [], []
    shared = start_shared(np.array([[-5.0], [5.0]]), LAYOUT, 8, rng, noise=NOISE)
    for _ in range(3):
        x = np.sort(rng.uniform(-5.0, 5.0, 60))
        K = np.exp(-0.5 * np.square((x[:, None] - x) / lengthscale)) + 1e-9 * np.eye(60)
        y = np.sin(x) + np.linalg.cholesky(K) @ rng.standard_normal(60) + np.sqrt(NOISE) * rng.standard_normal(60)
        data.append(client_data(x[:, None], y[:, None]))
        own = start_own(x[:, None], LAYOUT, n_inducing, rng)
        lengths = softplus_inverse(np.full((1, 1), lengthscale))
        owns.append({**own, "eta_lengthscale": lengths, "eta_variance": softplus_inverse(np.ones(1))})
    return data, [shared, *owns]


def bound(data: list[ClientData], blocks: list[dict[str, Array]]) -> float:
    return total_bound(data, blocks[0], blocks[1:], LAYOUT, factors="structured", gradient=False).value


def sizes(owns: list[Block]) -> list[int]:
    return [len(own["inducing"]) for own in owns]


def test_a_pruned_budget_loses_no_more_than_its_tolerance() -> None:
    """Every row an inducing input is the exact bound; of a smooth residual most are given up for half a nat each."""
    data, blocks = federation(1.5, 60)
    full = bound(data, blocks)
    pruned = [resized(x, blocks[0], own, PLAN)[0] for x, own in zip(data, blocks[1:], strict=True)]
    assert max(sizes(pruned)) < 20
    lost = full - bound(data, [blocks[0], *pruned])
    assert 0.0 <= lost <= 3 * ENOUGH_NATS
    value, kept = reconsider_budgets(data, blocks, PLAN, value=full)
    assert sizes(kept[1:]) == sizes(pruned)
    assert value >= full - 3 * ENOUGH_NATS
    np.testing.assert_allclose(bound(data, kept), value, rtol=1e-9)


def test_growing_gains_what_too_few_inducing_inputs_miss() -> None:
    """A rough residual shown by six inducing inputs: growing gains, up to half a nat a client of the exact bound."""
    data, blocks = federation(0.3, 6)
    _, most = federation(0.3, 60)
    few, full = bound(data, blocks), bound(data, most)
    grown = [resized(x, blocks[0], own, PLAN)[0] for x, own in zip(data, blocks[1:], strict=True)]
    assert min(sizes(grown)) > 20
    reached = bound(data, [blocks[0], *grown])
    assert reached > few + 1000.0  # the trace of what six miss, over twice the noise variance
    assert full - 3 * ENOUGH_NATS <= reached <= full + 1e-6
    value, kept = reconsider_budgets(data, blocks, PLAN, value=few)
    assert sizes(kept[1:]) == sizes(grown)
    assert value >= reached


def test_few_rows_are_all_inducing_inputs_and_the_bound_is_the_exact_one() -> None:
    """Up to twice the budget: of 60 rows with 30 asked for all are taken, whatever a smooth residual would need."""
    data, blocks = federation(1.5, 30)
    plan = replace(PLAN, n_local=30)
    all_rows = [resized(x, blocks[0], own, plan)[0] for x, own in zip(data, blocks[1:], strict=True)]
    assert sizes(all_rows) == [60, 60, 60]
    exact = federation(1.5, 60)[1]
    np.testing.assert_allclose(bound(data, [blocks[0], *all_rows]), bound(data, exact), atol=0.1)
    fewer = [resized(x, blocks[0], own, replace(plan, n_local=29))[0] for x, own in zip(data, blocks[1:], strict=True)]
    assert max(sizes(fewer)) < 20


def test_a_budget_that_would_cost_more_than_its_tolerance_is_kept() -> None:
    data, blocks = federation(0.3, 40)
    tight = replace(PLAN, most_local=10)
    value = bound(data, blocks)
    after, kept = reconsider_budgets(data, blocks, tight, value=value)
    assert after == value
    assert sizes(kept[1:]) == [40, 40, 40]


@pytest.mark.parametrize("enough", [0.1, 1.0, 10.0])
def test_what_the_chosen_rows_miss_is_the_trace_of_the_bound(enough: float) -> None:
    """(19): the trace of K - Q over twice the noise variance, and no more than was allowed, by a dense inverse."""
    x = np.random.default_rng(0).uniform(-5.0, 5.0, (80, 1))
    Z, missed = chosen_rows(x, np.array([[0.8]]), weights=np.array([2.0]), noise=NOISE, most=80, enough=enough)
    K = np.exp(-0.5 * np.square((x - x.T) / 0.8))
    at = [int(np.flatnonzero(x[:, 0] == z)[0]) for z in Z[:, 0]]
    left = np.trace(K) - np.trace(K[:, at] @ np.linalg.solve(K[np.ix_(at, at)], K[at]))
    np.testing.assert_allclose(missed, 2.0 * left / (2.0 * NOISE), rtol=1e-6, atol=1e-6)
    assert missed <= enough
    fewer = np.trace(K) - np.trace(K[:, at[:-1]] @ np.linalg.solve(K[np.ix_(at[:-1], at[:-1])], K[at[:-1]]))
    assert fewer / NOISE > enough  # the last one was needed


@pytest.mark.parametrize("rank", [1, 2])
def test_the_residual_gets_the_latents_that_it_needs(rank: int) -> None:
    """Residuals of one latent keep one; of two, with loadings of their own, they get the second."""
    rng = np.random.default_rng(1)
    Xs, Ys = [], []
    for _ in range(2):
        x = np.sort(rng.uniform(0.0, 10.0, 30))
        K = np.exp(-0.5 * np.square((x[:, None] - x) / 0.8)) + 1e-9 * np.eye(30)
        latents = np.linalg.cholesky(K) @ rng.standard_normal((30, rank))
        Y = np.sin(x)[:, None] + latents @ np.eye(2)[:rank] + 0.05 * rng.standard_normal((30, 2))
        Xs.append(x[:, None])
        Ys.append(Y)
    given = {"n_outputs": 2, "n_global": 6, "n_local": 6, "rank_global": 1, "rank_deviation": 1, "rank_local": 1}
    model = HierarchicalGP(**given, random_state=0, n_starts=1, max_iter=50)
    assert model.fit(Xs, Ys).rank_local_ == rank
    held = HierarchicalGP(**given, random_state=0, n_starts=1, max_iter=50, ranks="fixed").fit(Xs, Ys)
    assert held.rank_local_ == 1
    fixed = HierarchicalGP(**given, random_state=0, n_starts=1, max_iter=2, budget="fixed").fit(Xs, Ys)
    assert fixed.rank_local_ == 1
    assert model.lower_bound_ >= held.lower_bound_ - 2 * ENOUGH_NATS


@pytest.mark.parametrize("together", [True, False])
def test_rows_agree_as_far_as_clients_share_something(together: bool) -> None:
    """A shared smooth function and a rough one of each client: no chance of few pairs makes the shared one rough."""
    reaches = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        data = []
        for _ in range(6):
            x = np.linspace(-5.0, 5.0, 50) if together else rng.uniform(-5.0, 5.0, 50)
            K = np.exp(-0.5 * np.square((x[:, None] - x) / 0.3)) + 1e-9 * np.eye(50)
            Y = np.sin(x) + np.cos(0.7 * x) + np.linalg.cholesky(K) @ rng.standard_normal(50)
            data.append(client_data(x[:, None], Y[:, None]))
        reaches.append(shared_reach(data, rng))
    assert all(reach is None or reach > 0.7 for reach in reaches), reaches
