"""Rows that come several times over, targets included, leave hyperparameters where the rows themselves put them."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.models.cpoe.recipe import without_copies
from streamgp.models.experts import CPoERegressor


def truth(X):
    return np.sin(X[:, 0]) + 0.3 * X[:, 1]


def rows(n, *, seed, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    return X, truth(X) + noise * rng.normal(size=n)


@pytest.mark.parametrize("times", [4, 10])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_copies_do_not_drive_a_climb_to_no_noise(seed, times):
    """Without care: an RMSE of 0.9 to 2, the size of the function itself."""
    X, y = rows(50, seed=seed)
    model = CPoERegressor(expert_size=40, random_state=0, max_iter=20)
    model.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    points = np.random.default_rng(9).uniform(-3, 3, (100, 2))
    assert np.sqrt(np.mean((model.predict(points) - truth(points)) ** 2)) < 0.15
    assert 0.003 < model.noise_variance_ < 0.03  # 0.01 is true
    assert model.n_observations_ == 50 * times


def test_only_copies_are_left_out():
    X, y = rows(60, seed=3)
    y = y[:, None]
    same_X, same_y = without_copies(X, y)
    assert same_X is X
    assert same_y is y
    few = np.append(np.arange(60), 5)  # one copy of sixty
    assert len(without_copies(X[few], y[few])[0]) == 61
    twice = np.tile(np.arange(60), 2)
    once_X, once_y = without_copies(X[twice], y[twice])
    np.testing.assert_array_equal(once_X, X)
    np.testing.assert_array_equal(once_y, y)
    other = y[twice].copy()
    other[7] += 1.0  # measured again, with another outcome: those that agree may do so by chance
    assert len(without_copies(X[twice], other)[0]) == 120
