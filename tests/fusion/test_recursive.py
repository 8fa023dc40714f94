"""Recursive ridge regressions against the textbook form, and what follows from a Gaussian posterior."""

import numpy as np
import pytest

from streamgp.fusion.recursive import RecursiveRidge
from streamgp.fusion.volatility import LogVariance
from tests.dense import weighted_ridge
from tests.tolerances import FACTORED, REORDERED

D, FORGETTING, RIDGE = 6, (0.97, 1.0), np.array([[2.0] * 6, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]])


def data(n: int, *, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, D)) @ (np.eye(D) + 0.4)
    return Z, Z @ np.arange(1.0, D + 1) + rng.normal(size=n), rng.uniform(0.3, 3.0, size=n)


def learned(n: int, *, seed: int, row: int = 0, rows: int = 1, refresh: int = 1) -> RecursiveRidge:
    model = RecursiveRidge(forgetting=FORGETTING, ridge=RIDGE, refresh=refresh)
    model.grow(rows)
    for z, e, a in zip(*data(n, seed=seed), strict=True):
        model.learn(np.array([row]), z[None], np.array([e]), np.array([a]))
    return model


@pytest.mark.parametrize("f", [0, 1])
@pytest.mark.parametrize("r", [0, 1])
def test_equals_the_dense_posterior(f: int, r: int) -> None:
    Z, e, a = data(60, seed=1)
    model = learned(60, seed=1)
    model.rebuild(np.array([0]))
    w, P, A = weighted_ridge(Z, e, a, forgetting=FORGETTING[f], ridge=RIDGE[r])
    np.testing.assert_allclose(model.table["A"][0, f], A, rtol=REORDERED, atol=1e-10)
    np.testing.assert_allclose(model.table["P"][0, f, r], P, rtol=FACTORED, atol=1e-12)
    z = np.arange(1.0, D + 1)
    mean, spread, change = model.predict(np.array([0]), z[None])
    setting = f * len(RIDGE) + r
    assert mean[0, setting] == pytest.approx(float(w @ z), rel=FACTORED)
    assert spread[0, setting] == pytest.approx(float(z @ P @ z), rel=FACTORED)
    for j in range(D):
        rest = np.arange(D) != j
        without, _, _ = weighted_ridge(Z[:, rest], e, a, forgetting=FORGETTING[f], ridge=RIDGE[r][rest])
        assert mean[0, setting] - change[0, setting, j] == pytest.approx(float(without @ z[rest]), rel=1e-6)


@pytest.mark.parametrize("unknown", [(1,), (0, 4), (0, 1, 2, 3, 4, 5)])
def test_integrating_out_is_the_regression_on_the_known_alone(unknown: tuple[int, ...]) -> None:
    Z, e, a = data(80, seed=2)
    model = learned(80, seed=2)
    model.rebuild(np.array([0]))
    known = ~np.isin(np.arange(D), unknown)
    z = np.linspace(-1.0, 2.0, D)
    filled, extra = model.fill(np.array([0]), np.where(known, z, np.nan)[None], known[None], setting=(1, 1))
    w, _, A = weighted_ridge(Z, e, a, forgetting=1.0, ridge=RIDGE[1])
    rest, _, _ = weighted_ridge(Z[:, known], e, a, forgetting=1.0, ridge=RIDGE[1][known])
    assert float(w @ filled[0]) == pytest.approx(float(rest @ z[known]), rel=1e-6, abs=1e-9)
    np.testing.assert_array_equal(filled[0, known], z[known])
    # The variance of w'z is that of the conditional Gaussian with the regularised running moments.
    S = (A + np.diag(RIDGE[1])) / a.sum()
    u, o = ~known, known
    C = S[np.ix_(u, u)] - S[np.ix_(u, o)] @ np.linalg.solve(S[np.ix_(o, o)], S[np.ix_(o, u)]) if o.any() else S
    expected = min(float(w[u] @ C @ w[u]), float(w[u] @ w[u]))
    assert float(extra[0]) == pytest.approx(expected, rel=1e-6)


def test_everything_known_changes_nothing() -> None:
    model = learned(10, seed=3)
    z = np.ones((1, D))
    filled, extra = model.fill(np.array([0]), z, np.ones((1, D), dtype=bool), setting=(0, 0))
    np.testing.assert_array_equal(filled, z)
    assert extra[0] == 0.0


def test_a_row_never_depends_on_who_shares_the_batch() -> None:
    """To the bit: the same rows learned alone and among forty others."""
    n, rows = 40, 41
    rng = np.random.default_rng(4)
    Z, E = rng.normal(size=(n, rows, D)), rng.normal(size=(n, rows))
    together = RecursiveRidge(forgetting=FORGETTING, ridge=RIDGE, refresh=5)
    apart = RecursiveRidge(forgetting=FORGETTING, ridge=RIDGE, refresh=5)
    together.grow(rows)
    apart.grow(rows)
    everyone = np.arange(rows)
    known = rng.uniform(size=(rows, D)) > 0.2
    for z, e in zip(Z, E, strict=True):
        together.learn(everyone, z, e, np.ones(rows))
        for i in reversed(range(rows)):
            apart.learn(everyone[i : i + 1], z[i : i + 1], e[i : i + 1], np.ones(1))
    filled, extra = together.fill(everyone, Z[0], known, setting=(1, 0))
    batch = together.predict(everyone, filled)
    for i in everyone:
        one, more = apart.fill(everyone[i : i + 1], Z[0, i : i + 1], known[i : i + 1], setting=(1, 0))
        assert more[0] == extra[i]
        for whole, part in zip(batch, apart.predict(everyone[i : i + 1], one), strict=True):
            np.testing.assert_array_equal(part[0], whole[i])


def test_forgetting_leaves_the_prior_in_place() -> None:
    """No wind-up: without excitation the posterior goes back to the prior, and never beyond it."""
    model = learned(30, seed=5)
    for _ in range(2000):
        model.learn(np.array([0]), np.zeros((1, D)), np.zeros(1), np.ones(1))
    np.testing.assert_allclose(model.table["P"][0, 0, 1], np.diag(1.0 / RIDGE[1]), rtol=1e-9, atol=1e-20)
    np.testing.assert_allclose(model.table["w"][0, 0], 0.0, atol=1e-20)


def test_the_schedule_rebuilds_at_least_every_refresh_steps() -> None:
    model = learned(300, seed=6, refresh=7)
    assert model.table["stale"][0] < 7


def test_log_variance_follows_what_drives_it() -> None:
    """Errors whose variance is exp(1 + 0.8 x): the model finds both, and is calibrated."""
    rng = np.random.default_rng(8)
    model = LogVariance(ridge=np.full(2, 1.0), prior=np.zeros(2), forgetting=1.0, refresh=5)
    model.grow(1)
    row = np.array([0])
    ratios = []
    for _ in range(4000):
        x = np.array([[1.0, rng.normal()]])
        r2 = float(rng.normal() ** 2 * np.exp(1.0 + 0.8 * x[0, 1]))
        ratios.append(r2 / float(model.predict(row, x)[0]))
        model.learn(row, x, np.array([r2]))
    at = np.log(model.predict(np.array([0, 0]), np.array([[1.0, 0.0], [1.0, 1.0]])))
    np.testing.assert_allclose(at, [1.0, 1.8], atol=0.12)
    assert np.mean(ratios[1000:]) == pytest.approx(1.0, abs=0.1)
