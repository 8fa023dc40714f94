"""The rule that goes by records: competitive without liars, and what a lie can buy under it."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.errors import NoQuorumError
from streamgp.experiments.byzantine.liars import lie
from streamgp.fusion import (
    KINDS,
    Calibration,
    calibrated_poe,
    is_degraded,
    outlying,
    product_of_experts,
    trimmed_poe,
)
from tests.fusion.answers import random_answers, tied_answers
from tests.tolerances import REORDERED


def honest_answers(seed: int, n: int = 40, m: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Agents whose errors are what they claim, around a truth of 0."""
    rng = np.random.default_rng(seed)
    variances = rng.uniform(0.5, 2.0, size=(n, 1)) * rng.uniform(0.5, 2.0, size=(n, m))
    return np.sqrt(variances) * rng.normal(size=(n, m)), variances


def rmse(mean: np.ndarray) -> float:
    return float(np.sqrt(np.mean(mean**2)))


@pytest.mark.parametrize("make", [random_answers, tied_answers])
def test_permuting_agents_changes_nothing(make) -> None:
    means, variances = make(0, 13, 40)
    records = Calibration(np.linspace(0.5, 3.0, 13), np.arange(13) == 4)
    order = np.random.default_rng(1).permutation(13)
    plain = calibrated_poe(means, variances, 3, calibration=records)
    moved = Calibration(records.factor[order], records.barred[order])
    shuffled = calibrated_poe(means[order], variances[order], 3, calibration=moved)
    np.testing.assert_array_equal(plain.mean, shuffled.mean)
    np.testing.assert_array_equal(plain.variance, shuffled.variance)
    np.testing.assert_array_equal(plain.kept[order], shuffled.kept)


def test_one_agent_alone_is_unchanged_and_inputs_too() -> None:
    means, variances = random_answers(2, 1, 9)
    copies = means.copy(), variances.copy()
    fused = calibrated_poe(means, variances, 0)
    np.testing.assert_array_equal(fused.mean, copies[0][0])
    np.testing.assert_array_equal(fused.variance, copies[1][0])
    fused.mean[:] = 0.0
    np.testing.assert_array_equal(means, copies[0])
    np.testing.assert_array_equal(variances, copies[1])


@pytest.mark.parametrize("seed", range(5))
def test_without_liars_it_keeps_what_the_fixed_cut_throws_away(seed: int) -> None:
    means, variances = honest_answers(seed)
    calibrated, trimmed = calibrated_poe(means, variances, 6), trimmed_poe(means, variances, 6)
    product = product_of_experts(means, variances)
    assert calibrated.kept.mean() > 0.97 > trimmed.kept.mean()
    assert rmse(calibrated.mean) < 1.1 * rmse(product.mean)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("off", "factor"), [(100.0, 1.0), (20.0, 1.0), (10.0, 1e-9), (-6.0, 1e-6), (10.0, 1e6), (3.0, 1e-9)]
)
def test_nine_liars_of_forty_gain_little(seed: int, off: float, factor: float) -> None:
    """Tiny and huge variance with a wrong mean: the weight of a lie is at most an honest one's."""
    means, variances = honest_answers(seed)
    clean = rmse(product_of_experts(means[9:], variances[9:]).mean)
    means[:9] += off * np.sqrt(variances[:9])
    variances[:9] *= factor
    assert rmse(calibrated_poe(means, variances, 9).mean) < 1.5 * clean


def test_a_bold_claim_buys_no_more_than_an_honest_one() -> None:
    means, variances = np.zeros((9, 1)), np.ones((9, 1))
    means[0], variances[0] = 1.0, 1e-12
    assert calibrated_poe(means, variances, 1).mean[0] <= 1.0 / 9.0 + REORDERED


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sleeper"])
def test_nine_of_forty_stay_within_a_factor_of_three_under_every_attack(seed: int, kind: str) -> None:
    """The paper's cut does not: under a mimic, or under liars who all lie on one side."""
    means, variances = honest_answers(seed, m=200)
    clean = np.mean(product_of_experts(means, variances).mean ** 2)
    sent = lie(means, variances, np.arange(9), kind, query_id="q", seed=seed, n_trim=9)
    assert np.mean(calibrated_poe(*sent, 9).mean ** 2) < 3.0 * clean


def test_a_copy_buys_no_vote() -> None:
    means = np.linspace(-1.0, 1.0, 31)[:, None]
    crowd = np.vstack([means, np.repeat(means[-1:], 9, axis=0)])
    plain, copied = calibrated_poe(means, np.ones((31, 1)), 7), calibrated_poe(crowd, np.ones((40, 1)), 9)
    assert copied.mean[0] == pytest.approx(plain.mean[0], abs=0.01)
    assert copied.kept.all()
    assert calibrated_poe(crowd, np.ones((40, 1)), 0).mean[0] > 0.2  # nobody lies: every answer is a vote


@pytest.mark.parametrize("n_trim", [0, 4])
def test_twenty_equal_answers_are_no_surer_than_one(n_trim: int) -> None:
    """C35."""
    fused = calibrated_poe(np.full((20, 1), 5.0), np.ones((20, 1)), n_trim)
    assert fused.mean[0] == 5.0
    assert fused.variance[0] == pytest.approx(1.0)
    assert fused.kept.all()


def test_agreement_of_honest_agents_is_no_copy() -> None:
    """More agree than there can be liars: those whose data are far away all answer with the prior."""
    means, variances = np.zeros((40, 1)), np.ones((40, 1))
    means[:9, 0] = 0.9 + 0.01 * np.arange(9)
    fused = calibrated_poe(means, variances, 9)
    assert fused.mean[0] < 0.9 * 9 / (9 + 31 - 9)
    thirds = np.repeat([-0.5, 0.0, 0.5], 10)[:, None]
    assert abs(calibrated_poe(np.vstack([means[:9], thirds]), np.ones((39, 1)), 9).mean[0]) < 1.0 / 3.0


def test_records_correct_claims_and_bar_liars() -> None:
    means, variances = np.array([[0.0], [0.3], [0.1]]), np.array([[1.0], [1.0], [1.0]])
    records = Calibration(np.array([1.0, 4.0, 1.0]), np.array([False, False, True]))
    fused = calibrated_poe(means, variances, 0, calibration=records)
    assert fused.kept[:, 0].tolist() == [True, True, False]
    assert fused.mean[0] == pytest.approx(0.3 * 0.25 / 1.25)
    assert fused.variance[0] == pytest.approx(2.0 / 1.25)
    everyone = Calibration(np.ones(3), np.ones(3, dtype=bool))
    assert calibrated_poe(means, variances, 0, calibration=everyone).kept.all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0, 1e-300, 1e300])
def test_unusable_answers_are_out(bad: float) -> None:
    """C37: the four others alone decide."""
    means = np.array([[1.00], [1.10], [0.90], [1.05], [1.0]])
    fused = calibrated_poe(means, np.array([[0.04], [0.04], [0.04], [0.04], [bad]]), 1)
    assert fused.mean[0] == pytest.approx(1.0125, rel=REORDERED)
    assert not fused.kept[4, 0]


def test_refusals() -> None:
    with pytest.raises(NoQuorumError):
        calibrated_poe(np.zeros((4, 1)), np.ones((4, 1)), 1)
    with pytest.raises(ValueError, match="calibration must be of 2 agents"):
        calibrated_poe(np.zeros((2, 1)), np.ones((2, 1)), 0, calibration=Calibration.none(3))


def test_degraded_when_more_lie_than_the_cut_allows() -> None:
    means, variances = honest_answers(7, n=20, m=5)
    assert not is_degraded(means, variances, 4)
    means[:4] = 50.0
    assert not is_degraded(means, variances, 4)
    assert outlying(means, variances)[:4].all()
    means[4, 2] = np.nan
    assert is_degraded(means, variances, 4)
    records = Calibration(np.ones(20), np.arange(20) >= 14)
    clean = honest_answers(8, n=20, m=5)
    assert is_degraded(*clean, 4, calibration=records)
