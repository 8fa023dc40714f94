"""What a stranger may hand to the fusion rules, the choice and the attacks: the right answer or a clear error."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamgp.errors import NoQuorumError, SettingsError
from streamgp.fusion import (
    Calibration,
    ChoiceConstants,
    bcm,
    calibrated_poe,
    choose,
    covariance_intersection,
    cut_sides,
    geometric_median,
    gpoe,
    grbcm,
    is_degraded,
    krum,
    make_attack,
    mean_of_experts,
    median_of_experts,
    min_variance,
    n_trim_for,
    outlying,
    product_of_experts,
    rbcm,
    trimmed_poe,
    usable,
)
from streamgp.fusion.bounds import SquaredExponential, Theory, dispersion, estimate_lipschitz
from streamgp.fusion.liar import Answer
from streamgp.fusion.trust import TrustLedger
from tests.fusion.answers import random_answers

RULES: dict[str, Callable[..., Any]] = {
    "product": product_of_experts,
    "gpoe": gpoe,
    "bcm": functools.partial(bcm, prior_variance=9.0),
    "rbcm": functools.partial(rbcm, prior_variance=9.0),
    "grbcm": grbcm,
    "min variance": min_variance,
    "covariance intersection": covariance_intersection,
    "mean": mean_of_experts,
    "median": median_of_experts,
    "geometric median": geometric_median,
    "krum": functools.partial(krum, n_byzantine=0),
    "trimmed": functools.partial(trimmed_poe, n_trim=0),
    "by records": functools.partial(calibrated_poe, n_trim=0),
}
DOORS: dict[str, Callable[..., Any]] = {
    **RULES,
    "cut_sides": functools.partial(cut_sides, n_trim=0),
    "outlying": outlying,
    "is_degraded": functools.partial(is_degraded, n_trim=0),
    "usable": usable,
}
M, V = [[1.0], [2.0], [4.0], [8.0], [9.0]], [[1.0], [2.0], [3.0], [4.0], [5.0]]


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize(
    ("means", "variances", "message"),
    [
        ([], [], "must both be"),
        (np.zeros((0, 3)), np.zeros((0, 3)), "no agent"),
        ([1.0, 2.0], [1.0, 1.0], "must both be"),
        (1.0, 1.0, "must both be"),
        (np.zeros((2, 2, 2)), np.ones((2, 2, 2)), "must both be"),
        ([[1.0], [2.0]], [[1.0]], "must both be"),
        ([[1.0], [2.0, 3.0]], [[1.0], [1.0, 1.0]], "means must be an array of numbers"),
        ([["1"]], [[1.0]], "means must be real numbers"),
        ([[1.0]], [["text"]], "variances must be real numbers"),
        (None, None, "means must be real numbers"),
        ([[None]], [[1.0]], "means must be real numbers"),
        ([[1j]], [[1.0]], "means must be real numbers"),
        ([[10**400]], [[1.0]], "means must be real numbers"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), [[1.0]], "means must be real numbers"),
    ],
)
def test_what_is_no_table_of_answers_is_refused(name: str, means: Any, variances: Any, message: str) -> None:
    """C37: text, and all else that is no number, stops at the door and says which argument it was."""
    with pytest.raises(ValueError, match=message):
        DOORS[name](means, variances)


@pytest.mark.parametrize("name", RULES)
def test_an_answer_behind_a_mask_is_none(name: str) -> None:
    means, variances = random_answers(3, 6, 4)
    hidden = np.zeros((6, 4), dtype=bool)
    hidden[4] = True
    masked = np.ma.masked_array(means, mask=hidden)
    fused, expected = RULES[name](masked, variances), RULES[name](np.where(hidden, np.nan, means), variances)
    np.testing.assert_array_equal(fused.mean, expected.mean)
    assert not fused.kept[4].any()
    whole = RULES[name](np.ma.masked_array(means), np.ma.masked_array(variances))
    np.testing.assert_array_equal(whole.mean, RULES[name](means, variances).mean)


@pytest.mark.parametrize("name", RULES)
def test_nothing_asked_is_nothing_said(name: str) -> None:
    fused = RULES[name](np.zeros((3, 0)), np.zeros((3, 0)))
    assert fused.mean.shape == fused.variance.shape == fused.counts.shape == (0,)


@pytest.mark.parametrize("beta", [0.25, 0.5, 0.6, 1.0, -0.1, np.nan, np.inf, "0.1", None, [0.1]])
def test_a_beta_that_is_none_is_refused_by_its_own_name(beta: Any) -> None:
    with pytest.raises(SettingsError, match=r"beta must be a number in \[0, 1/4\)"):
        n_trim_for(beta, 40)


def test_a_number_of_agents_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        n_trim_for(0.1, -3)
    with pytest.raises(TypeError, match="integer"):
        n_trim_for(0.1, 9.5)  # type: ignore[arg-type]  # that is the point
    assert n_trim_for(np.float32(0.1), np.int64(40)) == 4


def test_whether_it_is_degraded_needs_a_cut_that_is_one() -> None:
    with pytest.raises(ValueError, match="negative"):
        is_degraded(M, V, -1)
    with pytest.raises(TypeError, match="integer"):
        is_degraded(M, V, 1.0)  # type: ignore[arg-type]  # that is the point
    assert not is_degraded(M, V, 10**30)


@pytest.mark.parametrize(
    ("factor", "barred", "message"),
    [
        ([1.0] * 4, [False] * 4, "of 5 agents"),
        ([1.0] * 5, [False] * 4, "n_agents"),
        ([[1.0]] * 5, [[False]] * 5, "n_agents"),
        ([1.0] * 5, [0] * 5, "booleans"),
        ([np.nan, 1.0, 1.0, 1.0, 1.0], [False] * 5, "factors must be"),
        ([0.0, 1.0, 1.0, 1.0, 1.0], [False] * 5, "factors must be"),
        ([-1.0, 1.0, 1.0, 1.0, 1.0], [False] * 5, "factors must be"),
        ([np.inf, 1.0, 1.0, 1.0, 1.0], [False] * 5, "factors must be"),
        (["a"] * 5, [False] * 5, "factor must be real numbers"),
    ],
)
def test_records_that_are_none_are_refused(factor: Any, barred: Any, message: str) -> None:
    for judge in (calibrated_poe, is_degraded):
        with pytest.raises(ValueError, match=message):
            judge(M, V, 1, calibration=Calibration(factor, barred))
    plain = calibrated_poe(M, V, 1, calibration=Calibration([1] * 5, [False] * 5))  # type: ignore[arg-type]  # a list will do
    np.testing.assert_array_equal(plain.mean, calibrated_poe(M, V, 1).mean)


@pytest.mark.parametrize("scale", [1e-70, 1e70])
@pytest.mark.parametrize("name", ["trimmed", "by records", "median", "mean", "product"])
def test_units_of_any_size(name: str, scale: float) -> None:
    means, variances = random_answers(5, 9, 6)
    plain, fused = RULES[name](means, variances), RULES[name](scale * means, scale**2 * variances)
    np.testing.assert_allclose(fused.mean, scale * plain.mean, rtol=1e-12)
    np.testing.assert_allclose(fused.variance, scale**2 * plain.variance, rtol=1e-12)


@pytest.mark.parametrize("bad", [["a"], [1j], None, [None]])
def test_what_is_no_variance_cannot_be_chosen_by(bad: Any) -> None:
    with pytest.raises(ValueError, match="variances must be real numbers"):
        choose(bad, [1.0])
    assert choose([10.0], [10.0], "eq9", constants=ChoiceConstants(1e308, 1e308, 0.0)).tolist() == [False]


def record(**change: Any) -> dict[str, Any]:
    given = {
        "local_error": [1.0, 2.0, -1.0],
        "local_variance": [1.0, 2.0, 1.0],
        "cloud_error": [0.5, 1.0, 0.1],
        "cloud_variance": [1.0, 1.0, 0.5],
    }
    return {**given, **change}


@pytest.mark.parametrize(
    ("column", "bad"),
    [
        ("local_error", np.nan),
        ("cloud_error", np.inf),
        ("local_error", 1e300),
        ("local_variance", 0.0),
        ("cloud_variance", -1.0),
        ("cloud_variance", 1e-300),
        ("local_variance", np.inf),
    ],
)
def test_a_row_of_the_record_that_no_answer_could_give_tells_nothing(column: str, bad: float) -> None:
    without = {name: values[1:] for name, values in record().items()}
    with_it = record(**{column: [bad, *record()[column][1:]]})
    assert ChoiceConstants.from_record(**with_it) == ChoiceConstants.from_record(**without)


def test_a_record_of_any_size_gives_the_same_choice() -> None:
    plain = ChoiceConstants.from_record(**record())
    for size in (1e-140, 1e140):
        errors = {name: size * np.array(record()[name]) for name in ("local_error", "cloud_error")}
        sized = ChoiceConstants.from_record(**record(**errors))
        assert sized.theta_cloud / sized.theta_local == pytest.approx(plain.theta_cloud / plain.theta_local)
        assert sized.theta_cloud == pytest.approx(size * plain.theta_cloud)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"local_error": [1.0], "local_variance": [1.0]}, "one length"),
        ({name: [values] for name, values in record().items()}, "one length"),
        ({name: [] for name in record()}, "no row"),
        ({"cloud_variance": [0.0, 0.0, 0.0]}, "no row"),
        ({"cloud_variance": ["a", "b", "c"]}, "cloud_variance must be real numbers"),
    ],
)
def test_a_record_that_is_none_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ChoiceConstants.from_record(**record(**change))


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("gaussian", {"seed": -1}, "seed"),
        ("gaussian", {"seed": "a"}, "seed"),
        ("gaussian", {"seed": 1.5}, "seed"),
        ("alie", {"n_liars": -1}, "n_liars must be a whole number"),
        ("alie", {"n_liars": 1.5}, "n_liars must be a whole number"),
        ("collusion", {"n_trim": 0.5}, "n_trim must be a whole number"),
        ("flood", {"copies": 2.5}, "copies must be a whole number"),
        ("sleeper", {"after": -1}, "after must be a whole number"),
        ("same-value", {"magnitude": np.nan}, "magnitude must be a finite number"),
    ],
)
def test_attacks_with_settings_that_are_none_are_refused(kind: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        make_attack(kind, **settings)


def test_an_attack_is_given_an_answer_to_points() -> None:
    liar = make_attack("gaussian")
    assert liar.strike("q", [], [], [])[0].mean.shape == (0,)
    for wrong in (([[1.0]], [[1.0]], [[1.0]]), ([1.0, 2.0, 3.0], [1.0, 2.0], [1.0]), (["a"], [1.0], [1.0])):
        with pytest.raises(ValueError, match=r"must be"):
            liar.strike("q", *wrong)
    answer = Answer.of("q", np.ma.masked_array([1.0, 2.0], mask=[False, True]), 1.0, 0.0)
    assert np.isnan(answer.mean).tolist() == [False, True]


@pytest.mark.parametrize(
    "change",
    [
        {"noise_greatest": np.inf},
        {"noise_least": np.nan},
        {"alpha": 0.3},
        {"alpha": -0.1},
        {"lipschitz": np.inf},
        {"sup_norm": np.nan},
        {"beta": 0.25},
    ],
)
def test_a_theory_that_supposes_nothing_is_refused(change: dict[str, float]) -> None:
    supposed = {"noise_least": 0.1, "noise_greatest": 0.2, "beta": 0.1}
    with pytest.raises(SettingsError):
        Theory(SquaredExponential(1.0, 0.2), **{**supposed, **change})


def test_what_has_no_slope_and_no_dispersion() -> None:
    for signal, length in ((0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (1.0, np.nan), (np.inf, 1.0)):
        with pytest.raises(SettingsError):
            SquaredExponential(signal, length)
    with pytest.raises(ValueError, match="without points"):
        dispersion(np.zeros((3, 2)), np.zeros((0, 2)))
    for noise, y in ((-0.1, [0.0, 1.0]), (0.1, [0.0, np.nan])):
        with pytest.raises(ValueError, match="finite observations"):
            estimate_lipschitz(np.zeros((2, 1)), np.array(y), noise)


def test_nobody_left_behind_the_masks_is_no_quorum() -> None:
    with pytest.raises(NoQuorumError):
        mean_of_experts(np.ma.masked_all((3, 1)), np.ones((3, 1)))


@pytest.mark.parametrize("seed", range(40))
def test_ties_are_cut_by_the_other_quantity_and_then_by_row(seed: int) -> None:
    """As a sort by both and the row says, whatever is tied with what, and whoever has no usable answer."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 30)), 6
    M = rng.integers(0, 4, (n, m)).astype(float)
    V = 1.0 + rng.integers(0, 3, (n, m))
    M[rng.random((n, m)) < 0.1] = np.nan
    n_trim = int(rng.integers(0, (n - 1) // 4 + 1))
    cuts = cut_sides(M, V, n_trim)
    for j in range(m):
        usable = np.flatnonzero(np.isfinite(M[:, j]))
        removed = n - len(usable)
        cut = n_trim if 4 * n_trim < len(usable) else max(n_trim - removed, 0)
        by_mean = sorted(usable, key=lambda i: (M[i, j], V[i, j], i))
        by_variance = sorted(usable, key=lambda i: (V[i, j], M[i, j], i))
        for mask, chosen in (
            (cuts.mean_low, by_mean[:cut]),
            (cuts.mean_high, by_mean[len(usable) - cut :]),
            (cuts.variance_low, by_variance[:cut]),
            (cuts.variance_high, by_variance[len(usable) - cut :]),
        ):
            assert np.flatnonzero(mask[:, j]).tolist() == sorted(chosen)


def test_a_calibration_is_not_changed_from_outside() -> None:
    factor = np.ones(2)
    calibration = Calibration(factor, np.zeros(2, dtype=bool))
    factor[0] = 5.0
    assert calibration.factor.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        calibration.factor[0] = 5.0


def test_a_ledger_that_refuses_a_call_has_not_changed() -> None:
    ledger = TrustLedger()
    ledger.note("q", ["A", "B"], [[0.0], [1.0]], [[1.0], [1.0]], [[0.0], [0.0]], n_trim=0)
    before = ledger.state()["tallies"]
    with pytest.raises(ValueError, match="2 agents"):
        ledger.note("r", ["A", "B"], [[0.0]], [[1.0]], [[0.0]], n_trim=0, missing=["C"], refused={"D": "late"})
    assert ledger.state()["tallies"] == before
    with pytest.raises(ValueError, match="shape"):
        ledger.settle("q", [1.0, 2.0])
    assert ledger.settle("q", [1.0])
