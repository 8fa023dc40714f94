"""The cost of a step of the nearest-neighbour GP must not follow the observations behind it. ``make bench``."""

from __future__ import annotations

import time

import numpy as np
import pytest

from streamgp.models.local import EstimatorModel
from streamgp.models.nearest import NearestNeighborGP

pytestmark = pytest.mark.bench

STEPS = 400


def grown(rows: int, rng: np.random.Generator) -> EstimatorModel:
    model = EstimatorModel(NearestNeighborGP(optimizer=None))
    X = rng.normal(size=(rows, 3))
    model.learn(X, np.sin(X.sum(axis=1)))
    return model


def steps(model: EstimatorModel, rng: np.random.Generator) -> float:
    """Seconds of CPU for one row learned and 12 answered, ``STEPS`` times."""
    X, Z = rng.normal(size=(STEPS, 3)), rng.normal(size=(STEPS, 12, 3))
    start = time.process_time()
    for i in range(STEPS):
        model.learn(X[i : i + 1], X[i, :1])
        model.predict(Z[i])
    return time.process_time() - start


def test_learning_and_twelve_answers_at_ten_times_the_rows() -> None:
    """10^5 rows behind it: at most 1.5 times the cost at 10^4; both in turn, the best of five."""
    rng = np.random.default_rng(0)
    small, large = grown(10_000, rng), grown(100_000, rng)
    pairs = [(steps(small, rng), steps(large, rng)) for _ in range(5)]
    at_small, at_large = (min(p[i] for p in pairs) / STEPS * 1e3 for i in (0, 1))
    print(f"\nlearn 1 and answer 12: {at_small:.3f} ms at 10^4, {at_large:.3f} ms at 10^5, {at_large / at_small:.2f} x")
    assert at_large <= 1.5 * at_small
