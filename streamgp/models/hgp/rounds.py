"""Algorithm 1 in one process: the client steps and the server's ascent, round after round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block
from streamgp.gp.hierarchy.data import ClientData
from streamgp.gp.hierarchy.shared_step import Ascent, SharedState, ascend, first_state
from streamgp.models.hgp.client import client_step, own_bound, sum_of
from streamgp.models.hgp.fit import Plan, grown
from streamgp.models.hgp.start import start_own, start_shared


@dataclass(frozen=True, slots=True)
class Rounds:
    """How many rounds, how the shared block moves in each, and how long a client climbs."""

    rounds: int = 20
    ascent: Ascent = field(default_factory=lambda: Ascent(rate=0.2))
    local_iterations: int = 20
    seed: int = 0


def server_start(plan: Plan, rounds: Rounds, *, low: Array, high: Array) -> SharedState:
    """The state that a server begins with: it knows of the inputs only the box (d,), (d,) in working units."""
    rng = np.random.default_rng(rounds.seed)
    corners = np.stack([low, high])
    if len(low) > 1:
        corners = rng.uniform(low, high, (50 * plan.n_global, len(low)))
    return first_state(start_shared(corners, plan.layout, plan.n_global, rng), plan.layout)


def client_start(client: str, data: ClientData, state: SharedState, plan: Plan, *, seed: int) -> dict[str, Array]:
    """A client's own block before its first round; it depends on its name, its rows and the seed alone."""
    rng = np.random.default_rng([seed, crc32(client.encode())])
    own = start_own(data.X, plan.layout, plan.n_local, rng, fixed=not plan.grows)
    return grown(data, state.block, own, plan)


@dataclass(frozen=True, slots=True)
class MadeFor:
    """How many rows an own block was made for, and their box (d,), (d,)."""

    count: int
    low: Array
    high: Array

    @classmethod
    def of(cls, X: Array) -> MadeFor:
        """Rows X (n, d), n > 0."""
        return cls(len(X), X.min(axis=0), X.max(axis=0))

    def outgrown(self, X: Array) -> bool:
        """Whether rows X (n, d) are twice as many, or half of them outside of the box, as in a window that moves on."""
        outside = ((self.low > X) | (self.high < X)).any(axis=1)
        return len(X) >= 2 * self.count or 2 * int(outside.sum()) > len(X)


def client_again(
    client: str, data: ClientData, state: SharedState, own: Block, plan: Plan, *, seed: int, iterations: int
) -> dict[str, Array]:
    """The better by its bound (20), a short climb later: the own block that there is, or a fresh one for all rows.

    Inducing inputs that lie where the first rows were do not find to the later ones by gradient, and kernels
    fitted to a handful of rows may have given the residual up.
    """
    trials = [
        client_step(state, data, start, layout=plan.layout, factors=plan.factors, iterations=iterations).own
        for start in (own, client_start(client, data, state, plan, seed=seed))
    ]
    values = [own_bound(state, data, trial, layout=plan.layout, factors=plan.factors) for trial in trials]
    return trials[int(np.argmax(values))]


def run_rounds(
    data: Mapping[str, ClientData], state: SharedState, plan: Plan, rounds: Rounds
) -> tuple[SharedState, dict[str, Block]]:
    """The state and every client's own block after all rounds; a federation over topics gives the same numbers."""
    owns: dict[str, Block] = {}
    for _ in range(rounds.rounds):
        summaries = {}
        for client, rows in data.items():
            own = owns.get(client) or client_start(client, rows, state, plan, seed=rounds.seed)
            result = client_step(
                state,
                rows,
                own,
                layout=plan.layout,
                factors=plan.factors,
                iterations=rounds.local_iterations,
            )
            owns[client] = result.own
            summaries[client] = result.summary
        total = sum_of(summaries)
        if total:
            state = ascend(state, total, plan.layout, rounds.ascent)
    return state, owns
