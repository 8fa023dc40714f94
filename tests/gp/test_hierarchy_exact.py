"""The evidence where every row is an inducing input, against the dense density and against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.gp.hierarchy.blocks import Layout, softplus, softplus_inverse
from streamgp.gp.hierarchy.data import client_data
from streamgp.gp.hierarchy.exact import all_rows, exact_bound, is_exact
from streamgp.gp.hierarchy.total import log_prior, total_bound
from streamgp.models.hgp.start import start_own, start_shared
from tests.dense import hierarchical_evidence, hierarchical_parts

LAYOUTS = {
    "scalar": (Layout(1, 1, 1, 1), 1),
    "several latents, two columns": (Layout(1, 2, 3, 2), 2),
    "no global": (Layout(1, 0, 1, 1), 1),
    "no deviation": (Layout(1, 1, 0, 2), 1),
    "no residual": (Layout(1, 2, 1, 0), 1),
    "noise of their own": (Layout(1, 1, 1, 1, own_noise=True), 1),
}


def problem(layout: Layout, d: int):
    """Clients that share most inputs, one of them with a row twice, one without a row; every row an inducing input."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-5.0, 5.0, (8, d))
    Xs = [X[:6], X[[2, 3, 3, 4, 7]], X[:0]]
    Ys = [rng.standard_normal((len(x), 1)) for x in Xs]
    Ys[0][1] = np.nan
    data = [client_data(x, y) for x, y in zip(Xs, Ys, strict=True)]
    shared = start_shared(X, layout, 4, rng)
    shared["eta_noise"] = softplus_inverse(np.array([0.3]))
    shared["inducing"] = np.unique(np.concatenate([x.X for x in data]), axis=0)[::-1]
    owns = [{**start_own(x, layout, 3, rng), "inducing": np.unique(k.X, axis=0)} for x, k in zip(Xs, data, strict=True)]
    for own in owns:
        if layout.own_noise:
            own["log_noise"] = rng.standard_normal(1)
    owns[2]["inducing"] = np.zeros((1, d))
    return Xs, Ys, data, shared, owns


@pytest.mark.parametrize("name", LAYOUTS)
def test_it_is_the_dense_density_and_the_bound_but_for_the_jitter(name: str) -> None:
    layout, d = LAYOUTS[name]
    Xs, Ys, data, shared, owns = problem(layout, d)
    assert is_exact(data, [shared, *owns], layout, "structured")
    exact = exact_bound(data, shared, owns, layout).value
    bound = total_bound(data, shared, owns, layout, factors="structured", gradient=False).value
    assert exact == pytest.approx(bound, abs=1e-3)
    assert exact >= bound - 1e-9
    parts = [hierarchical_parts(shared, o, x, period=layout.n_kernels) for x, o in zip(Xs, owns, strict=True)]
    noise = float(softplus(shared["eta_noise"])[0])
    noises = [noise * float(np.exp(o["log_noise"][0])) if "log_noise" in o else noise for o in owns]
    prior = log_prior(shared, layout) + sum(log_prior(o, layout) for o in owns)
    assert exact - prior == pytest.approx(
        hierarchical_evidence(Ys, parts, noises, n_global=layout.rank_global), abs=1e-3
    )


@pytest.mark.parametrize("name", LAYOUTS)
def test_derivatives_are_those_of_finite_differences(name: str) -> None:
    layout, d = LAYOUTS[name]
    *_, data, shared, owns = problem(layout, d)
    exact, rng = exact_bound(data, shared, owns, layout), np.random.default_rng(5)
    for block, gradient in zip([shared, *owns], [exact.by_shared, *exact.by_own], strict=True):
        assert set(gradient) == set(block)
        for key in sorted(set(block) - {"inducing"}):
            kept, way, values = block[key], rng.standard_normal(block[key].shape), []
            for step in (1e-5, -1e-5):
                block[key] = kept + step * way
                values.append(exact_bound(data, shared, owns, layout).value)
            block[key] = kept
            slope = 0.0 if layout.scalar and "loadings" in key else (values[0] - values[1]) / 2e-5
            assert np.sum(gradient[key] * way) == pytest.approx(slope, rel=1e-5, abs=1e-5), key


def test_it_is_not_taken_for_fewer_inducing_inputs_other_factors_or_several_outputs() -> None:
    layout, d = LAYOUTS["scalar"]
    *_, data, shared, owns = problem(layout, d)
    assert not is_exact(data, [shared, *owns], layout, "mean_field")
    assert not is_exact(data, [{**shared, "inducing": shared["inducing"][1:]}, *owns], layout, "structured")
    fewer = {**owns[0], "inducing": owns[0]["inducing"][1:]}
    assert not is_exact(data, [shared, fewer, *owns[1:]], layout, "structured")
    assert not is_exact(data, [shared, *owns], Layout(2, 1, 1, 1), "structured")
    assert all_rows(np.array([[2.0], [1.0]]), np.array([[1.0], [2.0], [1.0]]))
    assert not all_rows(np.array([[2.0], [1.5]]), np.array([[1.0], [2.0]]))
