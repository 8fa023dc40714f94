"""The collapsed bound of all clients together: value, optimal q(v_g) and derivatives of every block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, Layout
from streamgp.gp.hierarchy.bound import (
    Factors,
    Shared,
    client_gradient,
    client_value,
    solve_local,
    solve_shared,
)
from streamgp.gp.hierarchy.data import ClientData
from streamgp.gp.hierarchy.layers import design

LOADINGS = ("loadings", "deviation_loadings", "local_loadings")
#: standard deviation of the prior of log_noise: clients' noises differ by factors, not by magnitudes
SPREAD_NOISE = 1.5


@dataclass(frozen=True, slots=True)
class Total:
    """Bound in nats, log prior of the loadings included; derivatives are None where not asked for."""

    value: float
    q: Shared
    by_shared: dict[str, Array] | None = None
    by_own: tuple[dict[str, Array], ...] = ()


def log_prior(block: Block, layout: Layout) -> float:
    """Log density of the loadings' standard normal prior, constants left out; 0 where loadings are held.

    With noises of the clients' own, their logarithms' normal prior as well.
    """
    value = -0.5 * float(np.sum((block["log_noise"] / SPREAD_NOISE) ** 2)) if "log_noise" in block else 0.0
    if layout.scalar:
        return value
    return value - 0.5 * sum(float(np.sum(block[name] ** 2)) for name in LOADINGS if name in block)


def add_log_prior(gradient: dict[str, Array], block: Block, layout: Layout) -> None:
    """Add the derivative of :func:`log_prior`; held loadings get a zero derivative."""
    for name in LOADINGS:
        if name in gradient:
            gradient[name] = np.zeros_like(block[name]) if layout.scalar else gradient[name] - block[name]
    if "log_noise" in block:
        gradient["log_noise"] = gradient["log_noise"] - block["log_noise"] / SPREAD_NOISE**2


def total_bound(
    data: Sequence[ClientData],
    shared: Block,
    owns: Sequence[Block],
    layout: Layout,
    *,
    factors: Factors,
    gradient: bool = True,
) -> Total:
    """Theorem 1 at the optimal factors, by pFedHGP (19), with all derivatives by the envelope theorem."""
    designs = [design(x, shared, own, layout) for x, own in zip(data, owns, strict=True)]
    locals_ = [solve_local(d, factors) for d in designs]
    q = solve_shared(locals_, layout.rank_global * len(shared["inducing"]))
    value = log_prior(shared, layout) - q.divergence()
    for d, local, own in zip(designs, locals_, owns, strict=True):
        value += client_value(d, local, q) + log_prior(own, layout)
    if not gradient:
        return Total(value, q)
    by_shared: dict[str, Array] = {name: np.zeros_like(a) for name, a in shared.items()}
    by_own = []
    for d, local, own in zip(designs, locals_, owns, strict=True):
        of_shared, of_own = client_gradient(d, local, q, factors, shared=shared, own=own, layout=layout)
        for name, g in of_shared.items():
            by_shared[name] = by_shared[name] + g
        add_log_prior(of_own, own, layout)
        by_own.append(of_own)
    add_log_prior(by_shared, shared, layout)
    return Total(value, q, by_shared, tuple(by_own))
