"""The choice between the cloud's answer and the station's own, (8) and (9), and the constants of (9)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamgp.fusion import ChoiceConstants, Fused, choose
from streamgp.fusion.bounds import SquaredExponential, Theory, dispersion, estimate_lipschitz
from streamgp.gp.gaussian import Gaussian

THEORY = Theory(SquaredExponential(2.0, 0.3), 0.04, 0.09, sup_norm=3.0, lipschitz=5.0, beta=0.1, alpha=0.05, delta=0.1)


def test_eq8_takes_the_smaller_variance_and_keeps_its_own_in_a_tie() -> None:
    local = Gaussian(np.zeros(3), np.array([1.0, 2.0, 3.0]), np.ones(3))
    cloud = Fused(np.zeros(3), np.array([2.0, 2.0, 2.0]), np.ones((1, 3), dtype=bool))
    np.testing.assert_array_equal(choose(local, cloud), [False, False, True])
    np.testing.assert_array_equal(choose(local.variance, cloud.variance), [False, False, True])


def test_without_a_cloud_or_with_a_broken_one_the_station_keeps_its_own() -> None:
    assert not choose([1.0, 2.0], None).any()
    assert not choose([1.0, 2.0], [np.nan, np.inf]).any()


@pytest.mark.parametrize("impossible", [-1.0, 0.0, np.nan])
def test_a_variance_that_no_answer_can_have_is_never_taken(impossible: float) -> None:
    constants = ChoiceConstants(1.0, 1.0, 0.0)
    assert not choose([1.0], [impossible])[0]
    assert not choose([1.0], [impossible], "eq9", constants=constants)[0]


def test_eq9_by_hand() -> None:
    constants = ChoiceConstants(theta_cloud=2.0, theta_local=3.0, margin=0.5)
    np.testing.assert_array_equal(
        choose([1.0, 1.0, 1.0], [1.0, 1.25, 1.3], "eq9", constants=constants), [True, False, False]
    )


def test_the_theorems_constants_by_hand() -> None:
    c = ChoiceConstants.from_theory(THEORY, noise_variance=0.05, dispersion=0.02, dispersion_bound=0.05)
    near, far = 2.0 * math.exp(-0.5 * (0.02 / 0.3) ** 2), 2.0 * math.exp(-0.5 * (0.05 / 0.3) ** 2)
    sigma = 2.0 * 0.3 / 2.04
    assert c.theta_cloud == pytest.approx((2.09 - far) / (0.8 * 2.0 * 0.04) * 3.0)
    assert c.theta_local == pytest.approx(math.sqrt(0.05) * near / (4.0 + 0.1 - near**2))
    assert c.margin == pytest.approx(2.0 * 5.0 * 0.05 / 2.04 + math.sqrt(2 * sigma**2 * (math.log(2) - math.log(0.1))))


def test_theorem_1_by_hand() -> None:
    k, sigma = 2.0 * math.exp(-0.5 * (0.1 / 0.3) ** 2), 2.0 * 0.3 / 2.04
    theta = (1 - k / 2.09) * 3.0 + 2.0 * 5.0 * 0.1 / 2.04 + math.sqrt(2 * sigma**2 * math.log(20.0))
    assert THEORY.local_error(0.1) == pytest.approx(theta)
    assert THEORY.attack_error(0.1) == pytest.approx((4 + 0.18 - k**2) / (2.0 * 0.04) * 0.1 / 0.6 * theta)
    assert THEORY.variance_bounds(0.1) == pytest.approx((0.8 * 2.0 * 0.04 / 2.09, (2.0 - k**2 / 2.09) / 0.6))


def test_constants_from_a_record_find_out_who_is_better() -> None:
    """Both claim the same variance, but the cloud errs less: with estimated constants (9) picks the cloud."""
    rng = np.random.default_rng(0)
    n = 400
    record = {
        "local_error": rng.normal(size=n),
        "local_variance": np.full(n, 0.5),
        "cloud_error": 0.5 * rng.normal(size=n),
        "cloud_variance": np.full(n, 0.5),
    }
    constants = ChoiceConstants.from_record(**record)
    assert constants.theta_cloud == pytest.approx(1.0, rel=0.1)
    assert constants.theta_local == pytest.approx(2.0, rel=0.1)
    assert choose([0.5], [0.5], "eq9", constants=constants).all()
    assert not choose([0.5], [1.5], "eq9", constants=constants).any()
    wary = ChoiceConstants.from_record(**record, margin=1.0)
    assert not choose([0.5], [0.5], "eq9", constants=wary).any()


@pytest.mark.parametrize("seed", range(3))
def test_constants_from_a_record_would_have_chosen_best(seed: int) -> None:
    """The station is right only where it claims to know much, and wrong elsewhere whatever it claims."""
    rng = np.random.default_rng(seed)
    n = 300
    local_variance, cloud_variance = rng.uniform(0.1, 1.0, n), np.full(n, 0.5)
    local_error = np.where(local_variance < 0.3, 0.1, 2.0) * rng.choice([-1.0, 1.0], n)
    cloud_error = np.full(n, 0.7)
    constants = ChoiceConstants.from_record(
        local_error=local_error, local_variance=local_variance, cloud_error=cloud_error, cloud_variance=cloud_variance
    )
    use = choose(local_variance, cloud_variance, "eq9", constants=constants)
    np.testing.assert_array_equal(use, local_variance >= 0.3)


@pytest.mark.parametrize(("local_error", "cloud"), [(3.0, True), (0.1, False)])
def test_constants_from_a_record_where_one_is_always_better(local_error: float, cloud: bool) -> None:
    variances = np.linspace(0.2, 2.0, 50)
    constants = ChoiceConstants.from_record(
        local_error=np.full(50, local_error),
        local_variance=variances,
        cloud_error=np.full(50, 1.0),
        cloud_variance=np.ones(50),
    )
    assert (choose(variances, np.ones(50), "eq9", constants=constants) == cloud).all()
    never = ChoiceConstants.from_record(
        local_error=np.zeros(3), local_variance=np.ones(3), cloud_error=np.ones(3), cloud_variance=np.ones(3)
    )
    assert not choose([1.0], [0.1], "eq9", constants=never).any()


def test_lipschitz_constant_is_found_through_the_noise() -> None:
    rng = np.random.default_rng(1)
    Z = rng.random((2000, 1))
    steep = 3.0 * np.sin(4.0 * Z[:, 0])
    noisy = steep + 0.1 * rng.standard_normal(2000)
    assert estimate_lipschitz(Z, steep, 0.0) == pytest.approx(12.0, rel=0.02)
    assert 6.0 < estimate_lipschitz(Z, noisy, 0.01) <= 12.5
    assert estimate_lipschitz(Z, 0.1 * rng.standard_normal(2000), 0.01) < 1.0
    assert estimate_lipschitz(Z[:1], steep[:1], 0.0) == 0.0


def test_dispersion_by_hand() -> None:
    region = np.linspace(0.0, 1.0, 101)[:, None]
    assert dispersion(np.array([[0.25], [0.75]]), region) == pytest.approx(0.25)
    assert dispersion(np.zeros((0, 1)), region) == math.inf


@pytest.mark.parametrize(
    "call",
    [
        lambda: choose([1.0], [1.0], "eq10"),
        lambda: choose([1.0], [1.0], "eq9"),
        lambda: choose([1.0], [1.0, 2.0]),
        lambda: ChoiceConstants(-1.0, 0.0, 0.0),
        lambda: ChoiceConstants(1.0, math.nan, 0.0),
        lambda: ChoiceConstants.from_theory(THEORY, noise_variance=0.5, dispersion=0.1, dispersion_bound=0.2),
        lambda: ChoiceConstants.from_theory(THEORY, noise_variance=0.05, dispersion=0.3, dispersion_bound=0.2),
        lambda: Theory(SquaredExponential(1.0, 1.0), 0.2, 0.1),
        lambda: Theory(SquaredExponential(1.0, 1.0), 0.1, 0.1, beta=0.25),
        lambda: Theory(SquaredExponential(1.0, 1.0), 0.1, 0.1, sup_norm=-1.0),
    ],
)
def test_bad_settings_are_refused(call) -> None:
    with pytest.raises(ValueError):
        call()
