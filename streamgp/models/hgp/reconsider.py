"""Budgets and ranks of the residuals reconsidered after a fit, by what the bound gains or loses with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block
from streamgp.gp.hierarchy.data import ClientData
from streamgp.gp.hierarchy.total import total_bound
from streamgp.models.hgp.budget import ENOUGH_NATS
from streamgp.models.hgp.fit import Plan, grown, maximise, relation, resized
from streamgp.models.hgp.start import start_own

#: iterations that a random start, or a change of budget or rank, gets
TRIAL_ITERATIONS = 25
#: what more latents must gain the bound, in nats for each of their loadings and lengthscales
NATS_AN_UNKNOWN = 0.5
#: loadings of fresh latents at their start, as a share of the usual: zero would be a saddle
FRESH_LOADINGS = 0.3


def widened(own: Block, X: Array, plan: Plan, more: int, rng: np.random.Generator) -> dict[str, Array]:
    """A client's own block with ``more`` fresh residual latents, faint ones, for its rows X (n, d)."""
    fresh = start_own(X, replace(plan.layout, rank_local=more), plan.n_local, rng, fixed=not plan.grows)
    rows = {name: np.concatenate([own[name], fresh[name]]) for name in ("eta_lengthscale", "eta_variance")}
    loadings = np.hstack([own["local_loadings"], FRESH_LOADINGS * fresh["local_loadings"]])
    return {**own, **rows, "local_loadings": loadings}


def reconsider_rank(
    data: Sequence[ClientData], blocks: list[dict[str, Array]], plan: Plan, *, value: float, rng: np.random.Generator
) -> tuple[float, list[dict[str, Array]], Plan]:
    """Twice as many residual latents, up to ``plan.most_rank``, as long as the bound gains by them.

    What clients do beside the shared kernels may be richer than the ranks say: a deviation with a period, say, which
    those kernels cannot show, is left to the residual and fills its latents.
    """
    while 0 < plan.layout.rank_local < plan.most_rank:
        rank = min(2 * plan.layout.rank_local, plan.most_rank)
        more = rank - plan.layout.rank_local
        wider = replace(plan, layout=replace(plan.layout, rank_local=rank))
        shared = blocks[0]
        owns = [widened(own, x.X, plan, more, rng) for x, own in zip(data, blocks[1:], strict=True)]
        owns = [grown(x, shared, own, wider) for x, own in zip(data, owns, strict=True)]
        trial = min(TRIAL_ITERATIONS, plan.max_iter)
        value, blocks = maximise(data, blocks, plan, max_iter=trial)  # so that the gain is not that of going on
        reached, found = maximise(data, [shared, *owns], wider, max_iter=trial)
        unknowns = len(data) * more * (plan.layout.n_outputs + shared["inducing"].shape[1])
        if reached < value + NATS_AN_UNKNOWN * unknowns:
            break
        value, blocks, plan = reached, found, wider
        if plan.max_iter > TRIAL_ITERATIONS:
            value, blocks = maximise(data, blocks, plan, max_iter=plan.max_iter - TRIAL_ITERATIONS)
    return value, blocks, plan


def reconsider_budgets(
    data: Sequence[ClientData], blocks: list[dict[str, Array]], plan: Plan, *, value: float
) -> tuple[float, list[dict[str, Array]]]:
    """Grow or prune each residual budget where the bound agrees: at most ``ENOUGH_NATS`` a client are lost."""
    shared, owns = blocks[0], blocks[1:]
    fresh = [resized(x, shared, own, plan)[0] for x, own in zip(data, owns, strict=True)]
    changed = [len(a["inducing"]) != len(b["inducing"]) for a, b in zip(fresh, owns, strict=True)]
    if not any(changed):
        return value, blocks
    after = total_bound(data, shared, fresh, plan.layout, factors=plan.factors, gradient=False).value
    after += relation(fresh, plan)[0]
    if after < value - ENOUGH_NATS * sum(changed):
        return value, blocks
    return maximise(data, [shared, *fresh], plan, max_iter=min(TRIAL_ITERATIONS, plan.max_iter))
