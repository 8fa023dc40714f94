"""One client in eight lies in every round: under the robust rule the training is the one without it."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.fusion.federation import server_step
from streamgp.gp.hierarchy.blocks import Layout
from streamgp.gp.hierarchy.data import ClientData, client_data
from streamgp.gp.hierarchy.shared_step import SharedState
from streamgp.models.hgp.client import client_step
from streamgp.models.hgp.fit import Plan
from streamgp.models.hgp.rounds import Rounds, client_start, server_start

LAYOUT = Layout(1, 1, 1, 1)
PLAN = Plan(LAYOUT, "structured", 12, 8, 8, 1, 0)
SCHEDULE = Rounds(rounds=4, local_iterations=3)
LIAR = "c3"

LIES = {
    "garbage": lambda a, rng: 1e3 * rng.standard_normal(a.shape),
    "sign-flipped": lambda a, rng: -a,
    "100 times": lambda a, rng: 100.0 * a,
    "-100 times": lambda a, rng: -100.0 * a,
}


def truth(client: str, X: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(X) + 0.5 * np.sin(0.4 * X + int(client[1:])))


def clients(seed: int) -> dict[str, ClientData]:
    rng = np.random.default_rng(seed)
    out = {}
    for name in [f"c{i}" for i in range(8)]:
        X = rng.uniform(-5.0, 5.0, (30, 1))
        out[name] = client_data(X, truth(name, X) + 0.05 * rng.standard_normal((30, 1)))
    return out


def trained(data: dict[str, ClientData], *, rule: str, lie: str | None = None) -> SharedState:
    """The shared state after the training."""
    state = server_start(PLAN, SCHEDULE, low=np.array([-5.0]), high=np.array([5.0]))
    owns, rng = {}, np.random.default_rng(7)
    for _ in range(SCHEDULE.rounds):
        summaries = {}
        for name, rows in data.items():
            own = owns.get(name) or client_start(name, rows, state, PLAN, seed=0)
            result = client_step(state, rows, own, layout=LAYOUT, factors="structured", iterations=3)
            owns[name], summaries[name] = result.own, result.summary
        if lie is not None:
            summaries[LIAR] = {k: LIES[lie](a, rng) for k, a in summaries[LIAR].items()}
        step = server_step(state, summaries, layout=LAYOUT, ascent=SCHEDULE.ascent, rule=rule, beta=1 / 8)
        assert step.status == "ok"
        state = step.state
    return state


@pytest.fixture(scope="module")
def honest() -> SharedState:
    data = clients(0)
    del data[LIAR]
    return trained(data, rule="sum")


@pytest.mark.parametrize("lie", LIES)
def test_the_training_is_that_without_the_liar(lie: str, honest: SharedState) -> None:
    """C38's kind, and worse: every coordinate of its update is a lie, in every round, and none of it is left."""
    told = trained(clients(0), rule="trimmed", lie=lie)
    np.testing.assert_array_equal(told.mean, honest.mean)
    np.testing.assert_array_equal(told.precision, honest.precision)
    for name, a in honest.block.items():
        np.testing.assert_array_equal(told.block[name], a)


def test_where_nobody_lies_the_rule_changes_nothing() -> None:
    plain, robust = (trained(clients(0), rule=rule) for rule in ("sum", "trimmed"))
    np.testing.assert_array_equal(plain.mean, robust.mean)


def test_without_the_rule_it_wrecks_the_global_layer(honest: SharedState) -> None:
    """On the honest clients' grid, in whitened numbers: the plain sum believes garbage."""
    wrecked = trained(clients(0), rule="sum", lie="garbage")
    assert np.linalg.norm(wrecked.mean - honest.mean) > 3.0 * np.linalg.norm(honest.mean)
