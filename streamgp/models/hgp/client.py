"""A client's part of a round of Algorithm 1, as a pure function: maximise its own block, then summarise (23)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, Layout
from streamgp.gp.hierarchy.bound import (
    Factors,
    Shared,
    client_gradient,
    client_value,
    solve_local,
)
from streamgp.gp.hierarchy.data import ClientData
from streamgp.gp.hierarchy.layers import design
from streamgp.gp.hierarchy.shared_step import SharedState, q_derivative
from streamgp.gp.hierarchy.total import LOADINGS, add_log_prior, log_prior
from streamgp.models.hgp.flat import Free, from_vector, limits, to_vector


@dataclass(frozen=True, slots=True)
class ClientResult:
    """The client's new block, which stays with it, and the summary that leaves: derivatives by name."""

    own: dict[str, Array]
    summary: dict[str, Array]


def client_step(
    state: SharedState, data: ClientData, own: Block, *, layout: Layout, factors: Factors, iterations: int = 20
) -> ClientResult:
    """Lines 4-6 of Algorithm 1 for one client.

    Its factors q(delta_i), q(u_i) are optimal in closed form, so that (20) is climbed over kernels, loadings and
    inducing inputs alone, by at most ``iterations`` of L-BFGS; then the derivatives of (23) are taken at the shared
    block it was given. Without a row there is nothing to say: the summary is empty and the block unchanged.
    """
    if data.count == 0:
        return ClientResult(dict(own), {})
    q = state.q
    better = _climb(state, q, data, own, layout=layout, factors=factors, iterations=iterations)
    d = design(data, state.block, better, layout)
    local = solve_local(d, factors)
    by_shared, _ = client_gradient(d, local, q, factors, shared=state.block, own=better, layout=layout)
    return ClientResult(better, {**by_shared, **q_derivative(local, q)})


def own_bound(state: SharedState, data: ClientData, own: Block, *, layout: Layout, factors: Factors) -> float:
    """(20): what the client's own block gives the bound, in nats, at its optimal factors and the shared block given."""
    local = solve_local(d := design(data, state.block, own, layout), factors)
    return client_value(d, local, state.q) + log_prior(own, layout)


def sum_of(summaries: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """The sum (24) of clients' summaries that are not empty, in the order of the clients' names."""
    total: dict[str, Array] = {}
    for client in sorted(summaries):
        for name, value in summaries[client].items():
            total[name] = total[name] + value if name in total else np.array(value)
    return total


def _climb(
    state: SharedState,
    q: Shared,
    data: ClientData,
    own: Block,
    *,
    layout: Layout,
    factors: Factors,
    iterations: int,
) -> dict[str, Array]:
    """The own block after L-BFGS on the client's bound, the shared block and q(v_g) held."""
    held = len(own["inducing"]) >= len(data.X) or layout.rank_local == 0
    free = [
        Free(0, name)
        for name in sorted(own)
        if own[name].size and not (layout.scalar and name in LOADINGS) and not (name == "inducing" and held)
    ]
    if not free or iterations < 1:
        return dict(own)

    def negative(vector: Array) -> tuple[float, Array]:
        (now,) = from_vector(vector, [own], free)
        try:
            d = design(data, state.block, now, layout)
            local = solve_local(d, factors)
        except NotPositiveDefiniteError:
            return 1e25, np.zeros_like(vector)
        _, of_own = client_gradient(d, local, q, factors, shared=state.block, own=now, layout=layout)
        add_log_prior(of_own, now, layout)
        return -client_value(d, local, q) - log_prior(now, layout), -to_vector([of_own], free)

    low, high, box = limits([own], free)
    found = minimize(
        negative,
        np.clip(to_vector([own], free), low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=box,
        options={"maxiter": iterations, "maxfun": 2 * iterations + 20, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-5},
    )
    (better,) = from_vector(np.asarray(found.x), [own], free)
    return better
