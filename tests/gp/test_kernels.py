"""Compiled kernels against scikit-learn's own values and gradients, over a grid of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from streamgp.gp.distances import squared_distances, weighted_squares
from streamgp.gp.kernels import ActiveDims, SpectralMixture, compile_kernel
from tests.tolerances import FACTORED, REORDERED

D = 3


class Triangle(sk.StationaryKernelMixin, sk.NormalizedKernelMixin, sk.Kernel):
    """A kernel of a user's own that no fast path knows: compact support, one length-scale."""

    def __init__(self, length_scale: float = 1.0, length_scale_bounds: Any = (1e-5, 1e5)) -> None:
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds

    @property
    def hyperparameter_length_scale(self) -> Any:
        return sk.Hyperparameter("length_scale", "numeric", self.length_scale_bounds)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        other = X if Y is None else Y
        r = np.prod(np.maximum(0.0, 1.0 - np.abs(X[:, None] - other[None]) / self.length_scale), axis=-1)
        if not eval_gradient:
            return r
        parts = np.abs(X[:, None] - other[None]) / self.length_scale
        hat = np.maximum(0.0, 1.0 - parts)
        slope = sum(
            np.where(hat[..., c] > 0, parts[..., c], 0.0) * np.prod(np.delete(hat, c, axis=-1), axis=-1)
            for c in range(D)
        )
        return r, slope[..., None]


ARD = [0.7, 1.3, 2.0]
SM = SpectralMixture(
    weights=[0.7, 0.4], frequencies=[0.3, 0.1, 0.2, 0.9, 0.5, 0.05], length_scales=[1.0, 2.0, 3.0, 2.5, 0.8, 1.2]
)
KERNELS: dict[str, Any] = {
    "rbf": sk.RBF(0.8),
    "rbf_ard": sk.RBF(ARD),
    "rbf_fixed": sk.RBF(ARD, length_scale_bounds="fixed"),
    "matern12": sk.Matern(ARD, nu=0.5),
    "matern12_iso": sk.Matern(0.9, nu=0.5),
    "matern32": sk.Matern(ARD, nu=1.5),
    "matern52": sk.Matern(ARD, nu=2.5),
    "matern52_iso": sk.Matern(1.4, nu=2.5),
    "matern_inf": sk.Matern(ARD, nu=np.inf),
    "matern_07": sk.Matern(1.1, nu=0.7),
    "matern_22_ard": sk.Matern(ARD, nu=2.2),
    "rational": sk.RationalQuadratic(1.2, 0.6),
    "rational_alpha_fixed": sk.RationalQuadratic(1.2, 0.6, alpha_bounds="fixed"),
    "periodic": sk.ExpSineSquared(1.3, 2.1),
    "periodic_period_fixed": sk.ExpSineSquared(1.3, 2.1, periodicity_bounds="fixed"),
    "linear": sk.DotProduct(0.5),
    "power": sk.DotProduct(0.5) ** 2,
    "constant_times": 2.5 * sk.RBF(ARD),
    "times_constant": sk.RBF(ARD) * sk.ConstantKernel(2.5),
    "sum": sk.ConstantKernel(0.5) * sk.RBF(ARD) + 0.3 * sk.Matern(1.2, nu=1.5) + sk.WhiteKernel(0.2),
    "white_first": sk.WhiteKernel(0.2) + sk.RBF(0.9),
    "product": sk.RBF(ARD) * sk.ExpSineSquared(1.3, 2.1) * sk.RationalQuadratic(1.0, 0.8),
    "white_in_product": (sk.RBF(1.0) + sk.WhiteKernel(0.3)) * (sk.ConstantKernel(2.0) + sk.WhiteKernel(0.1)),
    "constants": sk.ConstantKernel(2.0) * sk.ConstantKernel(3.0) + sk.ConstantKernel(1.0, "fixed"),
    "columns": ActiveDims(sk.RBF([0.5, 0.9]), columns=[2, 0]) + ActiveDims(sk.DotProduct(1.0), columns=[1]),
    "spectral": SM,
    "spectral_part_fixed": SpectralMixture(0.7, [0.3, 0.1, 0.2], [1.0, 2.0, 3.0], frequencies_bounds="fixed"),
    "foreign": Triangle(4.0),
    "foreign_in_sum": 0.7 * Triangle(4.0) + sk.WhiteKernel(0.1),
    "pairwise": sk.PairwiseKernel(gamma=0.4, metric="laplacian"),
}
every_kernel = pytest.mark.parametrize("name", KERNELS)


def rows(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, D))


def slow_gradient(kernel: Any, X: np.ndarray, Y: np.ndarray | None, W: np.ndarray) -> np.ndarray:
    """Central differences of sum(W * K) through scikit-learn's own values."""

    def value(theta: np.ndarray) -> float:
        return float(np.sum(W * kernel.clone_with_theta(theta)(X, Y)))

    theta, h = kernel.theta, 1e-5
    steps = h * np.eye(len(theta))
    return np.array([(value(theta + s) - value(theta - s)) / (2 * h) for s in steps])


@every_kernel
def test_values_are_scikit_learns(name: str) -> None:
    kernel = KERNELS[name]
    k, X, Y = compile_kernel(kernel), rows(9, 1), rows(6, 2)
    X[3] = X[5]
    np.testing.assert_allclose(k(X), kernel(X), rtol=0, atol=REORDERED)
    np.testing.assert_allclose(k(X, Y), kernel(X, Y), rtol=0, atol=REORDERED)
    np.testing.assert_allclose(k.diag(X), kernel.diag(X), rtol=0, atol=REORDERED)
    np.testing.assert_allclose(k.variance(X), np.diag(kernel(X, X.copy())), rtol=0, atol=REORDERED)
    np.testing.assert_allclose(k.variance(X) + k.nugget(X), kernel.diag(X), rtol=0, atol=REORDERED)
    np.testing.assert_allclose(k.theta, kernel.theta, rtol=0, atol=REORDERED)
    np.testing.assert_array_equal(k.bounds, np.reshape(kernel.bounds, (-1, 2)))
    assert k.kernel == kernel


@every_kernel
def test_gradients_are_those_of_the_values(name: str) -> None:
    kernel = KERNELS[name]
    k, X, Y = compile_kernel(kernel), rows(9, 3), rows(6, 4)
    rng = np.random.default_rng(5)
    W, V, w = rng.normal(size=(9, 9)), rng.normal(size=(9, 6)), rng.normal(size=9)
    scale = 1 + np.abs(kernel.theta).sum()
    np.testing.assert_allclose(k.gradient_dot(X, Y, V), slow_gradient(kernel, X, Y, V), atol=1e-7 * scale, rtol=1e-6)
    np.testing.assert_allclose(
        k.gradient_dot(X, None, W), slow_gradient(kernel, X, None, W), atol=1e-7 * scale, rtol=1e-6
    )
    np.testing.assert_allclose(
        k.diag_gradient_dot(X, w), slow_gradient(kernel, X, None, np.diag(w)), atol=1e-7 * scale, rtol=1e-6
    )
    latent = slow_gradient(kernel, X, X.copy(), np.diag(w))
    np.testing.assert_allclose(k.diag_gradient_dot(X, w, nugget=False), latent, atol=1e-7 * scale, rtol=1e-6)
    K, pull = k.vjp(X, Y)
    np.testing.assert_allclose(K, k(X, Y), rtol=0, atol=REORDERED)
    np.testing.assert_allclose(pull(V), k.gradient_dot(X, Y, V), rtol=REORDERED, atol=REORDERED)


@every_kernel
def test_gradients_are_scikit_learns(name: str) -> None:
    kernel = KERNELS[name]
    X = rows(8, 6)
    W = np.random.default_rng(7).normal(size=(8, 8))
    _, G = kernel(X, eval_gradient=True)
    # scikit-learn's own differences (its general Matérn, its pairwise kernels) are good to 1e-5
    np.testing.assert_allclose(
        compile_kernel(kernel).gradient_dot(X, None, W), np.einsum("ij,ijp->p", W, G), rtol=1e-4, atol=1e-5
    )


@every_kernel
def test_a_stack_is_its_parts(name: str) -> None:
    k = compile_kernel(KERNELS[name])
    X, Y = rows(20, 8).reshape(4, 5, D), rows(12, 9).reshape(4, 3, D)
    W, V = np.random.default_rng(1).normal(size=(4, 5, 5)), np.random.default_rng(2).normal(size=(4, 5, 3))
    np.testing.assert_allclose(k(X), [k(x) for x in X], rtol=0, atol=REORDERED)
    np.testing.assert_allclose(k(X, Y), [k(x, y) for x, y in zip(X, Y, strict=True)], rtol=0, atol=REORDERED)
    np.testing.assert_allclose(k.diag(X), [k.diag(x) for x in X], rtol=0, atol=REORDERED)
    together = sum(k.gradient_dot(x, y, v) for x, y, v in zip(X, Y, V, strict=True))
    np.testing.assert_allclose(k.gradient_dot(X, Y, V), together, rtol=1e-9, atol=1e-9)
    together = sum(k.gradient_dot(x, None, w) for x, w in zip(X, W, strict=True))
    np.testing.assert_allclose(k.gradient_dot(X, None, W), together, rtol=1e-9, atol=1e-9)


@every_kernel
def test_with_theta_moves_the_hyperparameters_and_nothing_else(name: str) -> None:
    kernel = KERNELS[name]
    k, X = compile_kernel(kernel), rows(7, 10)
    theta = kernel.theta + 0.1
    moved = k.with_theta(theta)
    np.testing.assert_allclose(moved(X), kernel.clone_with_theta(theta)(X), rtol=0, atol=FACTORED)
    np.testing.assert_array_equal(moved.theta, theta)
    np.testing.assert_array_equal(compile_kernel(moved.kernel)(X), moved(X))
    np.testing.assert_allclose(k.theta, kernel.theta, rtol=0, atol=REORDERED)
    with pytest.raises(ValueError, match="theta has shape"):
        k.with_theta(np.zeros(len(theta) + 1))


@every_kernel
def test_inputs_are_left_alone(name: str) -> None:
    k, X, Y = compile_kernel(KERNELS[name]), rows(5, 11), rows(4, 12)
    X0, Y0, W = X.copy(), Y.copy(), np.ones((5, 4))
    K, pull = k.vjp(X, Y)
    pull(W)
    pull(W)
    k(X)
    np.testing.assert_allclose(K, k(X, Y), rtol=0, atol=REORDERED)
    np.testing.assert_array_equal(X, X0)
    np.testing.assert_array_equal(Y, Y0)
    np.testing.assert_array_equal(W, 1.0)


@pytest.mark.parametrize(
    "kernel", [SM, KERNELS["spectral_part_fixed"], KERNELS["columns"]], ids=["sm", "fixed", "columns"]
)
def test_new_kernels_keep_scikit_learns_contract(kernel: Any) -> None:
    copy = clone(kernel)
    assert copy == kernel
    assert copy is not kernel
    assert len(kernel.theta) == len(kernel.bounds) == kernel.n_dims
    assert repr(kernel).startswith(("SpectralMixture(weights=", "ActiveDims(RBF"))
    X = rows(12, 13)
    y = np.sin(X[:, 0])
    gpr = GaussianProcessRegressor(kernel, alpha=0.1, random_state=0).fit(X, y)
    assert gpr.log_marginal_likelihood_value_ >= gpr.log_marginal_likelihood(kernel.theta) - 1e-9
    with pytest.raises(ValueError, match="Y is None"):
        kernel(X, X, eval_gradient=True)


def test_new_kernels_refuse_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="multiple of 2"):
        SpectralMixture([1.0, 2.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="has 3 columns"):
        SM(np.zeros((2, 2)))
    with pytest.raises(TypeError, match="scikit-learn kernel"):
        compile_kernel("rbf")


def test_precision_is_the_metric_with_which_the_covariance_falls() -> None:
    def precision(kernel: Any) -> Any:
        return compile_kernel(kernel).precision(D)

    np.testing.assert_allclose(precision(KERNELS["constant_times"]), np.array(ARD) ** -2)
    np.testing.assert_allclose(precision(2.0 * sk.RBF(2.0) + sk.WhiteKernel(1.0)), np.full(D, 0.25))
    np.testing.assert_allclose(precision(ActiveDims(sk.RBF([0.5, 2.0]), columns=[2, 0])), [0.25, 0, 4.0])
    for name in ("periodic", "linear", "spectral", "foreign", "product", "columns"):
        assert precision(KERNELS[name]) is None


@pytest.mark.parametrize("d", [1, 2, 3, 9])
@pytest.mark.parametrize("spread", [1.0, 1e5])
def test_distances_are_the_plain_ones(d: int, spread: float) -> None:
    rng = np.random.default_rng(d)
    X, Y = 7 + spread * rng.normal(size=(30, d)), 7 + spread * rng.normal(size=(20, d))
    plain = np.sum((X[:, None] - Y[None]) ** 2, axis=-1)
    np.testing.assert_allclose(squared_distances(X, Y), plain, rtol=1e-11, atol=1e-12)
    own = squared_distances(X, X)
    assert (np.diag(own) == 0).all()
    assert (own >= 0).all()
    np.testing.assert_array_equal(own, own.T)
    W = rng.normal(size=(30, 20))
    slow = np.einsum("ij,ijc->c", W, (X[:, None] - Y[None]) ** 2)
    np.testing.assert_allclose(weighted_squares(W, X, Y), slow, rtol=1e-9)


def test_time_columns_keep_their_digits() -> None:
    """R45: rows far from zero and close together, in units of the length-scale (days since 1970, C23)."""
    t = 20000.0 + np.arange(2000.0)[:, None] / 1440.0
    X = np.hstack([t, np.zeros_like(t), np.ones_like(t)])
    kernel = sk.RBF(1.0 / 1440.0)
    np.testing.assert_allclose(compile_kernel(kernel)(X), kernel(X), rtol=0, atol=FACTORED)
