"""Fit in one process: L-BFGS on the collapsed bound over every block at once, from several random starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, Layout, scales
from streamgp.gp.hierarchy.bound import Factors
from streamgp.gp.hierarchy.data import ClientData
from streamgp.gp.hierarchy.total import LOADINGS, total_bound
from streamgp.models.hgp.budget import ENOUGH_NATS, chosen_rows
from streamgp.models.hgp.flat import Free, box, from_vector, to_vector
from streamgp.models.hgp.start import start_own, start_shared

#: iterations that a random start gets before the best of them goes on alone
TRIAL_ITERATIONS = 25


@dataclass(frozen=True, slots=True)
class Plan:
    """What to fit and how hard. ``most_local`` bounds a client's residual inducing inputs."""

    layout: Layout
    factors: Factors
    n_global: int
    n_local: int
    most_local: int
    n_starts: int
    max_iter: int

    @property
    def grows(self) -> bool:
        """Whether the bound may choose the residual budgets."""
        return self.most_local > self.n_local


@dataclass(frozen=True, slots=True)
class Fit:
    """Blocks of the best start, the bound reached (nats) and the bound after each stage."""

    shared: dict[str, Array]
    owns: tuple[dict[str, Array], ...]
    value: float
    history: tuple[float, ...]


def free_arrays(blocks: Sequence[Block], data: Sequence[ClientData], layout: Layout) -> list[Free]:
    """What may move. Held: loadings of a scalar model, and inducing inputs that are already all of a client's rows."""
    free = []
    for b, block in enumerate(blocks):
        for name in sorted(block):
            held = layout.scalar and name in LOADINGS
            if b > 0 and name == "inducing":
                held = held or len(block[name]) >= len(data[b - 1].X) or layout.rank_local == 0
            if not held and block[name].size:
                free.append(Free(b, name))
    return free


def maximise(
    data: Sequence[ClientData], blocks: Sequence[Block], plan: Plan, *, max_iter: int
) -> tuple[float, list[dict[str, Array]]]:
    """Climb the collapsed bound from ``blocks`` (shared first) for at most ``max_iter`` iterations."""
    free = free_arrays(blocks, data, plan.layout)

    def negative(vector: Array) -> tuple[float, Array]:
        now = from_vector(vector, blocks, free)
        try:
            total = total_bound(data, now[0], now[1:], plan.layout, factors=plan.factors)
        except NotPositiveDefiniteError:
            return 1e25, np.zeros_like(vector)
        assert total.by_shared is not None
        return -total.value, -to_vector([total.by_shared, *total.by_own], free)

    start = to_vector(blocks, free)
    limits = box(blocks, free)
    low = np.array([-np.inf if a is None else a for a, _ in limits])
    high = np.array([np.inf if b is None else b for _, b in limits])
    found = minimize(
        negative,
        np.clip(start, low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": max_iter, "maxfun": 2 * max_iter + 20, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-4},
    )
    return -float(found.fun), from_vector(np.asarray(found.x), blocks, free)


def resized(x: ClientData, shared: Block, own: Block, plan: Plan, *, least: int) -> dict[str, Array]:
    """The client's own block with residual inducing inputs that suffice at its present kernels and noise."""
    s = scales(shared, own, plan.layout)
    start = plan.layout.rank_global + plan.layout.rank_deviation
    weights = np.square(s.W[:, start:]).sum(axis=0)
    Z = chosen_rows(x.X, s.local_lengthscale, weights=weights, noise=s.noise, most=plan.most_local)
    if len(Z) <= least <= len(own["inducing"]):
        return dict(own)
    return {**own, "inducing": Z}


def fit_jointly(data: Sequence[ClientData], plan: Plan, rng: np.random.Generator) -> Fit:
    """Random starts, the best of them to the end, then budgets that the bound says are too large or too small."""
    everywhere = np.concatenate([x.X for x in data])
    trials = []
    for _ in range(plan.n_starts):
        shared = start_shared(everywhere, plan.layout, plan.n_global, rng)
        owns = [start_own(x.X, plan.layout, plan.n_local, rng) for x in data]
        if plan.grows and plan.layout.rank_local:
            owns = [resized(x, shared, own, plan, least=plan.n_local) for x, own in zip(data, owns, strict=True)]
        trials.append(maximise(data, [shared, *owns], plan, max_iter=min(TRIAL_ITERATIONS, plan.max_iter)))
    best = int(np.argmax([value for value, _ in trials]))
    value, blocks = trials[best]
    history = [value]
    if plan.max_iter > TRIAL_ITERATIONS:
        value, blocks = maximise(data, blocks, plan, max_iter=plan.max_iter - TRIAL_ITERATIONS)
        history.append(value)
    if plan.grows and plan.layout.rank_local:
        value, blocks = reconsider_budgets(data, blocks, plan, value=value)
        history.append(value)
    return Fit(blocks[0], tuple(blocks[1:]), value, tuple(history))


def reconsider_budgets(
    data: Sequence[ClientData], blocks: list[dict[str, Array]], plan: Plan, *, value: float
) -> tuple[float, list[dict[str, Array]]]:
    """Grow or prune each client's residual budget where the bound agrees: at most ``ENOUGH_NATS`` a client lost."""
    shared, owns = blocks[0], blocks[1:]
    fresh = [resized(x, shared, own, plan, least=0) for x, own in zip(data, owns, strict=True)]
    changed = [len(a["inducing"]) != len(b["inducing"]) for a, b in zip(fresh, owns, strict=True)]
    if not any(changed):
        return value, blocks
    after = total_bound(data, shared, fresh, plan.layout, factors=plan.factors, gradient=False).value
    if after < value - ENOUGH_NATS * sum(changed):
        return value, blocks
    return maximise(data, [shared, *fresh], plan, max_iter=min(TRIAL_ITERATIONS, plan.max_iter))
