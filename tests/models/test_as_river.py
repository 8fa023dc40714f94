"""AsRiver: river's own checks, and its two conventions held against each other."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from river import checks, datasets, dummy, evaluate, metrics, preprocessing, stats
from sklearn.linear_model import Ridge

from streamgp import AsRiver, HierarchicalGP, NearestNeighborGP

MODEL = AsRiver(NearestNeighborGP(n_neighbors=8, optimizer=None))


@pytest.mark.parametrize("check", list(checks.yield_checks(MODEL)), ids=lambda c: getattr(c, "__name__", str(c)))
def test_rivers_own_checks_pass(check) -> None:  # type: ignore[no-untyped-def]  # river's functions have no types
    check(MODEL.clone())


def frame(n: int, seed: int = 1) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["b", "a", "c"])
    return X, pd.Series(np.sin(X["a"]) + X["b"] * 0.1 + 0.01 * rng.normal(size=n))


def test_many_equals_one_by_one_and_scikit_learn() -> None:
    """C44, R37: 100 rows at once, one by one, and through scikit-learn give the same to 1e-8."""
    X, y = frame(120)
    many, one = MODEL.clone(), MODEL.clone()
    many.learn_many(X[:100], y[:100])
    for x, target in zip(X[:100].to_dict("records"), y[:100], strict=True):
        assert one.learn_one(x, target) is None  # R35: as in river
    plain = NearestNeighborGP(n_neighbors=8, optimizer=None).fit(
        X[["a", "b", "c"]].to_numpy()[:100], y[:100].to_numpy()
    )
    mean, std = plain.predict(X[["a", "b", "c"]].to_numpy()[100:], return_std=True)
    told = many.predict_many(X[100:])
    assert told.index.tolist() == X[100:].index.tolist()
    np.testing.assert_allclose(told, mean, rtol=1e-8)
    for i, x in enumerate(X[100:].to_dict("records")):
        dist = one.predict_one(x, with_dist=True)
        assert dist.mu == pytest.approx(mean[i], rel=1e-8)
        assert dist.sigma == pytest.approx(std[i], rel=1e-8)
    assert many.clone().predict_one(x) == 0.0  # an unlearned copy with the same parameters


def test_before_any_data_and_after_one_observation() -> None:
    """C25: the prior; then 5 / 1.01 with latent variance 0.0099; far away the prior again."""
    model = AsRiver(NearestNeighborGP(noise_variance=0.01, optimizer=None))
    assert model.predict_one({"x": 3.0}) == 0.0
    assert model.predict_one({"x": 3.0}, with_dist=True).sigma ** 2 == pytest.approx(1.01)
    model.learn_one({"x": 0.0}, 5)
    here = model.predict_one({"x": 0.0}, with_dist=True)
    assert here.mu == pytest.approx(4.950, abs=1e-3)
    assert here.sigma**2 - 0.01 == pytest.approx(0.0099, abs=1e-4)
    far = model.predict_one({"x": 1e6}, with_dist=True)
    assert (far.mu, far.sigma**2) == (pytest.approx(0.0), pytest.approx(1.01))


@pytest.mark.parametrize("kind", [int, float, np.float32, np.int64, Decimal])
def test_numbers_of_every_kind_are_taken(kind: type) -> None:
    """R46: int, numpy and decimal numbers."""
    model = MODEL.clone()
    model.learn_one({"x": kind(1)}, kind(2))
    assert model.predict_one({"x": kind(1)}) > 1.0


@pytest.mark.parametrize("bad", ["7", b"7", [1.0], object()])
def test_what_is_no_number_is_one_clear_error(bad: object) -> None:
    model = MODEL.clone()
    with pytest.raises(TypeError, match="x must be a number"):
        model.learn_one({"x": bad}, 1.0)
    with pytest.raises(TypeError, match="y must be a number"):
        model.learn_one({"x": 1.0}, bad)
    with pytest.raises(ValueError, match="finite"):
        model.learn_one({"x": 1.0}, math.nan)


def test_missing_features_stand_at_their_mean_and_new_ones_are_left_out() -> None:
    model = MODEL.clone()
    for value in (1.0, 3.0):
        model.learn_one({"a": value, "b": value}, value)
    assert model.predict_one({"a": 1.0}) == model.predict_one({"a": 1.0, "b": 2.0, "new": 9.0})
    assert model.predict_one({"a": None, "b": math.nan}) == model.predict_one({"a": 2.0, "b": 2.0})


@pytest.mark.parametrize("wrong", [HierarchicalGP(), Ridge(), 3, NearestNeighborGP, "nearest"])
def test_an_estimator_that_does_not_learn_row_by_row_is_refused(wrong: object) -> None:
    with pytest.raises(
        TypeError, match="does not learn row by row: AsRiver takes a NearestNeighborGP or a CPoERegressor"
    ):
        AsRiver(wrong)


def test_rivers_own_evaluation_runs() -> None:
    rows = list(datasets.TrumpApproval().take(150))
    model = preprocessing.StandardScaler() | preprocessing.TargetStandardScaler(MODEL.clone())
    score = evaluate.progressive_val_score(rows, model, metrics.MAE())
    plain = evaluate.progressive_val_score(rows, dummy.StatisticRegressor(stats.Mean()), metrics.MAE())
    assert score.get() < plain.get()
