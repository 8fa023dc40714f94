"""The climb of a fit in one process: L-BFGS on the collapsed bound over every block at once, and budgets for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, Layout, scales, softplus, softplus_inverse
from streamgp.gp.hierarchy.bound import Factors
from streamgp.gp.hierarchy.data import ClientData
from streamgp.gp.hierarchy.exact import Exact, all_rows, exact_bound, is_exact
from streamgp.gp.hierarchy.related import related_prior
from streamgp.gp.hierarchy.total import LOADINGS, Total, total_bound
from streamgp.models.hgp.budget import chosen_rows
from streamgp.models.hgp.flat import Free, from_vector, limits, to_vector

#: steps that L-BFGS remembers: loadings and kernels trade against one another, and a short memory forgets how
MEMORY = 100


@dataclass(frozen=True, slots=True)
class Plan:
    """What to fit and how hard. ``most_local`` and ``most_global`` bound inducing inputs that the bound asks for.

    ``most_rank`` bounds the residual latents that it may ask for; at 0 they are as many as the layout says.
    ``hold`` names arrays of any block that stay as they are; ``lengthscale`` (d,), in working units, is that of the
    global kernels where it is known. ``related``: lengthscales of the residuals have the prior of ``related_prior``.
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
    most_rank: int = 0
    related: bool = False

    @property
    def grows(self) -> bool:
        """Whether the bound may choose the residual budgets."""
        return self.most_local > self.n_local


@dataclass(frozen=True, slots=True)
class Fit:
    """Blocks of the best start, the bound reached (nats), the bound after each stage and the layers as they became."""

    shared: dict[str, Array]
    owns: tuple[Block, ...]
    value: float
    history: tuple[float, ...]
    layout: Layout


def free_arrays(blocks: Sequence[Block], data: Sequence[ClientData], plan: Plan) -> list[Free]:
    """What may move: not the loadings of a scalar model, nor inducing inputs that are all of a client's rows."""
    free = []
    for b, block in enumerate(blocks):
        for name in sorted(block):
            held = (plan.layout.scalar and name in LOADINGS) or name in plan.hold
            if b == 0 and name == "eta_lengthscale" and plan.lengthscale is not None:
                held = True
            if b == 0 and name == "inducing":
                chosen = plan.most_global and len(block[name]) > plan.n_global
                # chosen among the rows, too many for each to be worth a gradient; or all of them
                held = held or bool(chosen) or all_rows(block[name], np.concatenate([x.X for x in data]))
            if b > 0 and name == "inducing":
                held = held or len(block[name]) >= len(data[b - 1].X) or plan.layout.rank_local == 0
                held = held or all_rows(block[name], data[b - 1].X)
            if not held and block[name].size:
                free.append(Free(b, name))
    return free


def relation(owns: Sequence[Block], plan: Plan) -> tuple[float, Sequence[Array | float]]:
    """What the prior of related lengthscales adds to the bound, and to its derivative by each ``eta_lengthscale``."""
    if plan.related and plan.layout.rank_local and len(owns) > 1:
        return related_prior(owns)
    return 0.0, [0.0] * len(owns)


def maximise(
    data: Sequence[ClientData], blocks: Sequence[Block], plan: Plan, *, max_iter: int
) -> tuple[float, list[dict[str, Array]]]:
    """Climb the collapsed bound from ``blocks`` (shared first) for at most ``max_iter`` iterations.

    Where every row is an inducing input that is the evidence itself, and taken as such.
    """
    free = free_arrays(blocks, data, plan)
    exact = is_exact(data, blocks, plan.layout, plan.factors)

    def negative(vector: Array) -> tuple[float, Array]:
        now = from_vector(vector, blocks, free)
        total: Total | Exact
        try:
            if exact:
                total = exact_bound(data, now[0], now[1:], plan.layout)
            else:
                total = total_bound(data, now[0], now[1:], plan.layout, factors=plan.factors)
        except NotPositiveDefiniteError:
            return 1e25, np.zeros_like(vector)
        assert total.by_shared is not None
        drawn, pulls = relation(now[1:], plan)
        by_own = [
            {**by, "eta_lengthscale": by["eta_lengthscale"] + pull}
            for by, pull in zip(total.by_own, pulls, strict=True)
        ]
        return -total.value - drawn, -to_vector([total.by_shared, *by_own], free)

    low, high, box = limits(blocks, free)
    found = minimize(
        negative,
        np.clip(to_vector(blocks, free), low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=box,
        options={"maxiter": max_iter, "maxfun": 2 * max_iter + 20, "maxcor": MEMORY, "ftol": 1e-9, "gtol": 1e-4},
    )
    return -float(found.fun), from_vector(np.asarray(found.x), blocks, free)


def resized(x: ClientData, shared: Block, own: Block, plan: Plan) -> tuple[dict[str, Array], float]:
    """The client's own block with as many residual inducing inputs as its present kernels and noise ask for.

    The second value is what the bound still misses for want of more, in nats. Of few rows, at most twice ``n_local``,
    all are taken: the residual is exact then and its inducing inputs are no unknowns, which is worth what it costs.
    """
    different = np.unique(x.X, axis=0)
    if len(different) <= min(2 * plan.n_local, plan.most_local):
        return {**own, "inducing": different}, 0.0
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
