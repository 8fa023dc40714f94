"""A snapshot is the model to the bit, whatever its kernel is made of, and is refused by name where it is damaged."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from streamgp.errors import CheckpointError, SettingsError
from streamgp.models.experts import CPoERegressor
from tests.models.cpoe.cases import NOISE, make_data
from tests.tolerances import FACTORED

SMOOTH = ConstantKernel(4.0) * RBF([2.0, 5.0])  # exp(log(5)) is not 5; jitter is on


def same(a, b, X):
    for one, two in zip(a.predict(X, return_std=True), b.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(one, two)
    assert a.log_marginal_likelihood_value_ == b.log_marginal_likelihood_value_


@pytest.mark.parametrize("way", ["fit", "partial_fit"])
@pytest.mark.parametrize("settings", [{}, {"max_experts": 3}, {"sparsity": 0.5}])
@pytest.mark.parametrize("kernel", [SMOOTH, DotProduct(3.0) + WhiteKernel(0.3)], ids=["smooth", "linear"])
def test_a_kernel_that_was_given_comes_back_to_the_bit(kernel, settings, way):
    X, y = make_data(90, seed=2)
    model = CPoERegressor(kernel, NOISE, expert_size=20, optimizer=None, random_state=0, **settings)
    getattr(model, way)(X[:70], y[:70])
    twin = CPoERegressor.from_state(model.state())
    same(model, twin, X)
    for t in (70, 73, 82):
        for each in (model, twin):
            each.partial_fit(X[t : t + 3], y[t : t + 3])
        same(model, twin, X)
    if kernel is SMOOTH and "sparsity" not in settings:
        assert model.state()["jitter"] == twin.state()["jitter"] > 0


def test_a_twin_does_not_steady_what_the_model_had_not_steadied():
    """Rows so near one another that only the newest region, still open, is ill conditioned."""
    X, y = make_data(70, seed=3)
    X[60:] = X[60] + 1e-7 * np.arange(10)[:, None]
    model = CPoERegressor(ConstantKernel(1.0) * RBF(0.3), NOISE, expert_size=20, optimizer=None)
    model.partial_fit(X, y)
    twin = CPoERegressor.from_state(model.state())
    assert twin.state()["jitter"] == model.state()["jitter"]
    same(model, twin, X)


def test_a_stream_of_a_smooth_kernel_is_the_batch_with_the_same_partition():
    """Jitter is on, and separators' prior covariances have a condition of 1e8."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (200, 2))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=200)
    model = CPoERegressor(SMOOTH, 0.02, expert_size=40, optimizer=None).partial_fit(X[:188], y[:188])
    model.predict(X)  # from here on, changes follow their paths
    model.partial_fit(X[188:], y[188:])
    got = [v.copy() for v in model.predict(X, return_std=True)]
    engine = model.engine_
    assert engine.posterior is None
    assert engine.learner.model.jitter > 0
    engine._whole()  # from the rows
    for one, two in zip(got, model.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(one, two, atol=FACTORED, rtol=0)


def test_names_of_columns_survive():
    pd = pytest.importorskip("pandas")
    X, y = make_data(30)
    model = CPoERegressor(expert_size=20, optimizer=None).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    twin = CPoERegressor.from_state(model.state())
    assert twin.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        twin.predict(pd.DataFrame(X, columns=["b", "a"]))


def test_every_missing_key_is_said():
    X, y = make_data(30)
    state = CPoERegressor(expert_size=20, optimizer=None).partial_fit(X, y).state()
    for key in state:
        with pytest.raises(CheckpointError, match=key):
            CPoERegressor.from_state({k: v for k, v in state.items() if k != key})
    for bad in (None, [], "state", {}, {**state, "flat_y": "no"}, {**state, "names": ["a"]}, {**state, "stream": "x"}):
        with pytest.raises(CheckpointError):
            CPoERegressor.from_state(bad)


@pytest.mark.parametrize("name", ["noise_variance", "prior", "sparsity", "alpha"])
@pytest.mark.parametrize("value", ["a", [["a", "b"]]])
def test_settings_that_are_no_numbers_are_refused_by_name(name, value):
    with pytest.raises(SettingsError, match=name):
        CPoERegressor(**{name: value}).fit(*make_data(10))
