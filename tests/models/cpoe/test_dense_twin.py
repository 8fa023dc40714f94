"""Posterior, evidence and prediction are the propositions written out with full matrices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from streamgp.models.experts import CPoERegressor
from tests.models.cpoe.cases import KERNELS, NOISE, make_data, twin
from tests.tolerances import FACTORED

APPROXIMATIONS = ("fitc", "vfe", "dtc", "pitc", "pep", "pep_block")


def fitted(X, y, **settings):
    return CPoERegressor(noise_variance=NOISE, optimizer=None, random_state=3, **settings).fit(X, y)


def assert_equals_twin(model, X, y, seed=9):
    dense = twin(model, X, y)
    Xs, _ = make_data(20, d=X.shape[1], seed=seed)
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, dense.log_evidence, rtol=FACTORED)
    mean, variance = dense.predict(Xs)
    got, std = model.predict(Xs, return_std=True, latent=True)
    np.testing.assert_allclose(got.reshape(mean.shape), mean, rtol=FACTORED, atol=FACTORED)
    np.testing.assert_allclose(std.reshape(len(Xs), -1)[:, 0] ** 2, variance, rtol=FACTORED, atol=FACTORED)
    means, variances, _ = model.predict_regions(Xs)
    for region, j in enumerate(range(dense.C - 1, len(dense.A))):
        m, v = dense.region(Xs, j)
        np.testing.assert_allclose(means[region], m, rtol=FACTORED, atol=FACTORED)
        np.testing.assert_allclose(variances[region], np.diag(v), rtol=FACTORED, atol=FACTORED)


@pytest.mark.parametrize(
    ("rule", "C", "gamma"), [*itertools.product(("clique", "nearest", "completed"), (1, 2, 3, 5, 9), (1.0, 0.55))]
)
def test_every_rule_correlation_and_sparsity(rule, C, gamma):
    X, y = make_data(95)
    model = fitted(X, y, kernel=KERNELS["matern"], n_experts=9, correlation=C, sparsity=gamma, predecessors=rule)
    assert {len(r) for r in model.experts_} == {10, 11}
    assert_equals_twin(model, X, y)


@pytest.mark.parametrize(("name", "rule", "q"), [*itertools.product(APPROXIMATIONS, ("clique", "nearest"), (1, 2))])
def test_every_line_of_table_5(name, rule, q):
    X, y = make_data(70, q=q, seed=1)
    model = fitted(
        X,
        y,
        kernel=KERNELS["matern"],
        n_experts=7,
        correlation=3,
        sparsity=0.6,
        approximation=name,
        predecessors=rule,
        alpha=0.3,
    )
    assert_equals_twin(model, X, y)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_every_kernel(kernel, gamma):
    X, y = make_data(80, seed=2)
    model = fitted(X, y, kernel=KERNELS[kernel], expert_size=12, correlation=3, sparsity=gamma)
    assert_equals_twin(model, X, y)


def test_white_noise_in_the_kernel_is_observation_noise():
    X, y = make_data(60, seed=4)
    model = fitted(X, y, kernel=KERNELS["matern"] + WhiteKernel(0.03), expert_size=15, correlation=2)
    assert_equals_twin(model, X, y)
    _, with_noise = model.predict(X[:3], return_std=True)
    _, latent = model.predict(X[:3], return_std=True, latent=True)
    np.testing.assert_allclose(with_noise**2 - latent**2, NOISE + 0.03, rtol=FACTORED)


@pytest.mark.parametrize("rule", ["clique", "nearest"])
def test_an_ill_conditioned_kernel_agrees_to_what_its_jitter_allows(rule):
    """A smooth kernel on crowded rows needs jitter; the answer moves by far less than the noise's own
    deviation."""
    X, y = make_data(120, seed=5)
    kernel = ConstantKernel(1.0) * RBF([2.0, 2.5])
    full = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(X, y)
    model = fitted(X, y, kernel=kernel, n_experts=4, correlation=4, predecessors=rule)
    Xs, _ = make_data(30, seed=6)
    mean, std = full.predict(Xs, return_std=True)
    got, got_std = model.predict(Xs, return_std=True, latent=True)
    np.testing.assert_allclose(got, mean, atol=1e-5)
    np.testing.assert_allclose(got_std, std, atol=1e-5)


def test_joint_covariance_has_the_aggregated_variance_and_is_exact_for_the_full_gp():
    X, y = make_data(60, seed=7)
    Xs, _ = make_data(15, seed=8)
    model = fitted(X, y, kernel=KERNELS["matern"], n_experts=6, correlation=2)
    _, cov = model.predict(Xs, return_cov=True, latent=True)
    _, std = model.predict(Xs, return_std=True, latent=True)
    np.testing.assert_allclose(np.diag(cov), std**2, rtol=FACTORED)
    assert np.linalg.eigvalsh(cov).min() > -1e-10
    full = fitted(X, y, kernel=KERNELS["matern"], n_experts=6, correlation=6)
    exact = GaussianProcessRegressor(KERNELS["matern"], alpha=NOISE, optimizer=None).fit(X, y)
    _, cov = full.predict(Xs, return_cov=True, latent=True)
    np.testing.assert_allclose(cov, exact.predict(Xs, return_cov=True)[1], atol=FACTORED)


def test_regions_far_away_change_little():
    """W nearest regions (A.4) stand for all: the sharpened weights of the others are next to nothing."""
    X, y = make_data(400, seed=10)
    Xs, _ = make_data(50, seed=11)
    common = {"kernel": KERNELS["matern"], "expert_size": 20, "correlation": 2}
    everyone = fitted(X, y, n_predict_experts=99, **common).predict(Xs)
    few = fitted(X, y, n_predict_experts=4, **common).predict(Xs)
    assert np.sqrt(np.mean((everyone - few) ** 2)) < 0.02
