"""Hyperparameters that follow a stream, and batches that must not lead them astray."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.utils.estimator_checks import check_estimator

from streamgp.models.nearest import NearestNeighborGP


def test_scikit_learns_own_checks() -> None:
    check_estimator(NearestNeighborGP(n_neighbors=8, optimizer=None), on_skip=None)


def test_noise_is_followed_and_garbage_is_not() -> None:
    """C32's steady state: ten times the noise is found again; eight absurd targets change next to nothing."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(1400, 1))
    sd = np.where(np.arange(1400) < 500, 0.1, 0.6)
    y = np.sin(2 * X[:, 0]) + sd * rng.normal(size=1400)
    model = NearestNeighborGP(ConstantKernel() * RBF(), n_neighbors=12, max_points=400)
    model.partial_fit(X[:500], y[:500])
    quiet = model.noise_variance_
    model.partial_fit(X[500:510], np.full(10, 50.0))
    garbage = model.noise_variance_
    model.partial_fit(X[510:], y[510:])
    assert 0.005 < quiet < 0.02
    assert garbage < 1.5 * quiet
    assert 0.2 < model.noise_variance_ < 0.6
