"""Many rows a client: what a round takes of memory."""

from __future__ import annotations

import tracemalloc

import numpy as np

from streamgp.gp.hierarchy.blocks import Layout
from streamgp.gp.hierarchy.data import client_data
from streamgp.models.hgp.client import client_step
from streamgp.models.hgp.fit import Plan
from streamgp.models.hgp.rounds import Rounds, client_start, server_start

GIB = 2**30


def test_ten_thousand_rows_and_81_inducing_inputs_fit_in_two_gib() -> None:
    """Q = 4, ranks of two, M = 81 + 41, one output missing now and then: a client's step stays below 2 GiB."""
    rng = np.random.default_rng(0)
    layout = Layout(4, 2, 2, 2)
    plan = Plan(layout, "structured", 81, 41, 41, 1, 0)
    X = rng.uniform(-5.0, 5.0, (10_000, 1))
    Y = np.hstack([np.sin((q + 1) * X) for q in range(4)]) + 0.1 * rng.standard_normal((10_000, 4))
    Y[rng.random(10_000) < 0.1, 2] = np.nan
    state = server_start(plan, Rounds(), low=np.array([-5.0]), high=np.array([5.0]))
    tracemalloc.start()
    try:
        data = client_data(X, Y)
        own = client_start("a", data, state, plan, seed=0)
        result = client_step(state, data, own, layout=layout, factors="structured", iterations=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.5 * GIB
    assert all(np.isfinite(a).all() for a in result.summary.values())
    # what leaves does not grow with the rows
    assert sum(a.size for a in result.summary.values()) < 2 * 81 * (2 * 81) + 1000
