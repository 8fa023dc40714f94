"""The cost of every rule of the family against one sort of the same arrays, in one run."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np
import pytest

from streamgp.fusion import (
    bcm,
    calibrated_poe,
    covariance_intersection,
    geometric_median,
    gpoe,
    grbcm,
    krum,
    mean_of_experts,
    median_of_experts,
    min_variance,
    product_of_experts,
    rbcm,
    trimmed_poe,
)
from tests.fusion.answers import random_answers

PRIOR = 30.0
SORTS = 3.0  # what a rule that looks at every answer a fixed number of times may cost
RULES: dict[str, Callable[..., object]] = {
    "trimmed product, (6) and (7)": functools.partial(trimmed_poe, n_trim=15),
    "product": product_of_experts,
    "product, correlated": functools.partial(product_of_experts, rho=0.3),
    "gPoE": gpoe,
    "gPoE, entropy": functools.partial(gpoe, prior_variance=PRIOR),
    "BCM": functools.partial(bcm, prior_variance=PRIOR),
    "rBCM": functools.partial(rbcm, prior_variance=PRIOR),
    "GRBCM": grbcm,
    "minimum variance": min_variance,
    "covariance intersection": covariance_intersection,
    "covariance intersection, Def. 10": functools.partial(covariance_intersection, prior_variance=PRIOR, sharpness=9.0),
    "mean": mean_of_experts,
    "median": median_of_experts,
}
DEARER: dict[str, tuple[float, Callable[..., object]]] = {  # and what they may cost
    "by records": (15.0, functools.partial(calibrated_poe, n_trim=15)),
    "geometric median": (100.0, geometric_median),
    "Krum": (100.0, functools.partial(krum, n_byzantine=15)),
}


def best_of(work: Callable[[], object], repeats: int = 30) -> float:
    """Least seconds of this thread's own work in many runs: what others do meanwhile does not count."""
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)


@pytest.mark.bench
def test_fusing_costs_at_most_three_sorts() -> None:
    means, variances = random_answers(0, 100, 1000)
    sort = min(
        best_of(lambda: (np.sort(means), np.sort(variances)), 60),
        best_of(lambda: (np.sort(means, axis=0), np.sort(variances, axis=0)), 60),
    )
    print(f"\n100 agents, 1,000 points; one sort of the pair takes {sort * 1e3:.2f} ms. In such sorts:")
    limits = {**{name: (SORTS, rule) for name, rule in RULES.items()}, **DEARER}
    costs = {}
    for name, (_, rule) in limits.items():
        costs[name] = best_of(functools.partial(rule, means, variances), 30 if name in RULES else 5) / sort
        print(f"  {name:34s}{costs[name]:7.2f}")
    assert {name: cost for name, cost in costs.items() if cost > limits[name][0]} == {}
