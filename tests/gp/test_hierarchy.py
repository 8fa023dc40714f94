"""The bound of Theorem 1 against finite differences, against the formula itself and against the dense density."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from streamgp.gp.hierarchy.blocks import Layout, softplus, softplus_inverse
from streamgp.gp.hierarchy.bound import FACTORS, Factors, client_moments, solve_local, solve_shared
from streamgp.gp.hierarchy.data import client_data
from streamgp.gp.hierarchy.layers import design
from streamgp.gp.hierarchy.total import log_prior, total_bound
from streamgp.models.hgp.start import start_own, start_shared
from tests.dense import hierarchical_elbo, hierarchical_evidence, hierarchical_parts
from tests.tolerances import FACTORED


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Matrices of a few rows: threads would only wait for each other."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


LAYOUTS = {
    "scalar": (Layout(1, 1, 1, 1), 1),
    "several outputs": (Layout(3, 2, 2, 2), 1),
    "two columns, odd ranks": (Layout(2, 2, 3, 1), 2),
    "no deviation": (Layout(2, 2, 0, 1), 1),
    "no residual": (Layout(2, 1, 1, 0), 1),
    "no global": (Layout(2, 0, 2, 1), 1),
    "noise of their own": (Layout(2, 1, 1, 1, own_noise=True), 1),
}


def problem(layout: Layout, d: int, *, seed: int = 0):
    """Three clients of unequal size with missing outputs, the last without a row, and random blocks."""
    rng = np.random.default_rng(seed)
    Xs = [rng.uniform(-5.0, 5.0, (n, d)) for n in (9, 5, 0)]
    Ys = [rng.standard_normal((len(X), layout.n_outputs)) for X in Xs]
    for Y in Ys:
        Y[rng.random(Y.shape) < 0.2] = np.nan
    data = [client_data(X, Y) for X, Y in zip(Xs, Ys, strict=True)]
    shared = start_shared(np.concatenate(Xs), layout, 4, rng)
    shared["eta_noise"] = softplus_inverse(np.array([0.3]))
    owns = [start_own(X, layout, 3, rng) for X in Xs]
    for own in owns:
        if layout.own_noise:
            own["log_noise"] = rng.standard_normal(1)
    return Xs, Ys, data, shared, owns


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_derivatives_are_those_of_finite_differences(name: str, factors: Factors) -> None:
    layout, d = LAYOUTS[name]
    *_, data, shared, owns = problem(layout, d)
    total = total_bound(data, shared, owns, layout, factors=factors)
    assert total.by_shared is not None
    rng = np.random.default_rng(5)
    for block, gradient in zip([shared, *owns], [total.by_shared, *total.by_own], strict=True):
        for key in block:
            for _ in range(2):
                kept, way, values = block[key], rng.standard_normal(block[key].shape), []
                for step in (1e-5, -1e-5):
                    block[key] = kept + step * way
                    values.append(total_bound(data, shared, owns, layout, factors=factors, gradient=False).value)
                block[key] = kept
                slope = 0.0 if layout.scalar and "loadings" in key else (values[0] - values[1]) / 2e-5
                assert np.sum(gradient[key] * way) == pytest.approx(slope, rel=1e-5, abs=1e-5), key


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_structured_bound_is_the_dense_density_less_the_residual_trace(name: str) -> None:
    layout, d = LAYOUTS[name]
    Xs, Ys, data, shared, owns = problem(layout, d)
    parts = [hierarchical_parts(shared, o, X, period=layout.n_kernels) for X, o in zip(Xs, owns, strict=True)]
    noise = float(softplus(shared["eta_noise"])[0])
    noises = [noise * float(np.exp(o["log_noise"][0])) if "log_noise" in o else noise for o in owns]
    prior = log_prior(shared, layout) + sum(log_prior(o, layout) for o in owns)
    ours = total_bound(data, shared, owns, layout, factors="structured", gradient=False).value - prior
    assert ours == pytest.approx(
        hierarchical_evidence(Ys, parts, noises, n_global=layout.rank_global), rel=FACTORED * 100
    )


def unwhitened(block: dict, at: int, ell: np.ndarray, variance: float) -> np.ndarray:
    """The factor L with u = L v for one latent."""
    Z = block["inducing"] / ell
    K = np.exp(-0.5 * np.square(Z[:, None] - Z).sum(axis=2)) + 1e-6 * np.eye(len(Z))
    return np.sqrt(variance) * np.linalg.cholesky(K)


def test_the_mean_field_bound_is_theorem_1_at_its_factors_and_no_other_factors_do_better() -> None:
    """(19) term by term in the paper's coordinates, with one latent a layer so that (9) is one factor each."""
    layout = Layout(2, 1, 1, 1)
    Xs, Ys, data, shared, owns = problem(layout, 1)
    designs = [design(x, shared, own, layout) for x, own in zip(data, owns, strict=True)]
    locals_ = [solve_local(d, "mean_field") for d in designs]
    q = solve_shared(locals_, 4)
    noise, phi = (float(softplus(shared[k])[0]) for k in ("eta_noise", "eta_phi"))
    parts = [hierarchical_parts(shared, o, X, period=1) for X, o in zip(Xs, owns, strict=True)]
    means, covs = [], []
    for d, local, own in zip(designs, locals_, owns, strict=True):
        m, S = client_moments(d, local, q, "mean_field")
        var_g, var_l = float(softplus(shared["eta_variance"])[0]), float(softplus(own["eta_variance"])[0])
        ell_g, ell_l = softplus(shared["eta_lengthscale"][0]), softplus(own["eta_lengthscale"][0])
        Ls = [
            unwhitened(shared, 0, ell_g, var_g),
            unwhitened(shared, 0, ell_g, phi * var_g),
            unwhitened(own, 0, ell_l, var_l),
        ]
        cuts = (slice(0, 4), slice(4, 8), slice(8, 11))
        means.append([L @ m[c] for L, c in zip(Ls, cuts, strict=True)])
        covs.append([L @ S[c, c] @ L.T for L, c in zip(Ls, cuts, strict=True)])
    best = hierarchical_elbo(Ys, parts, means, covs, noise, n_global=1)
    prior = log_prior(shared, layout) + sum(log_prior(o, layout) for o in owns)
    ours = total_bound(data, shared, owns, layout, factors="mean_field", gradient=False).value - prior
    assert ours == pytest.approx(best, rel=1e-7)
    rng = np.random.default_rng(1)
    for _ in range(20):
        moved = [[m + 0.05 * rng.standard_normal(m.shape) for m in ms] for ms in means]
        scaled = [[S * np.exp(0.1 * rng.standard_normal()) for S in Ss] for Ss in covs]
        for i in range(1, len(moved)):
            moved[i][0], scaled[i][0] = moved[0][0], scaled[0][0]
        assert hierarchical_elbo(Ys, parts, moved, scaled, noise, n_global=1) < best


def test_tighter_families_of_factors_give_tighter_bounds() -> None:
    layout, d = LAYOUTS["several outputs"]
    *_, data, shared, owns = problem(layout, d)
    values = [total_bound(data, shared, owns, layout, factors=f, gradient=False).value for f in FACTORS]
    assert values[0] < values[1] < values[2]


def test_without_missing_values_groups_of_outputs_make_no_difference() -> None:
    """The same rows with one output missing once: its group apart gives what the pooled group gives without it."""
    rng = np.random.default_rng(3)
    X, Y = rng.uniform(-5.0, 5.0, (8, 1)), rng.standard_normal((8, 2))
    layout = Layout(2, 1, 1, 1)
    shared, own = start_shared(X, layout, 4, rng), start_own(X, layout, 4, rng)
    Y[3, 1] = np.nan
    split = client_data(X, Y)
    assert len(split.groups) == 2
    halves = [client_data(X[:, :], np.where(np.arange(2) == q, Y, np.nan)) for q in range(2)]
    whole, apart = design(split, shared, own, layout), [design(h, shared, own, layout) for h in halves]
    np.testing.assert_allclose(whole.F, apart[0].F + apart[1].F, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(whole.c, apart[0].c + apart[1].c, rtol=1e-10, atol=1e-10)
    assert whole.residual == pytest.approx(apart[0].residual + apart[1].residual)
