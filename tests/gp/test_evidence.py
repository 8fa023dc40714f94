"""The evidence and the predictive evidence against formulas and finite differences; searches that go wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from streamgp.gp.evidence import FIRST_STEP, Sample, log_evidence, search
from streamgp.gp.hyperparameters import fit_evidence
from streamgp.gp.kernels import CompiledKernel, compile_kernel
from streamgp.gp.local_evidence import density, predictive

KERNEL = compile_kernel(ConstantKernel(1.3) * RBF([0.7, 1.5]) + WhiteKernel(0.05))


def slope(value, at: np.ndarray) -> np.ndarray:
    h = 1e-5 * np.eye(len(at))
    return np.array([(value(at + s) - value(at - s)) / 2e-5 for s in h])


def at(parameters: np.ndarray) -> tuple[CompiledKernel, float]:
    return KERNEL.with_theta(parameters[:-1]), float(np.exp(parameters[-1]))


def test_evidence_of_places_is_that_of_all_their_observations() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 2))
    rows = np.repeat(np.arange(6), [1, 3, 1, 2, 4, 1])
    y = rng.normal(size=(12, 2))
    counts = np.bincount(rows).astype(float)
    means = np.array([y[rows == i].mean(axis=0) for i in range(6)])
    within = np.array([((y[rows == i] - means[i]) ** 2).sum() for i in range(6)])
    sample = Sample(X, means, counts, within)
    C = KERNEL(X, X.copy())[np.ix_(rows, rows)] + (0.2 + 0.05) * np.eye(12)
    truth = sum(multivariate_normal(np.zeros(12), C).logpdf(y[:, q]) for q in range(2))
    value, gradient = log_evidence(KERNEL, 0.2, sample)
    assert value == pytest.approx(truth, rel=1e-10)
    here = np.append(KERNEL.theta, np.log(0.2))
    np.testing.assert_allclose(gradient, slope(lambda p: log_evidence(*at(p), sample)[0], here), atol=1e-6)


def test_predictive_gradient() -> None:
    rng = np.random.default_rng(1)
    Z, X, y = rng.normal(size=(5, 2)), rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 2))
    counts, own, target = rng.integers(1, 4, size=(5, 4)) * 1.0, np.arange(1.0, 6.0), rng.normal(size=(5, 2))

    def value(p: np.ndarray) -> float:
        return float(density(predictive(*at(p), Z, X, y, counts, own), target).nlpd.sum())

    here = np.append(KERNEL.theta, np.log(0.2))
    now = predictive(*at(here), Z, X, y, counts, own)
    d = density(now, target)
    np.testing.assert_allclose(now.gradient(d.by_variance, d.by_mean), slope(value, here), atol=1e-6)
    tight = density(now, target + 100.0, limit=4.0)
    assert (tight.held < tight.nlpd).all()
    assert np.isfinite(now.gradient(tight.by_variance, tight.by_mean)).all()


def test_a_start_without_a_value_is_given_up_and_failure_keeps_the_old() -> None:
    """R52: NaN at a start; the search goes on without it, and says so where nothing is left."""

    def half_nan(p: np.ndarray) -> tuple[float, np.ndarray]:
        return (np.nan, p) if p[0] > 5 else (float((p[0] - 1) ** 2), 2 * (p - 1))

    box = np.array([[-9.0, 9.0]])
    found = search(half_nan, [np.array([8.0]), np.array([-3.0])], box)
    assert found.parameters[0] == pytest.approx(1.0)
    assert found.discarded >= 1
    lost = search(lambda p: (np.nan, p), [np.array([8.0]), np.array([7.0])], box)
    assert lost.parameters[0] == 8.0
    assert not lost.converged


def test_a_steep_start_is_left_by_a_small_step() -> None:
    """Between wide bounds the whole gradient as a first step ends where the objective is flat or no number."""
    seen: list[np.ndarray] = []

    def steep(p: np.ndarray) -> tuple[float, np.ndarray]:
        seen.append(p.copy())
        return 1e4 * float(np.sum(np.log1p(p * p))), 2e4 * p / (1 + p * p)

    box = np.array([[-46.0, 46.0], [-46.0, 46.0]])
    found = search(steep, [np.array([1.0, 3.0])], box)
    steps = np.linalg.norm(np.diff(seen[1:], axis=0), axis=1)
    assert steps[steps > 0][0] < FIRST_STEP + 1e-9
    np.testing.assert_allclose(found.parameters, 0.0, atol=1e-6)
    np.testing.assert_allclose(found.value, steep(found.parameters)[0], atol=1e-8)


def test_a_fit_finds_the_noise_and_leaves_nothing_to_fit_alone() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 10, size=(150, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=150)
    fit = fit_evidence(compile_kernel(ConstantKernel(1.0) * RBF(5.0)), 1.0, Sample.of(X, y))
    assert fit.converged
    assert fit.noise_variance == pytest.approx(0.09, rel=0.3)
    kernel = compile_kernel(RBF(2.0))
    none = fit_evidence(kernel, 0.1, Sample.of(X, np.zeros(150)))
    assert none.kernel is kernel
    assert not none.converged
