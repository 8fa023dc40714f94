"""Small data sets and dense twins of fitted models."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic, WhiteKernel

from streamgp.models.experts import CPoERegressor
from tests.dense import DenseCPoE

KERNELS = {
    "matern": ConstantKernel(1.3) * Matern([0.6, 0.9], nu=1.5),
    "rough": ConstantKernel(0.7) * Matern(0.8, nu=0.5),
    "sum": ConstantKernel(0.5) * Matern(2.0, nu=1.5) + RationalQuadratic(0.3, 0.7),
    "smooth": ConstantKernel(1.0) * RBF([0.11, 0.15]),
}
NOISE = 0.04


def make_data(n: int, *, d: int = 2, q: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """n rows in [0, 3]^d and q noisy waves."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 3, size=(n, d))
    y = np.sin(2.0 * X.sum(axis=1))[:, None] * np.arange(1, q + 1) + 0.2 * rng.standard_normal((n, q))
    return X, y if q > 1 else y[:, 0]


def twin(model: CPoERegressor, X: np.ndarray, y: np.ndarray, *, kernel: object = None) -> DenseCPoE:
    """The dense form of what a model says it has fitted."""
    k = model.kernel_ if kernel is None else kernel
    white = sum(p.noise_level for p in _parts(k) if isinstance(p, WhiteKernel))
    smooth = k.k1 if white else k
    y = y.reshape(len(y), -1)
    rows = model.experts_
    return DenseCPoE(
        smooth,
        model.noise_variance_ + white,
        [X[r] for r in rows],
        [y[r] for r in rows],
        model.inducing_,
        model.predecessors_,
        name=model.approximation,
        alpha=model.alpha,
    )


def _parts(kernel: object) -> list[object]:
    return [kernel.k1, kernel.k2] if hasattr(kernel, "k1") else [kernel]
