"""Hyperparameters cost what the model is worth, and come out right."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern

from streamgp import CPoERegressor
from streamgp.gp.hyperparameters import within_sight
from streamgp.gp.kernels import compile_kernel
from streamgp.models.cpoe.options import Options
from streamgp.models.cpoe.recipe import ALONE, BLOCK, CLIMBS, LEAST_CLIMB, climbs, takes_all, whole_iterations


def test_a_quick_model_does_not_wait_for_a_climb_over_all_rows():
    quick, good = list(climbs(10_000, region=250)), list(climbs(10_000, region=1250))
    assert good == [CLIMBS[0], (10_000, CLIMBS[1][1])]
    assert quick == [(int(8.0 * 10_000 * (250 / 256) ** 2 / 26), ALONE[1])]
    assert list(climbs(10_000, region=50)) == [(LEAST_CLIMB, ALONE[1])]
    for n in (5_000, 50_000, 10**6):
        for region in (64, 256, 1024, 4096):
            done = list(climbs(n, region=region))
            assert all(LEAST_CLIMB <= rows <= n for rows, _ in done)
            least = 1.3 * LEAST_CLIMB * ALONE[1]
            assert sum(1.3 * r * steps for r, steps in done) <= max(least, 8.0 * n * (region / (2 * BLOCK)) ** 2)
    assert list(climbs(10**6, region=512)) == list(CLIMBS)


def test_iterations_on_the_whole_evidence_fall_with_the_rows():
    assert [whole_iterations(n) for n in (10, 799, 800, 4000)] == [100, 100, 20, 20]


def test_the_model_s_own_evidence_is_climbed_where_it_is_worth_it():
    def takes(n, **settings):
        return takes_all(Options.of(CPoERegressor(**settings)), n)

    assert takes(2000)
    assert not takes(2001)
    assert takes(4000, sparsity=0.5)
    assert takes(4000, max_iter=30)
    assert not takes(4001, max_iter=30, sparsity=0.5)


def test_a_column_that_a_subset_cannot_see_gets_its_slope_back():
    kernel = compile_kernel(ConstantKernel(2.0) * RBF([0.1, 50.0, 1e4]) + Matern(1e4) + ExpSineSquared(1e3))
    X = np.random.default_rng(0).standard_normal((500, 3)) * [1.0, 100.0, 1.0]
    near = kernel.with_theta(within_sight(kernel, X, 4.0)).kernel
    assert str(near.k2) == str(kernel.kernel.k2)  # one length for all columns, and periods, have no column of their own
    np.testing.assert_allclose(near.k1.k1.k2.length_scale, [0.1, 50.0, 4.0 * X[:, 2].std()])


def test_many_rows_give_back_the_hyperparameters_that_made_them():
    """A draw of random Fourier features of a squared exponential, 4,500 rows: beyond where all rows are climbed."""
    rng = np.random.default_rng(0)
    lengths, noise = np.array([0.3, 0.8]), 0.04
    X = rng.uniform(0, 3, size=(4500, 2))
    w = rng.standard_normal((400, 2)) / lengths
    f = np.sqrt(2 / 400) * np.cos(X @ w.T + rng.uniform(0, 2 * np.pi, 400)) @ rng.standard_normal(400)
    y = f + np.sqrt(noise) * rng.standard_normal(4500)
    start = ConstantKernel(0.2) * RBF([1.0, 1.0])
    model = CPoERegressor(start, 0.5, expert_size=100, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.noise_variance_, noise, rtol=0.1)
    np.testing.assert_allclose(model.kernel_.k2.length_scale, lengths, rtol=0.2)
