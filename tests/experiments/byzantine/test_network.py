"""The simulated network: its answers against textbook formulas, and its liars."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.experiments.byzantine.liars import draw_liars, lie
from streamgp.experiments.byzantine.network import Prior, dispersions, fit_prior, local_answers
from streamgp.experiments.byzantine.toy import eta, toy_answers
from streamgp.experiments.byzantine.tuning import Network, best_prior, loss_and_gradient
from streamgp.fusion import KINDS, trimmed_poe
from tests.dense import gp_posterior
from tests.tolerances import FACTORED

PRIOR = Prior(2.0, np.array([0.5, 0.8]), 0.1)


def network(n: int = 3, p: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((n, p, 2)), rng.normal(size=(n, p)), rng.random((7, 2))


@pytest.mark.parametrize("k", [1, 5, 39, 40, 60])
def test_answers_are_those_of_the_nearest_rows(k: int) -> None:
    Z, y, Zs = network()
    means, variances = local_answers(Z, y, Zs, PRIOR, n_neighbors=k)
    for i in range(3):
        for j, z in enumerate(Zs):
            distance = (((Z[i] - z) / PRIOR.lengthscale) ** 2).sum(axis=1)
            near = np.argsort(distance)[:k]
            cross = 2.0 * np.exp(-0.5 * distance[near])
            apart = ((Z[i][near][:, None] - Z[i][near][None]) / PRIOR.lengthscale) ** 2
            mean, variance = gp_posterior(
                2.0 * np.exp(-0.5 * apart.sum(axis=2)) + 0.1 * np.eye(len(near)), cross, 2.0, y[i][near]
            )
            assert means[i, j] == pytest.approx(mean, rel=FACTORED)
            assert variances[i, j] == pytest.approx(variance, rel=FACTORED)


def test_dispersion_is_the_largest_distance_to_the_nearest_row() -> None:
    Z, _, Zs = network()
    expected = [max(min(np.linalg.norm(z - row) for row in rows) for z in Zs) for rows in Z]
    np.testing.assert_allclose(dispersions(Z, Zs), expected)


def test_fitted_hyperparameters_know_the_noise() -> None:
    rng = np.random.default_rng(1)
    Z = rng.random((300, 1))
    prior = fit_prior(Z, np.sin(6.0 * Z[:, 0]) + 0.2 * rng.standard_normal(300), seed=0)
    assert prior.noise_variance == pytest.approx(0.04, rel=0.3)


def test_the_toy_function_is_the_papers() -> None:
    assert eta(np.array([0.0]))[0] == pytest.approx(-0.5 * np.sin(-0.5) + 4.0)
    z = 0.7
    expected = (z**3 - 0.5) * np.sin(3 * z - 0.5) + 5 * z**2 * np.sin(12 * z) + 4 * np.cos(2 * z)
    assert eta(np.array([z]))[0] == pytest.approx(expected)
    assert eta(np.array([z]), shift=0.3)[0] == pytest.approx(expected + 5 * z**2 * 0.3)


@pytest.mark.parametrize("k", [1, 3, 8])
def test_the_tuned_error_is_the_trimmed_products_and_its_gradient_is_exact(k: int) -> None:
    rng = np.random.default_rng(3)
    case = Network(rng.random((12, 8, 2)), rng.normal(size=(12, 8)), rng.random((20, 2)), rng.normal(size=20))
    at = np.array([-0.3, 0.4, -2.0, 0.7])
    prior = Prior(1.0, np.exp(at[:2]), float(np.exp(at[2])), level=0.7)
    error, gradient = loss_and_gradient(at, case, n_neighbors=k, n_trim=2)
    fused = trimmed_poe(*local_answers(case.Z, case.y, case.Zs, prior, n_neighbors=k), 2)
    assert error == pytest.approx(float(np.mean((fused.mean - case.truth) ** 2)), rel=FACTORED)
    for j, step in enumerate(1e-6 * np.eye(4)):
        ends = [loss_and_gradient(at + s * step, case, n_neighbors=k, n_trim=2)[0] for s in (1.0, -1.0)]
        assert gradient[j] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-9)
    tuned, least = best_prior([case], prior, n_neighbors=k, n_trim=2, steps=5)
    assert least < error
    assert tuned.signal_variance == 1.0


TOY = Prior(18.0, np.array([0.18]), 0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_liars_change_their_own_rows_alone(kind: str) -> None:
    answers = toy_answers(400, TOY, n_neighbors=1, rng=np.random.default_rng(2))
    liars = draw_liars(40, 6, np.random.default_rng(3))
    M, V = lie(answers.means, answers.variances, liars, kind, query_id="q", seed=1, n_trim=6)
    honest = np.setdiff1d(np.arange(40), liars)
    np.testing.assert_array_equal(M[honest], answers.means[honest])
    np.testing.assert_array_equal(V[honest], answers.variances[honest])
    assert (
        kind == "mimic"
        or not (M[liars] == answers.means[liars]).all()
        or not (V[liars] == answers.variances[liars]).all()
    )
    assert np.isfinite(trimmed_poe(M, V, 6).mean).all()
