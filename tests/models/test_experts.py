"""CPoERegressor keeps scikit-learn's contract, and gives right answers or clear errors at the edges."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.utils.estimator_checks import check_estimator

import streamgp
from streamgp.models.experts import CPoERegressor

KERNEL = ConstantKernel(1.0) * Matern(1.0, nu=1.5)


def wave(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("settings", [{"max_iter": 2}, pytest.param({}, marks=pytest.mark.bench)])
def test_scikit_learns_own_checks(settings):
    """With few iterations in every run of the tests; as it comes by ``pytest -m bench`` (some fifty longer fits)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Skipping check")
        check_estimator(CPoERegressor(**settings), on_skip=None)


def test_the_front_door():
    assert streamgp.CPoERegressor is CPoERegressor
    assert clone(CPoERegressor(kernel=KERNEL, sparsity=0.5)).sparsity == 0.5


def test_nothing_is_known_before_fit():
    with pytest.raises(NotFittedError):
        CPoERegressor().predict([[0.0]])
    assert not hasattr(CPoERegressor(), "experts_")


@pytest.mark.parametrize(
    ("setting", "value", "word"),
    [
        ("sparsity", 0.0, "sparsity"),
        ("sparsity", 1.5, "sparsity"),
        ("correlation", 0, "correlation"),
        ("expert_size", 2.5, "expert_size"),
        ("noise_variance", 0.0, "noise_variance"),
        ("approximation", "magic", "fitc"),
        ("predecessors", "any", "clique"),
        ("optimizer", "sgd", "lbfgs"),
        ("alpha", 0.0, "alpha"),
        ("prior", [[0.0, 1.0]], "prior"),
        ("kernel", "rbf", "kernel"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_named(setting, value, word):
    X, y = wave(20)
    with pytest.raises((ValueError, TypeError), match=word):
        CPoERegressor(**{"kernel": KERNEL, setting: value}).fit(X, y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_by_name(bad):
    X, y = wave(20)
    X[3, 1] = bad
    with pytest.raises(ValueError, match="X contains"):
        CPoERegressor(kernel=KERNEL).fit(X, y)
    X[3, 1], y[4] = 0.0, bad
    with pytest.raises(ValueError, match="y contains"):
        CPoERegressor(kernel=KERNEL).fit(X, y)


@pytest.mark.parametrize("predecessors", ["clique", "nearest"])
def test_duplicated_rows_are_the_full_gp_of_those_rows(predecessors):
    """C25: the same row many times over, within experts and across them."""
    X, y = wave(40)
    X, y = np.repeat(X, 5, axis=0), np.repeat(y, 5) + 0.1 * np.random.default_rng(1).standard_normal(200)
    full = GaussianProcessRegressor(KERNEL, alpha=0.01, optimizer=None).fit(X, y)
    model = CPoERegressor(
        KERNEL, 0.01, n_experts=4, correlation=4, optimizer=None, predecessors=predecessors, random_state=0
    ).fit(X, y)
    Xs, _ = wave(30, seed=2)
    mean, std = full.predict(Xs, return_std=True)
    got, got_std = model.predict(Xs, return_std=True, latent=True)
    np.testing.assert_allclose(got, mean, atol=1e-5)
    np.testing.assert_allclose(got_std, std, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["lbfgs", "adam", None])
def test_constant_targets(optimizer):
    X, _ = wave(60)
    for value in (0.0, 3.0):
        mean, std = (
            CPoERegressor(expert_size=20, optimizer=optimizer, random_state=0)
            .fit(X, np.full(60, value))
            .predict(X, return_std=True)
        )
        assert np.isfinite(std).all()
        np.testing.assert_allclose(mean, value, atol={"lbfgs": 0.05, "adam": 0.3, None: 0.6}[optimizer])


def test_one_row_and_fewer_rows_than_an_expert():
    model = CPoERegressor(KERNEL, 0.5, optimizer=None).fit([[0.5, 0.5]], [2.0])
    mean, std = model.predict([[0.5, 0.5]], return_std=True, latent=True)
    np.testing.assert_allclose(mean, 2.0 / 1.5)
    np.testing.assert_allclose(std**2, 1.0 - 1.0 / 1.5)
    X, y = wave(7)
    model = CPoERegressor(KERNEL, 0.1, n_experts=50, correlation=9, optimizer=None).fit(X, y)
    assert len(model.experts_) == 7
    exact = GaussianProcessRegressor(KERNEL, alpha=0.1, optimizer=None).fit(X, y)
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-9)


def test_twenty_one_columns_of_which_some_never_vary():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 21))
    X[:, 5:9] = 4.0
    y = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.05 * rng.standard_normal(300)
    model = CPoERegressor(expert_size=64, random_state=0).fit(X[:250], y[:250])
    assert np.sqrt(np.mean((model.predict(X[250:]) - y[250:]) ** 2)) < 0.5 * np.std(y)


@pytest.mark.parametrize("scale", [1e9, 1e-9])
def test_targets_of_any_size(scale):
    """The same forecasts in other units."""
    X, y = wave(200)
    Xs, _ = wave(40, seed=5)
    base = CPoERegressor(expert_size=50, random_state=0).fit(X, y)
    other = CPoERegressor(expert_size=50, random_state=0).fit(X, y * scale)
    mean, std = base.predict(Xs, return_std=True)
    got, got_std = other.predict(Xs, return_std=True)
    np.testing.assert_allclose(got / scale, mean, atol=0.02)
    np.testing.assert_allclose(got_std / scale, std, rtol=0.1)


def test_float32_and_integers_are_the_same_numbers_in_double():
    X, y = wave(50)
    X32, y32 = np.round(X, 1).astype(np.float32), np.round(y, 2).astype(np.float32)
    a = CPoERegressor(KERNEL, 0.1, expert_size=20, optimizer=None, random_state=0).fit(X32, y32)
    b = CPoERegressor(KERNEL, 0.1, expert_size=20, optimizer=None, random_state=0).fit(
        X32.astype(float), y32.astype(float)
    )
    assert a.predict(X32).dtype == np.float64
    np.testing.assert_array_equal(a.predict(X32), b.predict(X32.astype(float)))
    whole = np.arange(30).reshape(-1, 1)
    c = CPoERegressor(KERNEL, 0.1, expert_size=8, optimizer=None, random_state=0).fit(whole, whole[:, 0] % 3)
    d = CPoERegressor(KERNEL, 0.1, expert_size=8, optimizer=None, random_state=0).fit(
        whole * 1.0, whole[:, 0] % 3 * 1.0
    )
    np.testing.assert_array_equal(c.predict(whole), d.predict(whole * 1.0))


def test_inputs_are_not_changed_and_the_seed_decides():
    X, y = wave(120)
    X0, y0 = X.copy(), y.copy()
    runs = [CPoERegressor(expert_size=30, sparsity=0.5, random_state=7).fit(X, y).predict(X) for _ in range(2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(X, X0)
    np.testing.assert_array_equal(y, y0)


def test_several_outputs_are_independent_columns():
    X, y = wave(90)
    Y = np.column_stack([y, 2 * y + 1, X[:, 1]])
    settings = {"kernel": KERNEL, "noise_variance": 0.1, "expert_size": 30, "optimizer": None, "random_state": 0}
    together = CPoERegressor(**settings).fit(X, Y)
    mean, std = together.predict(X[:9], return_std=True)
    assert mean.shape == std.shape == (9, 3)
    for c in range(3):
        alone, alone_std = CPoERegressor(**settings).fit(X, Y[:, c]).predict(X[:9], return_std=True)
        np.testing.assert_allclose(mean[:, c], alone, atol=1e-10)
        np.testing.assert_allclose(std[:, c], alone_std, atol=1e-10)


def test_smooth_kernel_with_little_noise_stays_sound():
    X = np.linspace(0, 1, 400)[:, None]
    y = np.sin(6 * X[:, 0])
    model = CPoERegressor(ConstantKernel(1.0) * RBF(0.5), 1e-8, expert_size=100, optimizer=None).fit(X, y)
    mean, std = model.predict(X + 0.001, return_std=True)
    assert np.all(std > 0)
    assert np.abs(mean - np.sin(6 * (X[:, 0] + 0.001))).max() < 1e-4


@pytest.mark.parametrize("predecessors", ["clique", "nearest", "completed"])
@pytest.mark.parametrize("sparsity", [0.5, 1.0])
def test_matrices_whose_small_eigenvalues_are_rounding_still_give_the_gp(predecessors, sparsity):
    """A smooth kernel on many near inputs: separators are as good as singular, beliefs stay those of the full GP."""
    kernel = ConstantKernel(0.2) * RBF(0.125) + ConstantKernel(1.1) * RBF(0.5)
    rng = np.random.default_rng(6)
    X, Xs = rng.uniform(size=(500, 2)), rng.uniform(size=(80, 2))
    y = np.sin(5 * X.sum(axis=1)) + 0.1 * rng.standard_normal(500)
    full, std = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None).fit(X, y).predict(Xs, return_std=True)
    for C in (3, 5):
        settings = {"correlation": C, "optimizer": None, "random_state": 0, "sparsity": sparsity}
        model = CPoERegressor(kernel, 0.01, n_experts=16, predecessors=predecessors, **settings).fit(X, y)
        mean, got = model.predict(Xs, return_std=True, latent=True)
        assert np.sqrt(np.mean((mean - full) ** 2)) < 0.03
        assert 0.6 < np.median(got / std) < 1.6
        model.partial_fit(Xs, np.sin(5 * Xs.sum(axis=1)))
        assert np.abs(model.predict(Xs) - np.sin(5 * Xs.sum(axis=1))).max() < 0.2


@pytest.mark.parametrize("settings", [{}, {"max_experts": 3}, {"correlation": 3}])
@pytest.mark.parametrize("target", [lambda X: np.full(len(X), 3.0), lambda X: np.sin(X[:, 0]), lambda X: 0.0 * X[:, 0]])
def test_a_stream_without_noise_keeps_its_digits(settings, target):
    """Hyperparameters that follow it make the noise a hundred-millionth: updates are then made again from the rows."""
    X = np.random.default_rng(0).normal(size=(150, 2))
    model = CPoERegressor(expert_size=40, random_state=0, **settings)
    for start in range(0, 150, 50):
        model.partial_fit(X[start : start + 50], target(X[start : start + 50]))
        mean, std = model.predict(X, return_std=True)
        assert np.isfinite(std).all()
    np.testing.assert_allclose(mean, target(X), atol=0.02)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_rows_that_are_all_the_same(learn):
    """C25: nothing but the mean of the targets, and their spread, can be known."""
    y = 0.5 + np.random.default_rng(0).standard_normal(120)
    model = getattr(CPoERegressor(expert_size=40, random_state=0), learn)(np.ones((120, 2)), y)
    mean, std = model.predict(np.ones((1, 2)), return_std=True)
    assert abs(mean[0] - y.mean()) < 0.15
    assert 0.8 < std[0] / y.std() < 1.25
