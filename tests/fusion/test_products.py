"""The family of products, committees and averages against their formulas, and the laws that all of them keep."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from streamgp.errors import NoQuorumError
from streamgp.fusion import (
    bcm,
    calibrated_poe,
    covariance_intersection,
    geometric_median,
    gpoe,
    grbcm,
    krum,
    mean_of_experts,
    median_of_experts,
    min_variance,
    product_of_experts,
    rbcm,
    trimmed_poe,
    usable,
)
from tests.fusion.answers import random_answers, tied_answers
from tests.tolerances import REORDERED

PRIOR = 20.0
RULES = {
    "product": product_of_experts,
    "product, correlated": functools.partial(product_of_experts, rho=0.3),
    "gpoe": gpoe,
    "gpoe, entropy": functools.partial(gpoe, prior_variance=PRIOR),
    "bcm": functools.partial(bcm, prior_variance=PRIOR),
    "rbcm": functools.partial(rbcm, prior_variance=PRIOR),
    "grbcm": functools.partial(grbcm, prior_variance=PRIOR),
    "min_variance": min_variance,
    "covariance_intersection": covariance_intersection,
    "covariance_intersection, Def. 10": functools.partial(covariance_intersection, prior_variance=PRIOR, sharpness=7.0),
    "mean": mean_of_experts,
    "median": median_of_experts,
    "geometric_median": geometric_median,
    "krum": functools.partial(krum, n_byzantine=0),
    "trimmed_poe": functools.partial(trimmed_poe, n_trim=0),
}
RULE = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


@RULE
@pytest.mark.parametrize("make", [random_answers, tied_answers])
def test_permuting_agents_changes_nothing(rule, make) -> None:
    means, variances = make(1, 11, 30)
    order = np.random.default_rng(5).permutation(11)
    if rule is RULES["grbcm"]:
        order = np.concatenate([[0], 1 + np.random.default_rng(5).permutation(10)])
    plain, shuffled = rule(means, variances), rule(means[order], variances[order])
    np.testing.assert_array_equal(plain.mean, shuffled.mean)
    np.testing.assert_array_equal(plain.variance, shuffled.variance)
    if rule is not RULES["krum"]:  # of two equal answers Krum keeps one
        np.testing.assert_array_equal(plain.kept[order], shuffled.kept)


@RULE
def test_one_agent_alone_is_unchanged(rule) -> None:
    """C34: one expert is itself."""
    means, variances = random_answers(2, 1, 25)
    fused = rule(means, variances)
    np.testing.assert_array_equal(fused.mean, means[0])
    np.testing.assert_array_equal(fused.variance, variances[0])
    assert fused.kept.all()


@RULE
def test_inputs_are_not_changed(rule) -> None:
    means, variances = random_answers(3, 6, 8)
    means[4, 3] = np.nan
    copies = means.copy(), variances.copy()
    fused = rule(means, variances)
    fused.mean[:] = fused.variance[:] = 0.0
    fused.kept[:] = False
    np.testing.assert_array_equal(means, copies[0])
    np.testing.assert_array_equal(variances, copies[1])


@RULE
@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0, 1e-300, 1e300])
def test_unusable_answers_have_no_share(rule, bad: float) -> None:
    """C37, R58: the attacker is out, and the result is that of the others."""
    means, variances = random_answers(4, 5, 1)
    with_liar = np.vstack([means, [[1.0]]]), np.vstack([variances, [[bad]]])
    fused, expected = rule(*with_liar), rule(means, variances)
    np.testing.assert_allclose(fused.mean, expected.mean, rtol=REORDERED)
    np.testing.assert_allclose(fused.variance, expected.variance, rtol=REORDERED)
    assert not fused.kept[5].any()
    assert usable(*with_liar).counts() != {}


@RULE
def test_nobody_usable_is_no_quorum(rule) -> None:
    """R58: nothing that is not finite leaves."""
    with pytest.raises(NoQuorumError):
        rule([[np.nan], [1.0]], [[1.0], [-1.0]])


@RULE
@pytest.mark.parametrize("scale", [1e-40, 1e40])
def test_scales(rule, scale: float) -> None:
    means, variances = random_answers(6, 7, 5)
    expected = rule(means, variances)
    if "prior_variance" in getattr(rule, "keywords", {}):
        rule = functools.partial(rule.func, **{**rule.keywords, "prior_variance": PRIOR * scale**2})
    fused = rule(scale * means, scale**2 * variances)
    np.testing.assert_allclose(fused.mean, scale * expected.mean, rtol=1e-7)
    np.testing.assert_allclose(fused.variance, scale**2 * expected.variance, rtol=1e-7)


def test_product_by_hand() -> None:
    """C34, R57: precisions add up; zero means divide by nothing."""
    fused = product_of_experts([[10.0, 0.0], [12.0, 0.0]], [[1.0, 1.0], [4.0, 4.0]])
    np.testing.assert_allclose(fused.mean, [10.4, 0.0], rtol=REORDERED)
    np.testing.assert_allclose(fused.variance, 0.8, rtol=REORDERED)
    half = gpoe([[10.0], [12.0]], [[1.0], [4.0]], weights=[0.5, 0.5])
    np.testing.assert_allclose([half.mean[0], half.variance[0]], [10.4, 1.6], rtol=REORDERED)


def test_correlated_experts_are_not_counted_twice() -> None:
    """C35: twenty equal answers from the same rows; unknown correlation is said, known one is used."""
    means, variances = np.full((20, 1), 5.0), np.ones((20, 1))
    plain = product_of_experts(means, variances)
    assert plain.variance[0] == pytest.approx(0.05)
    assert plain.note == "independence assumed"
    assert product_of_experts(means, variances, rho=1.0).variance[0] == pytest.approx(1.0)
    assert product_of_experts(means, variances, rho=0.0).variance[0] == pytest.approx(0.05)
    for rule in (covariance_intersection, gpoe, trimmed_poe):
        fused = rule(means, variances, 4) if rule is trimmed_poe else rule(means, variances)
        assert fused.variance[0] >= 0.9
        assert fused.note == ""


def test_correlated_variance_is_that_of_the_weighted_mean() -> None:
    _, variances = random_answers(9, 6, 4)
    rho = 0.4
    fused = product_of_experts(np.zeros((6, 4)), variances, rho=rho)
    for j in range(4):
        s = np.sqrt(variances[:, j])
        covariance = np.outer(s, s) * (rho + (1 - rho) * np.eye(6))
        a = (1 / s**2) / (1 / s**2).sum()
        assert fused.variance[j] == pytest.approx(a @ covariance @ a, rel=1e-12)


def test_committees_by_their_formulas() -> None:
    means, variances = random_answers(10, 5, 9)
    precision = 1.0 / variances
    fused = bcm(means, variances, prior_variance=PRIOR)
    total = precision.sum(axis=0) - 4 / PRIOR
    np.testing.assert_allclose(fused.variance, 1 / total, rtol=REORDERED)
    np.testing.assert_allclose(fused.mean, (precision * means).sum(axis=0) / total, rtol=1e-10, atol=1e-12)
    beta = 0.5 * np.log(PRIOR / variances)
    fused = rbcm(means, variances, prior_variance=PRIOR)
    total = (beta * precision).sum(axis=0) + (1 - beta.sum(axis=0)) / PRIOR
    np.testing.assert_allclose(fused.variance, 1 / total, rtol=REORDERED)
    np.testing.assert_allclose(fused.mean, (beta * precision * means).sum(axis=0) / total, rtol=1e-10, atol=1e-12)
    fused = gpoe(means, variances, prior_variance=PRIOR)
    w = beta / beta.sum(axis=0)
    np.testing.assert_allclose(fused.variance, 1 / (w * precision).sum(axis=0), rtol=REORDERED)
    fused = covariance_intersection(means, variances, prior_variance=PRIOR, sharpness=3.0)
    w = beta**3 / (beta**3).sum(axis=0)
    np.testing.assert_allclose(fused.variance, 1 / (w * precision).sum(axis=0), rtol=1e-11)


def test_grbcm_by_its_formula() -> None:
    means, variances = random_answers(11, 5, 9)
    variances[0] = 10.0  # the communication expert knows least
    beta = 0.5 * np.log(variances[0] / variances[1:])
    beta[variances[1:].argmin(axis=0), np.arange(9)] = 1.0
    total = (beta / variances[1:]).sum(axis=0) - (beta.sum(axis=0) - 1) / variances[0]
    top = (beta * means[1:] / variances[1:]).sum(axis=0) - (beta.sum(axis=0) - 1) * means[0] / variances[0]
    fused = grbcm(means, variances, prior_variance=PRIOR)
    np.testing.assert_allclose(fused.variance, 1 / total, rtol=1e-10)
    np.testing.assert_allclose(fused.mean, top / total, rtol=1e-9, atol=1e-12)


def test_committees_fall_back_to_what_they_know_without_data() -> None:
    fused = rbcm(np.ones((3, 1)), np.full((3, 1), PRIOR), prior_variance=PRIOR)
    assert (fused.mean[0], fused.variance[0]) == (0.0, PRIOR)
    fused = grbcm(np.array([[2.0], [9.0]]), np.array([[1.0], [3.0]]))
    assert (fused.mean[0], fused.variance[0]) == (2.0, 1.0)


@pytest.mark.parametrize("rule", [bcm, rbcm])
def test_a_claim_to_know_less_than_the_prior_has_no_share(rule) -> None:
    """Otherwise one liar with a great variance turns the committee's precision negative."""
    means, variances = random_answers(12, 6, 5)
    means, variances = np.vstack([means, np.full((3, 5), 50.0)]), np.vstack([variances, np.full((3, 5), 1e9)])
    fused, expected = rule(means, variances, PRIOR), rule(means[:6], variances[:6], PRIOR)
    np.testing.assert_allclose(fused.mean, expected.mean, rtol=REORDERED)
    assert (fused.variance > 0).all()


def test_sharpness_does_not_overflow() -> None:
    """Z = log(N) C of Definition 10 in log space."""
    means, variances = random_answers(13, 8, 6)
    fused = covariance_intersection(means, variances, prior_variance=PRIOR, sharpness=1e6)
    surest = min_variance(means, variances)
    np.testing.assert_allclose(fused.mean, surest.mean, rtol=REORDERED)


def test_robust_averages_withstand_a_fifth_of_liars() -> None:
    means, variances = random_answers(14, 20, 6)
    means[:4] += 1000.0
    for rule in (median_of_experts, geometric_median, functools.partial(krum, n_byzantine=4)):
        assert (np.abs(rule(means, variances).mean) < 3.0).all()


def test_krum_needs_enough_agents_and_picks_one_of_them() -> None:
    means, variances = random_answers(15, 7, 4)
    fused = krum(means, variances, 2)
    assert fused.counts.tolist() == [1, 1, 1, 1]
    with pytest.raises(NoQuorumError):
        krum(means[:6], variances[:6], 2)


def test_geometric_median_is_where_the_summed_distance_is_least() -> None:
    rng = np.random.default_rng(16)
    means, variances = rng.normal(size=(15, 2)), np.ones((15, 2))
    best = geometric_median(means, variances).mean

    def cost(c: np.ndarray) -> float:
        return float(np.linalg.norm(means - c, axis=1).sum())

    assert all(cost(best) <= cost(best + 1e-3 * rng.normal(size=2)) + 1e-12 for _ in range(50))


@pytest.mark.parametrize(
    "call",
    [
        lambda: product_of_experts([[1.0]], [[1.0]], [-1.0]),
        lambda: product_of_experts([[1.0]], [[1.0]], [1.0, 1.0]),
        lambda: product_of_experts([[1.0]], [[1.0]], [1.0], rho=0.1),
        lambda: product_of_experts([[1.0], [2.0]], [[1.0], [1.0]], rho=1.5),
        lambda: bcm([[1.0]], [[1.0]], prior_variance=0.0),
        lambda: bcm([[1.0]], [[1.0]], prior_variance=[1.0, 2.0]),
        lambda: covariance_intersection([[1.0]], [[1.0]], sharpness=0.0),
        lambda: product_of_experts([[1.0], [2.0]], [[1.0], [1.0]], [0.0, 0.0]),
    ],
)
def test_bad_arguments_are_refused(call) -> None:
    with pytest.raises(ValueError):
        call()


@pytest.mark.parametrize("name", [name for name in (*RULES, "by records") if name not in ("geometric_median", "krum")])
def test_many_points_at_once_are_the_same_points_one_by_one(name: str) -> None:
    """Rules work on blocks of points: where a block ends changes nothing, to the last bit."""
    rule = RULES.get(name, functools.partial(calibrated_poe, n_trim=6))
    means, variances = random_answers(9, 40, 1100)
    means[3, 5], variances[:, 600:603], means[7:11, 900:] = np.nan, 1.0, 1.0
    fused = rule(means, variances)
    assert fused.kept.shape == (40, 1100)
    for some in (slice(0, 1), slice(3, 8), slice(495, 505), slice(600, 1100)):
        part = rule(means[:, some], variances[:, some])
        np.testing.assert_array_equal(fused.mean[some], part.mean)
        np.testing.assert_array_equal(fused.variance[some], part.variance)
        np.testing.assert_array_equal(fused.kept[:, some], part.kept)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e-20, 1e150])
@pytest.mark.parametrize("rule", [product_of_experts, gpoe, covariance_intersection])
def test_weights_count_by_their_ratio_whatever_their_size(rule, size: float) -> None:
    means, variances = random_answers(17, 5, 3)
    weights = np.array([0.2, 1.0, 0.0, 0.5, 0.7])
    plain, fused = rule(means, variances, weights), rule(means, variances, size * weights)
    np.testing.assert_allclose(fused.mean, plain.mean, rtol=REORDERED)
    by = 1.0 if rule is covariance_intersection else size
    np.testing.assert_allclose(fused.variance * by, plain.variance, rtol=REORDERED)
    np.testing.assert_array_equal(fused.kept, plain.kept)


def test_weights_that_leave_no_variance_are_refused() -> None:
    with pytest.raises(NoQuorumError, match="so small"):
        product_of_experts([[1.0], [2.0]], [[1e10], [1e10]], [1e-300, 1e-300])
