"""Intervals hold as often as they say, also where the kernel is not the one that made the data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from streamgp import CPoERegressor
from streamgp.gp.amplitude import amplified
from streamgp.gp.kernels import ActiveDims, SpectralMixture, compile_kernel
from streamgp.models.cpoe.calibration import LARGEST, QUANTILE, calibrated, surprises
from streamgp.models.cpoe.options import Options
from streamgp.models.cpoe.recipe import is_calibrated
from tests.tolerances import FACTORED


def rough(n, *, seed=0):
    """A function with kinks, and noise that differs by place: no squared exponential."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    f = np.abs(X[:, 0]) + np.sign(X[:, 1] - 0.3) * np.maximum(0.0, X[:, 0])
    return X, f + (0.02 + 0.1 * (X[:, 0] > 0.5)) * rng.standard_normal(n)


@pytest.mark.parametrize("rule", ["clique", "nearest"])
def test_a_row_left_out_is_predicted_as_by_a_model_without_it(rule):
    """One region: the surprise of a row is that of the full GP on the others."""
    X, y = rough(60)
    kernel, noise = ConstantKernel(0.5) * RBF(0.7), 0.01
    model = CPoERegressor(kernel, noise, n_experts=4, correlation=4, predecessors=rule, optimizer=None, random_state=0)
    model.fit(X, y)
    posterior = model.engine_._whole()
    found = surprises(posterior, np.random.default_rng(0))
    order = np.concatenate([posterior.experts.rows(r)[0] for r in posterior.regions])
    for i in range(0, 60, 7):
        others = ~np.all(order[i] == X, axis=1)
        alone = CPoERegressor(kernel, noise, n_experts=1, optimizer=None).fit(X[others], y[others])
        mean, std = alone.predict(order[i : i + 1], return_std=True)
        np.testing.assert_allclose(found[i], (y[~others] - mean)[0] / std[0], rtol=1e-6, atol=FACTORED)


@pytest.mark.parametrize(("rule", "seed"), [("clique", 0), ("nearest", 1)])
def test_intervals_hold_as_often_as_they_say(rule, seed):
    X, y = rough(5400, seed=seed)
    model = CPoERegressor(n_experts=27, correlation=3, predecessors=rule, random_state=0).fit(X[:2400], y[:2400])
    mean, std = model.predict(X[2400:], return_std=True)
    assert 0.93 <= np.mean(np.abs(y[2400:] - mean) < 1.96 * std) <= 0.97
    z = np.abs(surprises(model.engine_._whole(), np.random.default_rng(0)))
    np.testing.assert_allclose(np.quantile(z, 0.95), QUANTILE, rtol=1e-6)


@pytest.fixture(scope="module")
def state():
    X, y = rough(2100)
    return CPoERegressor(n_experts=12, random_state=0).fit(X, y).state()


def test_calibration_changes_variances_alone_and_they_are_those_of_the_model_that_is_told(state):
    """The same prediction and evidence as a model that was given the hyperparameters that came out."""
    X, y = rough(2100)
    model = CPoERegressor.from_state(state)
    engine = model.engine_
    assert engine.spread != 1.0
    np.testing.assert_allclose(model.noise_variance_, engine.spread * engine.climbed.noise_variance)
    plain = CPoERegressor(model.kernel_, model.noise_variance_, n_experts=12, optimizer=None, n_predict_experts=12)
    given = plain.fit(X, y)
    before = CPoERegressor(
        engine.climbed.kernel.kernel, engine.climbed.noise_variance, n_experts=12, optimizer=None, n_predict_experts=12
    ).fit(X, y)
    Xs = rough(200, seed=5)[0]
    mean, std = model.predict(Xs, return_std=True)
    np.testing.assert_allclose(given.predict(Xs), mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(given.predict(Xs, return_std=True)[1], std, rtol=1e-6)
    np.testing.assert_allclose(before.predict(Xs), mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(before.predict(Xs, return_std=True)[1] * np.sqrt(engine.spread), std, rtol=1e-6)
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, given.log_marginal_likelihood_value_, rtol=1e-9)


def test_a_calibrated_batch_goes_on_and_is_restored_to_the_bit(state):
    X, y = rough(2100)
    model = CPoERegressor.from_state(state)
    fitted = CPoERegressor(n_experts=12, random_state=0).fit(X, y)
    assert model.engine_.spread != 1.0
    for _ in range(2):
        for a, b in zip(model.predict(X[:50], return_std=True), fitted.predict(X[:50], return_std=True), strict=True):
            np.testing.assert_array_equal(a, b)
        for one in (model, fitted):
            one.partial_fit(*rough(10, seed=7))


@pytest.mark.parametrize(
    ("n", "settings", "calibrated"),
    [
        (2001, {}, True),
        (2001, {"optimizer": "adam"}, True),
        (2000, {}, False),
        (9000, {"optimizer": None}, False),
        (9000, {"max_iter": 0}, False),
        (9000, {"prior": [(0.0, 1.0)] * 4}, False),
        (4000, {"max_iter": 20}, False),
    ],
)
def test_what_is_given_or_asked_for_is_not_touched(n, settings, calibrated):
    assert is_calibrated(Options.of(CPoERegressor(**settings)), np.ones((n, 1))) == calibrated


def test_a_fit_that_explains_everything_is_left_alone():
    """Without noise, rows left out are predicted to rounding: their surprises say nothing."""
    X = np.linspace(0, 1, 300)[:, None]
    model = CPoERegressor(RBF(0.5), 1e-12, n_experts=3, optimizer=None).fit(X, np.sin(3 * X[:, 0]))
    hyper = model.engine_.hyper
    assert calibrated(hyper, model.engine_._whole(), np.random.default_rng(0)) == (hyper, 1.0)


@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel(2.0) * RBF([0.5, 1.0]),
        Matern(1.0) * ConstantKernel(2.0) * ConstantKernel(3.0),
        ConstantKernel(2.0) * RBF(0.5) + WhiteKernel(0.1) + ConstantKernel(0.5) * DotProduct(1.0),
        ActiveDims(SpectralMixture([1.0, 0.5], [0.1, 1.0], [10.0, 2.0]), [1]),
    ],
)
def test_a_kernel_times_a_number(kernel):
    X = np.random.default_rng(0).standard_normal((7, 2))
    before = compile_kernel(kernel)
    after = amplified(before, 2.5)
    np.testing.assert_allclose(after(X), 2.5 * before(X), rtol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(1.0),
        ConstantKernel(1.0, "fixed") * RBF(1.0),
        ConstantKernel(1.0) * RBF(1.0) + Matern(1.0),
        ConstantKernel(1.0, (0.5, 1.0 + 0.5 * LARGEST)) * RBF(1.0),
        (ConstantKernel(1.0) * RBF(1.0)) ** 2,
    ],
)
def test_kernels_that_cannot_grow(kernel):
    assert amplified(compile_kernel(kernel), LARGEST) is None
