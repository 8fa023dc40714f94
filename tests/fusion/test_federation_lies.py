"""One client in eight lies in every round: the trimmed rule keeps the honest clients' forecasts."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.fusion.federation import server_step
from streamgp.gp.hierarchy.blocks import Layout
from streamgp.gp.hierarchy.data import ClientData, client_data
from streamgp.gp.hierarchy.layers import design
from streamgp.models.hgp.client import client_step
from streamgp.models.hgp.fit import Plan
from streamgp.models.hgp.posterior import client_posterior
from streamgp.models.hgp.rounds import Rounds, client_start, server_start

LAYOUT = Layout(1, 1, 1, 1)
PLAN = Plan(LAYOUT, "structured", 12, 8, 8, 1, 0)
SCHEDULE = Rounds(rounds=12, local_iterations=5)
LIAR = "c3"
GRID = np.linspace(-5.0, 5.0, 80)[:, None]

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


def error(data: dict[str, ClientData], *, rule: str, lie: str | None = None) -> float:
    """Root mean square error of the honest clients' forecasts after the training, on a grid."""
    state = server_start(PLAN, SCHEDULE, low=np.array([-5.0]), high=np.array([5.0]))
    owns, rng = {}, np.random.default_rng(7)
    for _ in range(SCHEDULE.rounds):
        summaries = {}
        for name, rows in data.items():
            own = owns.get(name) or client_start(name, rows, state, PLAN, seed=0)
            result = client_step(state, rows, own, layout=LAYOUT, factors="structured", iterations=5)
            owns[name], summaries[name] = result.own, result.summary
        if lie is not None:
            summaries[LIAR] = {k: LIES[lie](a, rng) for k, a in summaries[LIAR].items()}
        step = server_step(state, summaries, layout=LAYOUT, ascent=SCHEDULE.ascent, rule=rule, beta=1 / 8)
        assert step.status == "ok"
        state = step.state
    errors = []
    for name in data:
        if name != LIAR:
            d = design(data[name], state.block, owns[name], LAYOUT)
            belief = client_posterior(
                d, state.q, shared=state.block, own=owns[name], layout=LAYOUT, factors="structured"
            )
            errors.append(belief.predict(GRID)[0] - truth(name, GRID))
    return float(np.sqrt(np.mean(np.square(errors))))


@pytest.fixture(scope="module")
def honest() -> dict[str, float]:
    data = clients(0)
    del data[LIAR]
    return {rule: error(data, rule=rule) for rule in ("sum", "trimmed")}


@pytest.mark.parametrize("lie", LIES)
def test_the_error_is_that_of_the_run_without_the_liar(lie: str, honest: dict[str, float]) -> None:
    """C38's kind, and worse: every coordinate of its update is a lie, in every round; at most a tenth is lost."""
    told = error(clients(0), rule="trimmed", lie=lie)
    assert told < 1.1 * honest["trimmed"]
    assert told < 1.1 * honest["sum"]


def test_without_the_rule_it_wrecks_the_training(honest: dict[str, float]) -> None:
    assert error(clients(0), rule="sum", lie="garbage") > 10.0 * honest["sum"]
