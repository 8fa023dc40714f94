"""The trimmed product of experts: its definition, and what it promises about order, ties and bad answers."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.errors import NoQuorumError, SettingsError
from streamgp.fusion import cut_sides, n_trim_for, trimmed_poe
from tests.dense import trimmed_poe_loop
from tests.fusion.answers import random_answers, tied_answers
from tests.tolerances import REORDERED


@pytest.mark.parametrize(("n", "m", "n_trim"), [(5, 1, 1), (9, 30, 2), (40, 20, 6), (100, 7, 24), (3, 4, 0)])
def test_equals_the_definition(n: int, m: int, n_trim: int) -> None:
    means, variances = random_answers(n, n, m)
    fused = trimmed_poe(means, variances, n_trim)
    mean, variance, kept = trimmed_poe_loop(means, variances, n_trim)
    np.testing.assert_allclose(fused.mean, mean, rtol=REORDERED, atol=REORDERED)
    np.testing.assert_allclose(fused.variance, variance, rtol=REORDERED)
    np.testing.assert_array_equal(fused.kept, kept)


@pytest.mark.parametrize("make", [random_answers, tied_answers])
@pytest.mark.parametrize("seed", range(20))
def test_permuting_agents_changes_nothing(make, seed: int) -> None:
    means, variances = make(seed, 13, 40)
    order = np.random.default_rng(seed + 100).permutation(13)
    plain, shuffled = trimmed_poe(means, variances, 3), trimmed_poe(means[order], variances[order], 3)
    np.testing.assert_array_equal(plain.mean, shuffled.mean)
    np.testing.assert_array_equal(plain.variance, shuffled.variance)
    np.testing.assert_array_equal(plain.counts, shuffled.counts)


@pytest.mark.parametrize("make", [random_answers, tied_answers])
def test_cut_sides_account_for_all_that_is_not_kept(make) -> None:
    means, variances = make(3, 21, 50)
    cuts = cut_sides(means, variances, 5)
    np.testing.assert_array_equal(cuts.kept, trimmed_poe(means, variances, 5).kept)
    for side in (cuts.mean_low, cuts.mean_high, cuts.variance_low, cuts.variance_high):
        np.testing.assert_array_equal(side.sum(axis=0), 5)
    assert not (cuts.mean_low & cuts.mean_high).any()


def test_equal_variances_are_cut_by_their_means() -> None:
    means, _ = random_answers(1, 12, 9)
    fused = trimmed_poe(means, np.ones((12, 9)), 2)
    np.testing.assert_array_equal(fused.counts, 8)
    np.testing.assert_array_equal(fused.variance, 1.0)


def test_identical_answers_are_that_answer() -> None:
    """C35: twenty copies of one answer are no surer than one."""
    fused = trimmed_poe(np.full((20, 3), 0.1), np.full((20, 3), 0.3), 4)
    np.testing.assert_array_equal(fused.mean, 0.1)
    np.testing.assert_array_equal(fused.variance, 0.3)


@pytest.mark.parametrize("mean", [np.nan, np.inf, -np.inf, 1e300, 1.0])
@pytest.mark.parametrize("variance", [np.nan, 0.0, -1.0, 1e-300, 1e300, np.inf, 0.04])
@pytest.mark.parametrize("n_trim", [0, 1])
def test_unusable_answers_are_out_before_any_sort(mean: float, variance: float, n_trim: int) -> None:
    """C37: the four others alone decide; one liar is found, so none is left to be cut."""
    if mean == 1.0 and variance == 0.04:
        pytest.skip("an honest answer")
    means = np.array([[1.00], [1.10], [mean], [0.90], [1.05]])
    variances = np.array([[0.04], [0.04], [variance], [0.04], [0.04]])
    fused = trimmed_poe(means, variances, n_trim)
    assert fused.mean[0] == pytest.approx(1.0125, rel=REORDERED)
    assert fused.variance[0] == pytest.approx(0.04, rel=REORDERED)
    assert fused.kept[:, 0].tolist() == [True, True, False, True, True]


def test_an_unusable_point_leaves_the_agents_other_points_alone() -> None:
    means, variances = random_answers(2, 21, 6)
    broken = means.copy()
    broken[4, 2] = np.nan
    plain, fused = trimmed_poe(means, variances, 4), trimmed_poe(broken, variances, 4)
    others = np.arange(6) != 2
    np.testing.assert_array_equal(plain.mean[others], fused.mean[others])
    rest = np.arange(21) != 4
    assert fused.mean[2] == trimmed_poe(means[rest], variances[rest], 4).mean[2]


@pytest.mark.parametrize("scale", [1e-60, 1e-9, 1e9, 1e60])
def test_scaling_the_answers_scales_the_result(scale: float) -> None:
    means, variances = random_answers(5, 17, 11)
    plain, scaled = trimmed_poe(means, variances, 3), trimmed_poe(scale * means, scale**2 * variances, 3)
    np.testing.assert_allclose(scaled.mean, scale * plain.mean, rtol=1e-10)
    np.testing.assert_allclose(scaled.variance, scale**2 * plain.variance, rtol=1e-10)


def test_extreme_but_usable_variances_do_not_overflow() -> None:
    variances = np.array([[1e-149], [1e-140], [1.0], [1e140], [1e149]])
    fused = trimmed_poe(np.arange(5.0)[:, None], variances, 1)
    assert np.isfinite(fused.mean).all()
    assert 1e-140 <= fused.variance[0] <= 1e140


def test_one_agent_alone_is_unchanged() -> None:
    """C34: one expert is itself."""
    means, variances = random_answers(7, 1, 30)
    fused = trimmed_poe(means, variances, 0)
    np.testing.assert_array_equal(fused.mean, means[0])
    np.testing.assert_array_equal(fused.variance, variances[0])


def test_inputs_are_not_changed() -> None:
    means, variances = tied_answers(8, 9, 9)
    means[0, 0], variances[1, 1] = np.nan, -1.0
    copies = means.copy(), variances.copy()
    trimmed_poe(means, variances, 2)
    cut_sides(means, variances, 2)
    np.testing.assert_array_equal(means, copies[0])
    np.testing.assert_array_equal(variances, copies[1])


@pytest.mark.parametrize(("n", "n_trim"), [(4, 1), (1, 1), (8, 2), (7, 3)])
def test_too_few_agents_are_no_quorum(n: int, n_trim: int) -> None:
    with pytest.raises(NoQuorumError, match="needs more than"):
        trimmed_poe(np.zeros((n, 2)), np.ones((n, 2)), n_trim)


def test_a_point_that_nobody_answered_is_no_quorum() -> None:
    with pytest.raises(NoQuorumError, match="no usable answer at 1 of 2 points, first at 1"):
        trimmed_poe([[1.0, np.nan], [1.0, 2.0]], [[1.0, 1.0], [1.0, -1.0]], 0)
    with pytest.raises(NoQuorumError, match="no agent"):
        trimmed_poe(np.zeros((0, 2)), np.zeros((0, 2)), 0)


@pytest.mark.parametrize(
    ("means", "variances"), [([1.0], [1.0]), ([[1.0]], [[1.0, 2.0]]), ([["1"]], [[1.0]]), ([[1j]], [[1.0]])]
)
def test_wrong_shapes_and_types_are_refused(means, variances) -> None:
    with pytest.raises(ValueError, match="must"):
        trimmed_poe(means, variances, 0)


def test_negative_n_trim_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        trimmed_poe([[1.0]], [[1.0]], -1)


@pytest.mark.parametrize(
    ("beta", "n", "expected"),
    [
        (0.0, 3, 0),
        (0.15, 40, 6),
        (0.05, 100, 5),
        (0.07, 100, 7),
        (1 / 6, 12, 2),
        (0.01, 5, 1),
        (0.1, 12, 2),
        (0.24, 70, 17),
    ],
)
def test_n_trim_is_the_ceiling(beta: float, n: int, expected: int) -> None:
    assert n_trim_for(beta, n) == expected


@pytest.mark.parametrize(("beta", "n"), [(0.1, 4), (0.01, 1), (0.24, 5), (0.2, 12), (0.0, 0)])
def test_n_trim_without_quorum(beta: float, n: int) -> None:
    with pytest.raises(NoQuorumError):
        n_trim_for(beta, n)


@pytest.mark.parametrize("beta", [-0.1, 0.25, 0.5, np.nan])
def test_beta_out_of_range(beta: float) -> None:
    with pytest.raises(SettingsError, match="beta"):
        n_trim_for(beta, 40)
