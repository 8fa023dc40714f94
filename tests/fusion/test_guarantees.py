"""The guarantees of the Byzantine-resilient paper, as properties over random agents, attacks and seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgp.experiments.byzantine.liars import draw_liars, lie
from streamgp.experiments.byzantine.network import Prior, dispersions, local_answers
from streamgp.fusion import KINDS, ChoiceConstants, choose, trimmed_poe
from streamgp.fusion.bounds import SquaredExponential, Theory
from tests.fusion.answers import random_answers, tied_answers

ANSWERING = tuple(kind for kind in KINDS if kind not in ("silence", "nan"))  # the lemmas suppose n answers
ROUNDING = 1e-9  # relative


@dataclass(frozen=True)
class Scenario:
    """A network of one-neighbour agents with noises of their own, some of whom lie."""

    M: np.ndarray
    V: np.ndarray
    own_means: np.ndarray
    own_variances: np.ndarray
    honest: np.ndarray
    n_trim: int
    noises: np.ndarray
    dispersion: float
    kappa: SquaredExponential
    truth: np.ndarray
    slope: float
    height: float

    @property
    def n(self) -> int:
        return len(self.M)

    def theory(self, *, delta: float = 0.05) -> Theory:
        own = self.noises[self.honest]
        return Theory(
            self.kappa,
            float(own.min()),
            float(own.max()),
            sup_norm=self.height,
            lipschitz=self.slope,
            beta=self.n_trim / self.n,
            alpha=(self.n - len(self.honest)) / self.n,
            delta=delta,
        )


def scenario(seed: int, n: int, kind: str, share: float) -> Scenario:
    rng = np.random.default_rng(seed)
    n_trim = (n - 1) // 4
    liars = draw_liars(n, round(share * n_trim), rng)
    kappa = SquaredExponential(rng.uniform(0.5, 4.0), rng.uniform(0.1, 0.5))
    noises = rng.uniform(0.05, 0.4, size=n)
    a, w = rng.uniform(0.3, 1.5), rng.uniform(1.0, 6.0)
    Z, Zs = rng.random((n, rng.integers(5, 40), 1)), rng.random((9, 1))
    y = a * np.sin(w * Z[:, :, 0]) + np.sqrt(noises)[:, None] * rng.standard_normal(Z.shape[:2])
    answers = [
        local_answers(
            Z[i : i + 1],
            y[i : i + 1],
            Zs,
            Prior(kappa.signal_variance, np.array([kappa.lengthscale]), float(noises[i])),
            n_neighbors=1,
        )
        for i in range(n)
    ]
    own_means, own_variances = (np.vstack([answer[j] for answer in answers]) for j in (0, 1))
    M, V = lie(own_means, own_variances, liars, kind, query_id="q", seed=seed, noise_variance=0.1, n_trim=n_trim)
    honest = np.setdiff1d(np.arange(n), liars)
    region = np.linspace(0.0, 1.0, 400)[:, None]
    return Scenario(
        M,
        V,
        own_means,
        own_variances,
        honest,
        n_trim,
        noises,
        float(dispersions(Z, region).max()) + 1.0 / 800.0,
        kappa,
        a * np.sin(w * Zs[:, 0]),
        a * w,
        a,
    )


scenarios = st.builds(
    scenario,
    seed=st.integers(0, 2**31),
    n=st.integers(5, 33),
    kind=st.sampled_from(ANSWERING),
    share=st.sampled_from([0.0, 0.5, 1.0]),
)


@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 60),
    data=st.data(),
    make=st.sampled_from([random_answers, tied_answers]),
)
@settings(max_examples=100, deadline=None)
def test_lemma_1_between_n_minus_4_and_n_minus_2_cuts_remain(seed: int, n: int, data, make) -> None:
    n_trim = data.draw(st.integers(0, (n - 1) // 4))
    counts = trimmed_poe(*make(seed, n, 7), n_trim).counts
    assert (counts >= n - 4 * n_trim).all()
    assert (counts <= n - 2 * n_trim).all()
    assert (counts >= 1).all()


@given(scenarios)
@settings(max_examples=100, deadline=None)
def test_lemma_2_what_is_kept_lies_among_the_honest(s: Scenario) -> None:
    fused = trimmed_poe(s.M, s.V, s.n_trim)
    for values, honest in ((s.M, s.own_means[s.honest]), (s.V, s.own_variances[s.honest])):
        low, high = honest.min(axis=0), honest.max(axis=0)
        inside = (values >= low) & (values <= high)
        assert (inside | ~fused.kept).all()
    own = s.own_means[s.honest]
    assert (fused.mean >= own.min(axis=0)).all()
    assert (fused.mean <= own.max(axis=0)).all()


@given(scenarios)
@settings(max_examples=100, deadline=None)
def test_theorem_1_part_2_and_theorem_2_part_3_bound_the_variance(s: Scenario) -> None:
    fused = trimmed_poe(s.M, s.V, s.n_trim)
    low, high = s.theory().variance_bounds(s.dispersion)
    assert (fused.variance >= low * (1 - ROUNDING)).all()
    assert (fused.variance <= high * (1 + ROUNDING)).all()
    for i in s.honest:  # part III: the agent's own choice keeps the bounds
        chosen = np.where(choose(s.own_variances[i], fused), fused.variance, s.own_variances[i])
        assert (chosen >= low * (1 - ROUNDING)).all()
        assert (chosen <= high * (1 + ROUNDING)).all()


@pytest.mark.parametrize("kind", ANSWERING)
def test_theorem_1_part_1_bounds_the_error_with_probability(kind: str) -> None:
    """The share of points beyond the bound, over many networks, is at most delta."""
    delta, beyond = 0.1, []
    for seed in range(25):
        s = scenario(seed, n=9 + seed % 12, kind=kind, share=1.0)
        theory = s.theory(delta=delta)
        bound = theory.local_error(s.dispersion) + theory.attack_error(s.dispersion)
        beyond.append(np.abs(trimmed_poe(s.M, s.V, s.n_trim).mean - s.truth) > bound)
    assert np.mean(beyond) <= delta


def test_the_bounds_are_not_empty_promises() -> None:
    """Without trimming the same-value attack breaks the bound of Theorem 1 that the trimmed product keeps."""
    s = scenario(3, n=20, kind="same-value", share=1.0)
    theory = s.theory()
    bound = theory.local_error(s.dispersion) + theory.attack_error(s.dispersion)
    assert (np.abs(trimmed_poe(s.M, s.V, s.n_trim).mean - s.truth) <= bound).all()
    assert (np.abs(trimmed_poe(s.M * 100.0, s.V, 0).mean - s.truth) > bound).any()


@given(scenarios, st.floats(0.01, 0.99))
@settings(max_examples=60, deadline=None)
def test_eq9_with_the_theorems_own_constants_never_picks_the_cloud(s: Scenario, delta: float) -> None:
    """theta-check v is at most sigma, and Gamma is above sigma sqrt(2 ln 2): (9) as printed is an empty set."""
    theory = s.theory(delta=delta)
    fused = trimmed_poe(s.M, s.V, s.n_trim)
    for i in s.honest[:3]:
        constants = ChoiceConstants.from_theory(
            theory, noise_variance=float(s.noises[i]), dispersion=s.dispersion, dispersion_bound=s.dispersion
        )
        assert not choose(s.own_variances[i], fused, "eq9", constants=constants).any()
