"""Answers of random agents, for the tests of the fusion rules."""

from __future__ import annotations

import numpy as np


def random_answers(seed: int, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, m) means and variances without ties."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, m)), rng.gamma(2.0, size=(n, m)) + 0.01


def tied_answers(seed: int, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, m) means and variances of few distinct values, whole answers often equal."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 3, size=(n, m)).astype(float), rng.integers(1, 4, size=(n, m)).astype(float)
