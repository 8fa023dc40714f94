"""The network layer at the size of a country: 1,000 stations, 16 sources each."""

import time

import numpy as np
import pytest

from streamgp.fusion.network import Asked, NetworkLayer
from streamgp.fusion.network_settings import NetworkSettings

pytestmark = pytest.mark.bench

STEP = 3_600_000
SETTINGS = NetworkSettings(n_sources=16)


def steps(n: int, T: int, *, seed: int) -> tuple[NetworkLayer, list[float]]:
    """A layer after T steps of n stations that all speak and ask, and the CPU seconds of each step."""
    rng = np.random.default_rng(seed)
    names = [f"s{i:05d}" for i in range(n)]
    layer, cost = NetworkLayer(SETTINGS), []
    said = rng.normal(size=n)
    for t in range(T):
        asked = [Asked(names[i], (t + 1) * STEP, 0.0, 0.5, 0.5, float(said[i]), 0.0, 1.0) for i in range(n)]
        began = time.process_time()
        answers = layer.step(t * STEP, asked)
        cost.append(time.process_time() - began)
        assert len(answers) == n
        said = 0.4 * np.roll(said, 1) + 0.9 * rng.normal(size=n)
    return layer, cost


def size(state: object) -> int:
    """Bytes of all arrays of a state."""
    if isinstance(state, dict):
        return sum(size(part) for part in state.values())
    return state.nbytes if isinstance(state, np.ndarray) else 0


def test_corrections_a_second() -> None:
    """At least 5,000 a second on one core, learning included, and no slower at step 400 than at step 200."""
    layer, cost = steps(1000, 400, seed=1)
    rates = [1000 * len(part) / sum(part) for part in np.array_split(np.array(cost[1:]), 8)]
    print("\n1,000 stations x 16 sources: corrections a second by eighths of 400 steps:", [round(r) for r in rates])
    print("slowest step:", round(max(cost[200:]) * 1e3), "ms;", "state:", size(layer.state()) // 2**20, "MiB")
    assert min(rates[3:]) >= 5000
    assert rates[-1] > 0.8 * rates[4]


def test_memory_is_linear_in_stations() -> None:
    sizes = [size(steps(n, 30, seed=2)[0].state()) for n in (250, 500, 1000)]
    print("\nbytes of state a station:", [s // n for s, n in zip(sizes, (250, 500, 1000), strict=True)])
    assert sizes[2] == pytest.approx(4 * sizes[0], rel=0.02)


def test_one_query_at_a_time() -> None:
    """A small network pays for each step's overhead: the rate of single calls, printed beside the batch."""
    _, cost = steps(12, 800, seed=3)
    print("\n12 stations:", round(12 * 400 / sum(cost[400:])), "corrections a second, a step in", end=" ")
    print(round(1e3 * float(np.median(cost[400:])), 2), "ms")
    assert np.median(cost[400:]) < 0.02
