"""Numbers of any size: data's own scales, what is refused by name, and variances that rounding must not turn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from streamgp import CPoERegressor
from streamgp.errors import SettingsError
from streamgp.gp.kernels import ActiveDims
from streamgp.models.cpoe.aggregate import local_prediction
from streamgp.models.rows import LARGEST


def wave(n=40, d=2):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, d))
    return X, np.sin(5 * X[:, 0]) + 0.1 * rng.standard_normal(n)


def learned(how, X, y, **settings):
    model = CPoERegressor(random_state=0, **settings)
    return getattr(model, how)(X, y)


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize("unit", [2.0**-300, 2.0**-40, 2.0**40, 2.0**300])
def test_the_unit_of_y_changes_nothing_but_the_unit(how, unit):
    X, y = wave()
    one, other = learned(how, X, y, expert_size=20), learned(how, X, unit * y, expert_size=20)
    (mean, std), (mean_in, std_in) = (m.predict(X[:9], return_std=True) for m in (one, other))
    np.testing.assert_allclose(mean_in / unit, mean, rtol=0.02, atol=0.02)
    np.testing.assert_allclose(std_in / unit, std, rtol=0.05)


@pytest.mark.parametrize("settings", [{"sparsity": 0.5, "approximation": a} for a in ("fitc", "vfe", "pep")])
@pytest.mark.parametrize("unit", [2.0**-300, 2.0**300])
def test_the_unit_of_y_in_every_projection(settings, unit):
    X, y = wave()
    one = learned("fit", X, y, n_experts=4, max_iter=4, **settings)
    other = learned("fit", X, unit * y, n_experts=4, max_iter=4, **settings)
    np.testing.assert_allclose(other.predict(X[:9]) / unit, one.predict(X[:9]), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_a_constant_far_from_zero_is_found_and_known_to_one_part_in_ten_thousand(how):
    """The prior mean is zero and noise at least 1e-4 of the targets' size: subtract what is constant beforehand."""
    X, y = wave()
    mean, std = learned(how, X, y + 1e13).predict(X, return_std=True)
    np.testing.assert_allclose(mean, 1e13, rtol=1e-4)
    assert (std < 1e-3 * 1e13).all()


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize("rule", ["clique", "nearest"])
@pytest.mark.parametrize("optimizer", [None, "lbfgs", "adam"])
@pytest.mark.parametrize("sparsity", [1.0, 0.5])
def test_white_noise_alone_says_that_there_is_no_function(how, rule, optimizer, sparsity):
    X, y = wave()
    settings = {"predecessors": rule, "optimizer": optimizer, "sparsity": sparsity, "max_iter": 3}
    model = learned(how, X, y, kernel=WhiteKernel(0.2), expert_size=8, correlation=3, **settings)
    for latent, variance in ((True, 0.0), (False, model.kernel_.noise_level + model.noise_variance_)):
        mean, std = model.predict(X, return_std=True, latent=latent)
        _, cov = model.predict(X[:3], return_cov=True, latent=latent)
        np.testing.assert_array_equal(mean, 0.0)
        np.testing.assert_allclose(std, np.sqrt(variance))
        np.testing.assert_allclose(cov, variance * np.eye(3))


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize("n", [1, 40])
@pytest.mark.parametrize("tiny", [0.0, 1e-200])
def test_zeros_leave_the_prior_as_uncertain_as_it_was(how, n, tiny):
    X, _ = wave()
    model = learned(how, X[:n], np.full(n, tiny))
    mean, std = model.predict([[0.5, 0.5], [50.0, 50.0]], return_std=True)
    np.testing.assert_allclose(mean, 0.0, atol=1e-150)
    assert std[0] > 0.3
    np.testing.assert_allclose(std[1], np.sqrt(1.1))


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize("largest", [1e101, 1e160, 1e308])
def test_what_has_no_square_is_refused_by_name(how, largest):
    X, y = wave()
    with pytest.raises(ValueError, match="y contains"):
        learned(how, X, y * largest / np.abs(y).max())
    with pytest.raises(ValueError, match="X contains"):
        learned(how, X * largest / X.max(), y)


def test_a_refused_row_of_a_stream_changes_nothing():
    X, y = wave()
    model = learned("partial_fit", X, y, optimizer=None)
    before = model.predict(X)
    with pytest.raises(ValueError, match="X contains"):
        model.partial_fit(np.vstack([X[:1], [[0.0, -1e200]]]), y[:2])
    assert model.n_observations_ == 40
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize("far", [LARGEST * 1.01, 1e200, -1e308])
def test_far_points_get_the_prior(how, far):
    X, y = wave()
    model = learned(how, X, y, kernel=RBF([0.5, 0.5]), optimizer=None, expert_size=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean, std = model.predict([[0.5, far], [0.5, 0.5]], return_std=True, latent=True)
        joint = model.predict([[0.5, far], [0.5, 0.5]], return_cov=True, latent=True)[1]
    assert (mean[0], std[0]) == (0.0, 1.0)
    np.testing.assert_allclose(joint[0], [1.0, 0.0])
    np.testing.assert_allclose(mean[1:], model.predict([[0.5, 0.5]]), rtol=1e-9)


def test_far_points_of_a_kernel_without_a_distance_are_refused():
    X, y = wave()
    model = learned("fit", X, y, kernel=DotProduct(), optimizer=None)
    with pytest.raises(ValueError, match="X contains 1e\\+200"):
        model.predict([[1e200, 0.0]])


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (RBF([1.0, 1.0, 1.0]), "3 length-scales, X has 2 columns"),
        (ConstantKernel() * Matern([1.0] * 5), "5 length-scales, X has 2 columns"),
        (ActiveDims(RBF(1.0), [2]), r"columns \[2\], X has 2"),
    ],
)
def test_a_kernel_for_other_columns_is_refused_by_name(how, kernel, words):
    X, y = wave()
    with pytest.raises(SettingsError, match=words):
        learned(how, X, y, kernel=kernel)


def test_three_length_scales_do_not_spread_over_one_column():
    X, y = wave(d=1)
    with pytest.raises(SettingsError, match="3 length-scales, X has 1 columns"):
        learned("fit", X, y, kernel=RBF([1.0, 1.0, 1.0]))


@pytest.mark.parametrize(("d", "length", "noise"), [(4, 3.0, 1e-12), (2, 30.0, 1e-12), (2, 3.0, 1e-8)])
@pytest.mark.parametrize("C", [3, 5])
def test_smooth_kernels_under_the_nearest_rule_have_no_negative_variance(d, length, noise, C):
    """What is left of the prior and what the posterior adds are both sums of squares, whatever rounding does."""
    rng = np.random.default_rng([0, d, C, 12])
    X = rng.uniform(size=(120, d))
    y = np.sin(3 * X[:, 0])
    model = CPoERegressor(
        RBF(length), noise, n_experts=12, correlation=C, predecessors="nearest", optimizer=None, random_state=0
    ).fit(X, y)
    engine = model.engine_
    posterior, points = engine._whole(), rng.uniform(-0.2, 1.2, size=(50, d))
    for c, region in enumerate(posterior.regions):
        k = engine.hyper.kernel(points, posterior.experts.inducing(region))
        left = 1.0 - posterior.belief(c).explained(k)
        assert left.min() > -1e-11
        local_prediction(k, posterior.belief(c), np.ones(50))
