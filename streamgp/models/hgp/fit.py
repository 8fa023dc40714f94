"""Fit in one process: L-BFGS on the collapsed bound over every block at once, from several random starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, Layout, scales, softplus, softplus_inverse
from streamgp.gp.hierarchy.bound import Factors
from streamgp.gp.hierarchy.data import ClientData
from streamgp.gp.hierarchy.total import LOADINGS, total_bound
from streamgp.models.hgp.budget import ENOUGH_NATS, chosen_rows
from streamgp.models.hgp.flat import Free, from_vector, limits, to_vector
from streamgp.models.hgp.start import shared_reach, start_own, start_shared

#: iterations that a random start gets before the best of them goes on alone
TRIAL_ITERATIONS = 25
#: a shared reach (working units, spans are 10) below this gets starts, and inducing inputs, of its own
ROUGH_REACH = 0.8
#: iterations of a rough start with its lengthscale and inducing inputs held, and its noise variance then: the
#: optimiser's first step is as long as the unknown is large, and would throw a good lengthscale away for noise
SETTLE_ITERATIONS, SETTLE_NOISE = 8, 0.2
#: noise variances of the starts in turn, as shares of the mean square of y
START_NOISE = (0.01, 0.1, 0.03)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to fit and how hard. ``most_local`` and ``most_global`` bound inducing inputs that the bound asks for.

    ``hold`` names arrays of any block that stay as they are; ``lengthscale`` (d,), in working units, is that of the
    global kernels where it is known.
    """

    layout: Layout
    factors: Factors
    n_global: int
    n_local: int
    most_local: int
    n_starts: int
    max_iter: int
    most_global: int = 0
    hold: tuple[str, ...] = ()
    lengthscale: Array | None = None

    @property
    def grows(self) -> bool:
        """Whether the bound may choose the residual budgets."""
        return self.most_local > self.n_local


@dataclass(frozen=True, slots=True)
class Fit:
    """Blocks of the best start, the bound reached (nats) and the bound after each stage."""

    shared: dict[str, Array]
    owns: tuple[Block, ...]
    value: float
    history: tuple[float, ...]


def free_arrays(blocks: Sequence[Block], data: Sequence[ClientData], plan: Plan) -> list[Free]:
    """What may move: not the loadings of a scalar model, nor inducing inputs that are all of a client's rows."""
    free = []
    for b, block in enumerate(blocks):
        for name in sorted(block):
            held = (plan.layout.scalar and name in LOADINGS) or name in plan.hold
            if b == 0 and name == "eta_lengthscale" and plan.lengthscale is not None:
                held = True
            if b == 0 and name == "inducing" and plan.most_global and len(block[name]) > plan.n_global:
                held = True  # chosen among the rows, too many for each to be worth a gradient
            if b > 0 and name == "inducing":
                held = held or len(block[name]) >= len(data[b - 1].X) or plan.layout.rank_local == 0
            if not held and block[name].size:
                free.append(Free(b, name))
    return free


def maximise(
    data: Sequence[ClientData], blocks: Sequence[Block], plan: Plan, *, max_iter: int
) -> tuple[float, list[dict[str, Array]]]:
    """Climb the collapsed bound from ``blocks`` (shared first) for at most ``max_iter`` iterations."""
    free = free_arrays(blocks, data, plan)

    def negative(vector: Array) -> tuple[float, Array]:
        now = from_vector(vector, blocks, free)
        try:
            total = total_bound(data, now[0], now[1:], plan.layout, factors=plan.factors)
        except NotPositiveDefiniteError:
            return 1e25, np.zeros_like(vector)
        assert total.by_shared is not None
        return -total.value, -to_vector([total.by_shared, *total.by_own], free)

    low, high, box = limits(blocks, free)
    found = minimize(
        negative,
        np.clip(to_vector(blocks, free), low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=box,
        options={"maxiter": max_iter, "maxfun": 2 * max_iter + 20, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-4},
    )
    return -float(found.fun), from_vector(np.asarray(found.x), blocks, free)


def resized(x: ClientData, shared: Block, own: Block, plan: Plan) -> tuple[dict[str, Array], float]:
    """The client's own block with as many residual inducing inputs as its present kernels and noise ask for.

    The second value is what the bound still misses for want of more, in nats.
    """
    s = scales(shared, own, plan.layout)
    weights = np.square(s.W[:, plan.layout.rank_global + plan.layout.rank_deviation :]).sum(axis=0)
    Z, missed = chosen_rows(x.X, s.local_lengthscale, weights=weights, noise=s.noise, most=plan.most_local)
    return {**own, "inducing": Z}, missed


def grown(x: ClientData, shared: Block, own: Block, plan: Plan) -> dict[str, Array]:
    """A start whose residual is within reach: grown as far as allowed, and smoothed as far as that is not enough.

    What inducing inputs miss costs the bound so much that the optimiser would otherwise give the layer up before
    its lengthscale can move.
    """
    if not plan.layout.rank_local or not plan.grows:
        return dict(own)
    while True:
        made, missed = resized(x, shared, own, plan)
        if missed <= 0.1 * x.count:
            return made if len(made["inducing"]) > plan.n_local else dict(own)
        longer = 1.3 * softplus(own["eta_lengthscale"])
        own = {**own, "eta_lengthscale": softplus_inverse(longer)}


def grown_shared(X: Array, shared: Block, plan: Plan) -> dict[str, Array]:
    """A shared block with as many inducing inputs as its kernels ask for at the rows X (n, d) of all clients."""
    weights = softplus(shared["eta_variance"])
    noise = float(softplus(shared["eta_noise"])[0])
    Z, _ = chosen_rows(
        X,
        softplus(shared["eta_lengthscale"]),
        weights=weights,
        noise=noise,
        most=plan.most_global,
        enough=0.1 * len(X),
    )
    return {**shared, "inducing": Z} if len(Z) > plan.n_global else dict(shared)


def fit_jointly(data: Sequence[ClientData], plan: Plan, rng: np.random.Generator) -> Fit:
    """Random starts, the best of them to the end, then budgets that the bound says are too large or too small.

    No layer gets more inducing inputs than there are different rows: those rows say all.
    """
    everywhere = np.concatenate([x.X for x in data])
    different = np.unique(everywhere, axis=0)
    plan = replace(plan, n_global=min(plan.n_global, len(different)))
    trials = []
    known = plan.lengthscale
    reach = shared_reach(data, rng) if known is None else float(np.min(known))
    # a shared layer rougher than the usual start: without a start there the optimiser takes it for noise
    rough = reach is not None and reach < ROUGH_REACH and plan.most_global > plan.n_global
    for k in range(plan.n_starts):
        shared = start_shared(
            everywhere,
            plan.layout,
            plan.n_global,
            rng,
            noise=START_NOISE[k % len(START_NOISE)],
            reach=reach if rough and k % 2 == 0 else None,
        )
        if len(different) == plan.n_global:
            shared["inducing"] = different
        settles = rough and (known is not None or k % 2 == 0)
        if known is not None:
            shared["eta_lengthscale"] = softplus_inverse(np.tile(known, (plan.layout.n_kernels, 1)))
        if settles:
            # grown for a small noise variance, so that the trace does not keep it large
            shared["eta_noise"] = softplus_inverse(np.array([START_NOISE[0]]))
            shared = grown_shared(everywhere, shared, plan)
            shared["eta_noise"] = softplus_inverse(np.array([SETTLE_NOISE]))
        owns = [_own(x.X, plan, rng) for x in data]
        owns = [grown(x, shared, own, plan) for x, own in zip(data, owns, strict=True)]
        if settles:
            held = replace(plan, hold=("inducing", "eta_lengthscale"))
            _, (shared, *owns) = maximise(data, [shared, *owns], held, max_iter=min(SETTLE_ITERATIONS, plan.max_iter))
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


def _own(X: Array, plan: Plan, rng: np.random.Generator) -> dict[str, Array]:
    """A client's own block at the start, with as many inducing inputs as its rows (n, d) can use."""
    different = np.unique(X, axis=0)
    block = start_own(X, plan.layout, min(plan.n_local, len(different)), rng, fixed=not plan.grows)
    return {**block, "inducing": different} if len(different) <= plan.n_local else block


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
    if after < value - ENOUGH_NATS * sum(changed):
        return value, blocks
    return maximise(data, [shared, *fresh], plan, max_iter=min(TRIAL_ITERATIONS, plan.max_iter))
