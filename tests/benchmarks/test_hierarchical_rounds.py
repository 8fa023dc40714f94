"""``make bench``: time of a round of the hierarchical model against clients and rows."""

from __future__ import annotations

import time

import numpy as np
import pytest

from streamgp.gp.hierarchy.blocks import Layout
from streamgp.gp.hierarchy.data import client_data
from streamgp.models.hgp.fit import Plan
from streamgp.models.hgp.rounds import Rounds, run_rounds, server_start

pytestmark = pytest.mark.bench

LAYOUT = Layout(1, 1, 1, 1)
PLAN = Plan(LAYOUT, "structured", 81, 41, 41, 1, 0)
SCHEDULE = Rounds(rounds=1, local_iterations=2)


def seconds(n_clients: int, n_rows: int) -> float:
    """CPU seconds of one round, the better of two."""
    rng = np.random.default_rng(0)
    X = [rng.uniform(-5.0, 5.0, (n_rows, 1)) for _ in range(n_clients)]
    data = {f"c{i}": client_data(x, np.sin(x) + 0.1 * rng.standard_normal(x.shape)) for i, x in enumerate(X)}
    state = server_start(PLAN, SCHEDULE, low=np.array([-5.0]), high=np.array([5.0]))
    times = []
    for _ in range(2):
        begun = time.process_time()
        run_rounds(data, state, PLAN, SCHEDULE)
        times.append(time.process_time() - begun)
    return min(times)


def slope(sizes: list[int], times: list[float]) -> float:
    """Of log time against log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def test_a_round_is_linear_in_clients_and_in_rows() -> None:
    clients, rows = [2, 4, 8], [5_000, 10_000, 20_000]
    by_clients = [seconds(n, 2_000) for n in clients]
    by_rows = [seconds(1, n) for n in rows]
    for what, sizes, times in (("clients", clients, by_clients), ("rows", rows, by_rows)):
        told = ", ".join(f"{n}: {t:.2f} s" for n, t in zip(sizes, times, strict=True))
        print(f"\n{what}: {told}; slope {slope(sizes, times):.2f}")
    assert slope(clients, by_clients) < 1.2
    assert slope(rows, by_rows) < 1.2
