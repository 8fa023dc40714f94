"""Numbers of any size and offset: what is worked with, what is refused by name, and kernels for other rows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from streamgp import AsRiver, NearestNeighborGP
from streamgp.gp.kernels import ActiveDims, SpectralMixture
from streamgp.models.local import EstimatorModel

LEARN = pytest.mark.parametrize("learn", ["fit", "partial_fit"])


def wave(n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (n, 1))
    return X, np.sin(X[:, 0]) + 0.05 * rng.standard_normal(n)


@LEARN
@pytest.mark.parametrize(
    ("scale", "shift"),
    [(1.0, 1e5), (1.0, -1e9), (1e9, 0.0), (1e9, 1e13), (1e-9, 1e-3), (1e90, 0.0)],
)
def test_the_unit_and_the_zero_of_y_change_nothing_but_themselves(learn: str, scale: float, shift: float) -> None:
    """R50, C29: an offset a billion times the spread costs no digit of the forecast, nor does any unit."""
    X, y = wave(50)
    Z = np.linspace(0.0, 6.0, 9)[:, None]
    one, other = (getattr(NearestNeighborGP(), learn)(X, t) for t in (y, scale * y + shift))
    (mean, std), (mean_in, std_in) = (m.predict(Z, return_std=True) for m in (one, other))
    np.testing.assert_allclose((mean_in - shift) / scale, mean, atol=0.02)
    np.testing.assert_allclose(std_in / scale, std, rtol=0.05)


@pytest.mark.parametrize("settings", [{}, {"max_points": 50}])
def test_far_from_zero_a_stream_is_still_the_same_row_by_row_at_once_and_from_its_state(settings: dict) -> None:
    X, y = wave(150)
    targets = np.column_stack([y + 1e6, 0.5 * y])
    whole = NearestNeighborGP(**settings).partial_fit(X, targets)
    rows = NearestNeighborGP(**settings)
    for i in range(0, 150, 7):
        rows.partial_fit(X[i : i + 7], targets[i : i + 7])
    half = NearestNeighborGP(**settings).partial_fit(X[:90], targets[:90])
    twin = NearestNeighborGP.from_state(half.state()).partial_fit(X[90:], targets[90:])
    mean, std = whole.predict(X[:20], return_std=True)
    for other in (rows, twin):
        other_mean, other_std = other.predict(X[:20], return_std=True)
        np.testing.assert_array_equal(other_mean, mean)
        np.testing.assert_array_equal(other_std, std)
    np.testing.assert_array_equal(whole.standing(X[:20]).predict(), mean)
    assert whole.prior_mean_[0] == pytest.approx(1e6, abs=1.0)
    assert whole.prior_mean_[1] == 0.0


def test_the_prior_mean_is_zero_where_nothing_is_fitted_and_near_zero() -> None:
    """C25: hyperparameters that are given stay, and so does the prior."""
    X, y = wave()
    far = [[1e6]]
    assert NearestNeighborGP(RBF(1.0), optimizer=None).fit(X, y + 1e6).predict(far)[0] == 0.0
    assert NearestNeighborGP().fit(X, y + 5.0).prior_mean_[0] == 0.0
    assert NearestNeighborGP().fit([[0.0]], [1e6]).predict([[1e200]])[0] == 0.0


@LEARN
@pytest.mark.parametrize("largest", [1e101, 1e160, 1e308])
def test_what_has_no_square_is_refused_by_name(learn: str, largest: float) -> None:
    X, y = wave()
    with pytest.raises(ValueError, match="y contains"):
        getattr(NearestNeighborGP(), learn)(X, y * largest)
    with pytest.raises(ValueError, match="X contains"):
        getattr(NearestNeighborGP(), learn)(X * (largest / X.max()), y)


def test_a_refused_row_of_a_stream_changes_nothing() -> None:
    X, y = wave()
    model = NearestNeighborGP().partial_fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="X contains"):
        model.partial_fit([[0.0], [-1e200]], [0.0, 0.0])
    local, river = EstimatorModel(model), AsRiver(NearestNeighborGP())
    with pytest.raises(ValueError, match="at most 1e"):
        local.learn(np.array([[1e200]]), np.zeros(1))
    with pytest.raises(ValueError, match="at most 1e"):
        river.learn_one({"a": 1.0}, 1e160)
    assert model.n_observations_ == 80
    np.testing.assert_array_equal(model.predict(X), before)


@LEARN
def test_points_at_the_end_of_the_numbers_get_the_prior(learn: str) -> None:
    X, y = wave()
    model = getattr(NearestNeighborGP(ConstantKernel(4.0) * Matern(0.5, nu=2.5), optimizer=None), learn)(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for far in (1e100, 1e200, -1e308):
            mean, std = model.predict([[far], [1.0]], return_std=True, latent=True)
            assert (mean[0], std[0]) == (0.0, 2.0)
            assert mean[1] == model.predict([[1.0]])[0]
            np.testing.assert_array_equal(model.standing([[far]]).predict(), [0.0])
            assert EstimatorModel(model).predict(np.array([[far]])).variance[0] == 4.0
    linear = NearestNeighborGP(DotProduct(), optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match=r"X contains 1e\+200"):
        linear.predict([[1e200]])


@LEARN
@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (RBF([1.0, 1.0, 1.0]), "3 length-scales, X has 2 columns"),
        (ConstantKernel() * Matern([1.0] * 5), "5 length-scales, X has 2 columns"),
        (ActiveDims(RBF(1.0), [2]), r"columns \[2\], X has 2"),
        (SpectralMixture(1.0, frequencies=[1.0] * 3, length_scales=[1.0] * 3), "mixture has 3 columns, X has 2"),
    ],
)
def test_a_kernel_for_other_columns_is_refused_by_name(learn: str, kernel: object, words: str) -> None:
    X, y = wave()
    with pytest.raises(ValueError, match=words):
        getattr(NearestNeighborGP(kernel), learn)(np.c_[X, X], y)
    with pytest.raises(ValueError, match="X has 1"):
        getattr(NearestNeighborGP(RBF([1.0, 1.0])), learn)(X, y)


@pytest.mark.parametrize("noise", ["0.1", None, [0.1], float("nan"), -1.0, float("inf")])
def test_a_noise_that_is_no_number_is_refused_by_name(noise: object) -> None:
    with pytest.raises(ValueError, match="noise_variance must be"):
        NearestNeighborGP(noise_variance=noise).fit([[0.0]], [0.0])  # type: ignore[arg-type]  # what users do
