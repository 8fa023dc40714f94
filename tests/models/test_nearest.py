"""The nearest-neighbour GP against the textbook and against brute force; the field reports on numerics."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from streamgp.models.nearest import NearestNeighborGP
from streamgp.models.neighbours import NeighbourIndex
from streamgp.models.places import Places

KERNEL = ConstantKernel(1.5) * RBF([0.6, 1.2])


def data(n: int, seed: int = 0, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)


def dense(kernel, noise, X, y, Z):
    K = kernel(X) + noise * np.eye(len(X))
    k = kernel(Z, X)
    return k @ np.linalg.solve(K, y), kernel.diag(Z) - np.einsum("ij,ij->i", k, np.linalg.solve(K, k.T).T)


def test_with_all_neighbours_it_is_the_dense_gp_row_by_row_or_at_once() -> None:
    """C28, R41: 300 rows, hyperparameters fixed."""
    X, y = data(300)
    X[7] = X[3]
    Z = data(50, 1)[0]
    mean, variance = dense(KERNEL, 0.1, X, y, Z)
    at_once = NearestNeighborGP(KERNEL, n_neighbors=300, optimizer=None).fit(X, y)
    one_by_one = NearestNeighborGP(KERNEL, n_neighbors=300, optimizer=None)
    for i in range(300):
        one_by_one.partial_fit(X[i : i + 1], y[i : i + 1])
    for model in (at_once, one_by_one):
        m, s = model.predict(Z, return_std=True, latent=True)
        np.testing.assert_allclose(m, mean, atol=1e-8)
        np.testing.assert_allclose(s**2, variance, atol=1e-8)
        np.testing.assert_allclose(model.predict(Z, return_std=True)[1] ** 2, variance + 0.1, atol=1e-8)


@pytest.mark.parametrize("k", [1, 5, 32])
@pytest.mark.parametrize("kernel", [KERNEL, Matern(0.7, nu=1.5), DotProduct(1.0)], ids=["ard", "iso", "linear"])
def test_each_prediction_is_the_gp_on_its_own_nearest_rows(k: int, kernel: object) -> None:
    """Brute force: and the nearest, not the farthest. k = 1 is eq. (5)."""
    X, y = data(700, 2)
    Z = data(9, 3)[0]
    model = NearestNeighborGP(kernel, n_neighbors=k, optimizer=None).fit(X, y)
    mean, std = model.predict(Z, return_std=True, latent=True)
    ell = np.array([0.6, 1.2]) if kernel is KERNEL else np.ones(2)
    for i, z in enumerate(Z):
        near = np.argsort(np.sum(((X - z) / ell) ** 2, axis=1))[:k]
        m, v = dense(kernel, 0.1, X[near], y[near], z[None])
        np.testing.assert_allclose([mean[i], std[i] ** 2], [m[0], v[0]], atol=1e-9)


def test_the_index_grows_and_forgets_exactly() -> None:
    """Lattice rows, so that nearly every distance is tied: of equals the first comes first."""
    rng = np.random.default_rng(4)
    places = Places(2, 1, max_points=400)
    index = NeighbourIndex(places, np.array([1.0, 2.0]))
    for step in range(1500):
        z = rng.integers(0, 40, size=2).astype(float)
        added = places.add(z, np.zeros(1))
        if added.gone >= 0:
            index.remove(added.gone, added.gone_serial)
        if added.new:
            index.insert(added.slot)
        if step % 150 == 149:
            Z = rng.integers(0, 40, size=(5, 2)) + 0.5
            slots, _ = index.query(Z, 7)
            live = places.live()
            for z, found in zip(Z, slots, strict=True):
                far = np.sum(((places.rows[live] - z) * [1.0, 2.0]) ** 2, axis=1)
                want = live[np.lexsort((places.serial[live], far))[:7]]
                assert set(found) == set(want)


def test_max_points_is_the_model_of_the_last_ones() -> None:
    X, y = data(260, 5)
    X[250] = X[10]
    window = NearestNeighborGP(KERNEL, n_neighbors=10, max_points=100, optimizer=None).partial_fit(X, y)
    last = NearestNeighborGP(KERNEL, n_neighbors=10, optimizer=None).fit(X[-100:], y[-100:])
    Z = data(20, 6)[0]
    np.testing.assert_allclose(window.predict(Z), last.predict(Z), atol=1e-10)
    assert window.n_observations_ == 260


@pytest.mark.parametrize("max_points", [None, 60])
def test_standing_queries_are_fresh_ones(max_points: int | None) -> None:
    rng = np.random.default_rng(7)
    model = NearestNeighborGP(KERNEL, n_neighbors=6, max_points=max_points, optimizer=None).fit([[0.0, 0.0]], [1.0])
    Z = rng.integers(0, 9, size=(12, 2)) / 2.0
    queries = model.standing(Z)
    for _ in range(300):
        model.partial_fit(rng.integers(0, 9, size=(1, 2)) / 2.0, rng.normal(size=1))
        fresh = model.predict(Z, return_std=True)
        np.testing.assert_allclose(queries.predict(return_std=True), fresh, atol=1e-12)


def test_many_readings_of_one_row() -> None:
    """C22, R44: the same row 200 times, y alternating 1 and 3."""
    model = NearestNeighborGP(RBF(0.2), noise_variance=0.5, optimizer=None)
    for i in range(200):
        model.partial_fit([[0.3, 0.7]], [1.0 if i % 2 else 3.0])
    mean, std = model.predict([[0.3, 0.7], [0.9, 0.1]], return_std=True, latent=True)
    assert abs(mean[0] - 2.0) < 0.1
    assert 0 < std[0] ** 2 <= 2 * 0.5 / 200
    assert std[1] ** 2 > 0.99


def test_one_observation_and_none() -> None:
    """C25: the prior before, the textbook after."""
    model = NearestNeighborGP(RBF(), noise_variance=0.01, optimizer=None)
    with pytest.raises(NotFittedError):
        model.predict([[0.0]])
    prior = model.belief(np.zeros((1, 1)))
    assert (prior.mean[0], prior.variance[0], prior.noise_variance[0]) == (0.0, 1.0, 0.01)
    mean, std = model.fit([[0.0]], [5.0]).predict([[0.0], [50.0]], return_std=True, latent=True)
    assert mean[0] == pytest.approx(5 / 1.01)
    assert std[0] ** 2 == pytest.approx(0.0099, abs=1e-4)
    assert (mean[1], std[1]) == (0.0, 1.0)


@pytest.mark.parametrize("k", [32, 200])
def test_variances_stay_positive_where_digits_cancel(k: int) -> None:
    """C26, R49, R53: 200 points on [0, 1], length 1, noise 1e-10 and none."""
    X = np.linspace(0, 1, 200)[:, None]
    Z = np.linspace(0.013, 0.98, 7)[:, None]
    for noise in (1e-10, 0.0):
        model = NearestNeighborGP(RBF(1.0), noise_variance=noise, n_neighbors=k, optimizer=None).fit(X, np.sin(X[:, 0]))
        mean, std = model.predict(Z, return_std=True, latent=True)
        assert np.isfinite(std).all()
        assert (std > 0).all()
        np.testing.assert_allclose(mean, np.sin(Z[:, 0]), atol=1e-3)


def test_a_bad_start_is_left_behind() -> None:
    """C31, R51: sin(10 pi x), start length-scale 0.69; R52: columns of 1e-6 and 1e6."""
    x = np.linspace(0, 1, 100)
    y = np.sin(10 * np.pi * x)
    model = NearestNeighborGP(RBF(0.69), optimizer="lbfgs").fit(x[:, None], y)
    assert np.sqrt(np.mean((model.predict(x[:, None]) - y) ** 2)) < 0.1
    X = np.random.default_rng(0).normal(size=(80, 2)) * [1e-6, 1e6]
    target = np.sin(X[:, 0] * 1e6) + np.cos(X[:, 1] / 1e6)
    wide = NearestNeighborGP().fit(X, target)
    assert np.sqrt(np.mean((wide.predict(X) - target) ** 2)) < 0.1


def test_single_precision_times_are_named() -> None:
    """C23, R45."""
    t = 1.7e9 + 60.0 * np.arange(20)
    with pytest.warns(UserWarning, match="128 apart"):
        NearestNeighborGP(optimizer=None).fit(t.astype(np.float32)[:, None], np.arange(20.0))
    model = NearestNeighborGP(RBF(60.0), 1e-4, optimizer=None).fit(t[:, None], np.arange(20.0))
    a, b = model.predict([[t[5]], [t[6]]])
    assert b - a == pytest.approx(1.0, abs=0.2)


def test_copies_and_several_outputs() -> None:
    """R55: pickle after predicting; C44: clone is unlearned."""
    X, y = data(60, 8)
    model = NearestNeighborGP(KERNEL, n_neighbors=5, optimizer=None).fit(X, np.column_stack([y, -2 * y]))
    mean, std = model.predict(X[:4], return_std=True)
    assert mean.shape == std.shape == (4, 2)
    np.testing.assert_allclose(mean[:, 1], -2 * mean[:, 0], atol=1e-12)
    twin = pickle.loads(pickle.dumps(model))
    again = NearestNeighborGP.from_state(model.state())
    for each in (twin, again):
        np.testing.assert_array_equal(each.partial_fit(X[:1], mean[:1]).predict(X[:4]).shape, (4, 2))
    model.partial_fit(X[:1], mean[:1])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


@pytest.mark.parametrize(
    "wrong",
    [{"n_neighbors": 0}, {"n_neighbors": 1.5}, {"max_points": 0}, {"noise_variance": -1}, {"optimizer": "adam"}],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError):
        NearestNeighborGP(**wrong).fit([[0.0]], [0.0])


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_targets_that_are_all_zero_are_forecast_as_zero(learn: str) -> None:
    """A dry gauge: nothing is known of the size of its readings, and that is no reason for a NaN."""
    X = data(80)[0]
    model = getattr(NearestNeighborGP(), learn)(X, np.zeros(80))
    mean, std = model.predict(X[:3], return_std=True)
    assert (mean == 0.0).all()
    assert ((std > 0.0) & (std < 1.0)).all()


@pytest.mark.parametrize("size", [1e-9, 1e6, 1e9])
def test_the_default_kernel_follows_the_size_of_the_targets(size: float) -> None:
    X, y = data(60)
    assert NearestNeighborGP().fit(X, size * y).score(X, size * y) > 0.9


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_a_column_that_varies_by_rounding_alone_is_a_constant_one(learn: str) -> None:
    """A latitude of 53.3 has a standard deviation of 7e-15; a query that is rounded otherwise is still near."""
    X, y = data(60)
    wide = np.c_[X, np.full(60, 53.3)]
    model = getattr(NearestNeighborGP(), learn)(wide, y)
    near = model.predict(wide + np.array([0.0, 0.0, 1e-6]))
    assert near == pytest.approx(model.predict(wide), abs=1e-3)
