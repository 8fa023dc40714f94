"""Every rule under hostile arrays: ties, infinities, NaN, absurd sizes, one agent, no point, read-only memory."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgp.errors import NoQuorumError
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
    mean_of_experts,
    median_of_experts,
    min_variance,
    n_trim_for,
    outlying,
    product_of_experts,
    rbcm,
    trimmed_poe,
)
from streamgp.fusion.fused import usable_mask

WHOLE = ("geometric median", "krum")  # an agent that is not usable somewhere is out everywhere
POINTWISE = {
    "product": product_of_experts,
    "product, correlated": functools.partial(product_of_experts, rho=0.3),
    "gpoe": gpoe,
    "gpoe, entropy": functools.partial(gpoe, prior_variance=1.7),
    "bcm": functools.partial(bcm, prior_variance=1.7),
    "bcm, wide prior": functools.partial(bcm, prior_variance=1e150),
    "rbcm": functools.partial(rbcm, prior_variance=1e150),
    "min variance": min_variance,
    "covariance intersection": covariance_intersection,
    "covariance intersection, Def. 10": functools.partial(covariance_intersection, prior_variance=1.7, sharpness=40.0),
    "mean": mean_of_experts,
    "median": median_of_experts,
}
BETWEEN = [name for name in POINTWISE if "bcm" not in name]  # a committee also knows the prior's mean, 0

means = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 1e9, -1e9, 1e150, -1e150, 5e-324]), st.floats(-1e3, 1e3, allow_nan=False)
)
bad_means = st.sampled_from([np.nan, np.inf, -np.inf, 1e300, 1e151])
variances = st.one_of(st.sampled_from([1.0, 0.5, 1.7, 1e-6, 1e6, 1e-150, 1e150]), st.floats(1e-6, 1e6))
bad_variances = st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1e-300, 1e300])


@st.composite
def answers(draw) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """Read-only means and variances (n, m), a cut that has a quorum, and an order of the agents."""
    n, m, dirty = draw(st.integers(1, 9)), draw(st.integers(0, 3)), draw(st.booleans())

    def block(good, bad) -> np.ndarray:
        number = st.one_of(good, good, good, bad) if dirty else good
        flat = draw(st.lists(number, min_size=n * m, max_size=n * m))
        array = np.array(flat, dtype=np.float64).reshape(n, m)
        array.flags.writeable = False
        return array

    order = np.array(draw(st.permutations(range(n))))
    return block(means, bad_means), block(variances, bad_variances), draw(st.integers(0, (n - 1) // 4)), order


def held(name: str, rule, M: np.ndarray, V: np.ndarray, order: np.ndarray) -> None:
    """What every rule promises, whatever it is given."""
    ok = usable_mask(M, V)
    if name in WHOLE:
        ok = np.repeat(ok.all(axis=1)[:, None], M.shape[1], axis=1)
    try:
        fused = rule(M, V)
    except NoQuorumError:
        assert name == "krum" or not ok.any(axis=0).all() or not ok.shape[1]
        return
    assert fused.mean.shape == fused.variance.shape == (M.shape[1],)
    assert np.isfinite(fused.mean).all()
    assert np.isfinite(fused.variance).all()
    assert (fused.variance > 0).all()
    assert not (fused.kept & ~ok).any()
    assert not any(np.shares_memory(a, b) for a in (fused.mean, fused.variance) for b in (M, V))
    moved = rule(np.asfortranarray(M[order]), V[order])
    np.testing.assert_array_equal(moved.mean, fused.mean)
    np.testing.assert_array_equal(moved.variance, fused.variance)
    np.testing.assert_array_equal(moved.counts, fused.counts)
    if name not in ("krum", "trimmed"):  # of two equal answers these keep one
        np.testing.assert_array_equal(moved.kept, fused.kept[order])
    for j in np.flatnonzero(ok.sum(axis=0) == 1):
        who = int(ok[:, j].argmax())
        assert fused.mean[j] == M[who, j]
        assert fused.variance[j] == V[who, j]
    if name in BETWEEN or name in ("trimmed", "calibrated", *WHOLE):
        low, high = np.where(ok, M, np.inf).min(axis=0), np.where(ok, M, -np.inf).max(axis=0)
        slack = 1e-12 * (np.abs(low) + np.abs(high)) if name in ("mean", "median") else 0.0
        assert (fused.mean >= low - slack).all()
        assert (fused.mean <= high + slack).all()


@pytest.mark.parametrize("name", POINTWISE)
@given(case=answers())
@settings(max_examples=40, deadline=None)
def test_the_family(name: str, case) -> None:
    """C37: what cannot be used has no share, and nothing that is not finite leaves."""
    M, V, _, order = case
    held(name, POINTWISE[name], M, V, order)


@pytest.mark.parametrize("name", ["trimmed", "calibrated", *WHOLE])
@given(case=answers())
@settings(max_examples=80, deadline=None)
def test_the_robust_ones(name: str, case) -> None:
    M, V, n_trim, order = case
    rules = {
        "trimmed": functools.partial(trimmed_poe, n_trim=n_trim),
        "calibrated": functools.partial(calibrated_poe, n_trim=n_trim),
        "geometric median": geometric_median,
        "krum": functools.partial(krum, n_byzantine=n_trim),
    }
    held(name, rules[name], M, V, order)


@given(case=answers())
@settings(max_examples=40, deadline=None)
def test_grbcm_but_for_its_first_row(case) -> None:
    M, V, _, order = case
    order = np.concatenate([[0], order[order > 0]])
    try:
        fused = grbcm(M, V)
    except NoQuorumError:
        assert not usable_mask(M, V)[0].all()
        return
    assert np.isfinite(fused.mean).all()
    assert np.isfinite(fused.variance).all()
    assert (fused.variance > 0).all()
    np.testing.assert_array_equal(grbcm(M[order], V[order]).mean, fused.mean)


@given(case=answers(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_records_of_any_size(case, data) -> None:
    M, V, n_trim, order = case
    n = len(M)
    factor = data.draw(st.lists(st.sampled_from([1e-12, 1e-3, 1.0, 1.0, 9.0, 1e12]), min_size=n, max_size=n))
    records = Calibration(np.array(factor), np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n))))
    try:
        fused = calibrated_poe(M, V, n_trim, calibration=records)
    except NoQuorumError:
        return
    moved = Calibration(records.factor[order], records.barred[order])
    np.testing.assert_array_equal(calibrated_poe(M[order], V[order], n_trim, calibration=moved).mean, fused.mean)
    assert fused.kept.any(axis=0).all()
    assert isinstance(is_degraded(M, V, n_trim, calibration=records), bool)
    assert outlying(M, V)[~usable_mask(M, V)].all()
    np.testing.assert_array_equal(cut_sides(M, V, n_trim).kept, trimmed_poe(M, V, n_trim).kept)


@pytest.mark.parametrize("rule", [product_of_experts, gpoe, covariance_intersection])
@given(case=answers(), data=st.data())
@settings(max_examples=40, deadline=None)
def test_weights_of_any_size(rule, case, data) -> None:
    M, V, _, order = case
    sizes = st.sampled_from([0.0, 5e-324, 1e-160, 1e-3, 1.0, 7.0, 1e150])
    weights = np.array(data.draw(st.lists(sizes, min_size=len(M), max_size=len(M))))
    try:
        fused = rule(M, V, weights)
    except NoQuorumError:
        return
    assert np.isfinite(fused.mean).all()
    assert (fused.variance > 0).all()
    assert np.isfinite(fused.variance).all()
    np.testing.assert_array_equal(rule(M[order], V[order], weights[order]).mean, fused.mean)


@pytest.mark.parametrize("weights", [[1e308, 1.0], [np.inf, 1.0], [np.nan, 1.0], [-1.0, 1.0]])
def test_weights_that_are_none_are_refused(weights) -> None:
    with pytest.raises(ValueError, match="weights must be"):
        product_of_experts([[1.0], [2.0]], [[1.0], [1.0]], weights)


@pytest.mark.parametrize("cut", [0.5, 1.0, np.nan, "1", None])
@pytest.mark.parametrize("rule", [trimmed_poe, calibrated_poe, krum])
def test_a_cut_that_is_no_whole_number_is_refused(rule, cut) -> None:
    with pytest.raises(TypeError, match="integer"):
        rule(np.zeros((9, 1)), np.ones((9, 1)), cut)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, bool])
@pytest.mark.parametrize("name", POINTWISE)
def test_numbers_of_any_type_are_computed_in_double_precision(name: str, dtype) -> None:
    M, V = np.array([[1], [0], [1]], dtype=dtype), np.array([[1], [1], [1]], dtype=dtype)
    plain = POINTWISE[name](M.astype(np.float64), V.astype(np.float64))
    fused = POINTWISE[name](M, V)
    assert fused.mean.dtype == fused.variance.dtype == np.float64
    np.testing.assert_array_equal(fused.mean, plain.mean)


def test_beta_above_nothing_always_cuts() -> None:
    assert n_trim_for(1e-12, 5) == 1
    with pytest.raises(NoQuorumError):
        n_trim_for(np.nextafter(0.25, 0.0), 1_000_000)


@pytest.mark.parametrize("rule", ["eq8", "eq9"])
def test_where_no_variance_is_finite_the_station_keeps_its_own(rule) -> None:
    local, cloud = np.array([np.inf, 1.0, np.inf]), np.array([np.inf, np.inf, 1.0])
    use = choose(local, cloud, rule, constants=ChoiceConstants(1.0, 1.0, 0.0))
    assert use.tolist() == [False, False, True]
    assert choose([], [], rule, constants=ChoiceConstants(1.0, 1.0, 0.0)).shape == (0,)
