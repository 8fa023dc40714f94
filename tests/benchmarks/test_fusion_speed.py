"""The cost of the trimmed product against one sort of the same arrays, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from streamgp.fusion import trimmed_poe
from tests.fusion.answers import random_answers


def best_of(work: Callable[[], object], repeats: int = 40) -> float:
    """Least seconds of many runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.bench
def test_fusing_costs_at_most_three_sorts() -> None:
    means, variances = random_answers(0, 100, 1000)
    sort = best_of(lambda: (np.sort(means), np.sort(variances)))
    sort_agents = best_of(lambda: (np.sort(means, axis=0), np.sort(variances, axis=0)))
    fuse = best_of(lambda: trimmed_poe(means, variances, 15))
    print(f"\nsort of the pair {sort * 1e3:.2f} ms (by agent {sort_agents * 1e3:.2f}), fusion {fuse * 1e3:.2f} ms")
    assert fuse <= 3.0 * min(sort, sort_agents)
