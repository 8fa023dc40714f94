"""What the estimators take and refuse at their public doors, whichever of them it is."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, CompoundKernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from streamgp import AsRiver, CPoERegressor, HierarchicalGP, NearestNeighborGP

KINDS = pytest.mark.parametrize("kind", [NearestNeighborGP, CPoERegressor])


def wave(n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


@KINDS
def test_pipelines_searches_frames_and_copies(kind: type) -> None:
    X, y = wave()
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = make_pipeline(StandardScaler(), kind(optimizer=None))
    found = GridSearchCV(model, {f"{kind.__name__.lower()}__noise_variance": [0.01, 0.1]}, cv=3).fit(frame, y)
    mean = found.predict(frame)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).predict(frame), mean)
    best = found.best_estimator_[-1]
    assert not hasattr(clone(best), "n_features_in_")
    with pytest.raises(ValueError, match="feature names"):
        kind(optimizer=None).fit(frame, y).predict(frame[["b", "a"]])


@KINDS
def test_a_generator_is_a_seed(kind: type) -> None:
    X, y = wave()
    one, other = (kind(random_state=np.random.default_rng(7)).fit(X, y).predict(X) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="seed"):
        kind(random_state="seven").fit(X, y)


@KINDS
def test_no_number_is_taken_from_behind_a_mask(kind: type) -> None:
    X, y = wave()
    hidden = np.ma.masked_array(X, X > 1.0)
    with pytest.raises(ValueError, match="masked"):
        kind(optimizer=None).fit(hidden, y)
    with pytest.raises(ValueError, match="masked"):
        kind(optimizer=None).partial_fit(X, np.ma.masked_array(y, y > 0.5))
    with pytest.raises(ValueError, match="masked"):
        kind(optimizer=None).fit(X, y).predict(hidden)
    with pytest.raises(ValueError, match="masked"):
        HierarchicalGP().fit([hidden], [y])
    open_ = np.ma.masked_array(X, np.zeros_like(X))
    np.testing.assert_array_equal(
        kind(optimizer=None).fit(open_, y).predict(X), kind(optimizer=None).fit(X, y).predict(X)
    )


@KINDS
def test_several_kernels_side_by_side_are_no_kernel(kind: type) -> None:
    with pytest.raises(TypeError, match="CompoundKernel"):
        kind(CompoundKernel([RBF(), RBF()])).fit(*wave())


def test_what_river_hands_over_is_checked_before_anything_changes() -> None:
    frame = pd.DataFrame(wave()[0], columns=["a", "b"])
    y = pd.Series(wave()[1])
    model, twin = (AsRiver(NearestNeighborGP(optimizer=None)) for _ in range(2))
    for x, target in (({}, 1.0), ({"c": 1e200}, 1.0), ({"c": "x"}, 1.0), ({"c": 1.0}, 1e200), ({"c": 1.0}, None)):
        with pytest.raises((TypeError, ValueError)):
            model.learn_one(x, target)
    for X, targets, word in (
        (frame, y[:5], "30 rows, y 5"),
        (frame.to_numpy(), y, "must be a frame"),
        (frame, y.to_frame(), "must be a series"),
        (frame.assign(b="x"), y, "b must be a number"),
        (frame.assign(b=1e200), y, r"b is 1e\+200"),
    ):
        with pytest.raises((TypeError, ValueError), match=word):
            model.learn_many(X, targets)
    for x in ([1.0], None, "a"):
        with pytest.raises(TypeError, match="must be a dict"):
            model.learn_one(x, 1.0)
    for x in ([1.0], None, "a"):
        with pytest.raises(TypeError, match="must be a dict"):
            model.predict_one(x)
    with pytest.raises(ValueError, match="too large"):
        model.learn_one({"a": 10**400}, 1.0)
    model.learn_many(frame, y.tolist())  # the columns are still those of the first that is learned
    twin.learn_many(frame, y)
    pd.testing.assert_series_equal(model.predict_many(frame), twin.predict_many(frame))
    with pytest.raises(ValueError, match=r"a is 1e\+200"):
        model.learn_one({"a": 1e200, "b": 1.0}, 0.0)
    assert model.predict_one({"a": pd.NA, "b": 1.0}) == model.predict_one({"b": 1.0})
    assert model.predict_one({"b": 1.0}) == twin.predict_one({"b": 1.0})  # the mean of a is what it was
