"""The prior that draws clients' lengthscales together: against quadrature, differences and its own symmetries."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.gp.hierarchy.blocks import softplus, softplus_inverse
from streamgp.gp.hierarchy.related import USUAL_SPREAD, WORTH, related_prior


def of_lengths(*clients: list[float]) -> list[dict[str, np.ndarray]]:
    return [{"eta_lengthscale": softplus_inverse(np.array(lengths)[:, None])} for lengths in clients]


def test_the_prior_of_related_lengthscales_is_a_normal_one_whose_spread_is_integrated_out() -> None:
    """Against the integral over the precision of the spread, gamma, by quadrature on a fine grid."""
    lengths = np.array([[0.3, 0.9], [0.35, 0.7], [0.2, 0.8]])
    value, _ = related_prior(of_lengths(*lengths.tolist()))
    apart = np.log(lengths) - np.log(lengths).mean(axis=0)
    precision = np.linspace(1e-3, 3000.0, 400_001)
    gamma = precision ** (WORTH - 1.0) * np.exp(-precision * WORTH * USUAL_SPREAD**2)
    normal = precision ** (0.5 * apart.size) * np.exp(-0.5 * precision * np.sum(apart**2))
    alike = precision ** (0.5 * apart.size)
    assert value == pytest.approx(np.log(np.sum(gamma * normal) / np.sum(gamma * alike)), abs=1e-6)


def test_related_lengthscales_do_not_depend_on_names_or_units() -> None:
    """Latents and clients may come in any order, and the unit of x may be another; agreement costs nothing."""
    value, by = related_prior(of_lengths([0.3, 0.9], [0.8, 0.25], [0.4, 1.1]))
    swapped, by_swapped = related_prior(of_lengths([1.1, 0.4], [0.3, 0.9], [0.25, 0.8]))
    assert swapped == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(by_swapped[0], by[2][::-1], rtol=1e-12)
    assert related_prior(of_lengths([3.0, 9.0], [8.0, 2.5], [4.0, 11.0]))[0] == pytest.approx(value, rel=1e-9)
    alike, none = related_prior(of_lengths([0.3, 0.9], [0.9, 0.3]))
    assert alike == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(none, 0.0, atol=1e-12)


def test_clients_that_are_not_alike_are_hardly_drawn() -> None:
    """Thirty clients: a spread far beyond the usual is learned as such, so that the pull of each weakens with it."""
    rng = np.random.default_rng(0)
    for spread, at_least, at_most in ((0.05, 100.0, 500.0), (1.0, 0.5, 2.0)):
        logs = spread * rng.standard_normal(30)
        _, by = related_prior(of_lengths(*[[float(v)] for v in np.exp(logs)]))
        slope = np.array([softplus(e["eta_lengthscale"]) for e in of_lengths(*[[float(v)] for v in np.exp(logs)])])
        pull = -np.array(by)[:, 0, 0] * slope[:, 0, 0] / (1.0 - np.exp(-slope[:, 0, 0]))  # by log lengthscale
        stiffness = np.polyfit(logs - logs.mean(), pull, 1)[0]
        assert at_least < stiffness < at_most


@pytest.mark.parametrize("shape", [(3, 1, 1), (4, 2, 3)])
def test_derivatives_of_the_prior_are_those_of_finite_differences(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(2)
    etas, way = rng.standard_normal(shape), rng.standard_normal(shape)
    _, by = related_prior([{"eta_lengthscale": eta} for eta in etas])
    values = [related_prior([{"eta_lengthscale": eta} for eta in etas + step * way])[0] for step in (1e-6, -1e-6)]
    assert np.sum(np.array(by) * way) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-6)
