"""The data sets of the accuracy-against-time curves, standardised by their training rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streamgp.experiments.tables import find_file, read_columns, table
from tests.benchmarks.cpoe_rivals import Data


def standardised(X: np.ndarray, y: np.ndarray, Xs: np.ndarray, ys: np.ndarray) -> Data:
    """All four by the training rows' mean and deviation."""
    return (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std(), (Xs - X.mean(0)) / X.std(0), (ys - y.mean()) / y.std()


def split(X: np.ndarray, y: np.ndarray, *, train: int, test: int, seed: int = 0) -> Data:
    """A random split."""
    order = np.random.default_rng(seed).permutation(len(X))
    a, b = order[:train], order[train : train + test]
    return standardised(X[a], y[a], X[b], y[b])


def kin40k() -> Data:
    """10,000 training rows of the published split, the first 5,000 test rows."""
    train, test = table("kin40k", part="train"), table("kin40k", part="test")
    return standardised(train.X, train.y, test.X[:5000], test.y[:5000])


def kin40k_large() -> Data:
    """36,000 and 4,000 rows: the first of ten folds tests."""
    train, test = table("kin40k", part="train", fold=0), table("kin40k", part="test", fold=0)
    return standardised(train.X, train.y, test.X, test.y)


def kin8nm() -> Data:
    """5,192 and 3,000 rows."""
    data = table("kin8nm")
    return split(data.X, data.y, train=5192, test=3000)


def casp() -> Data:
    """10,000 and 5,000 random rows."""
    data = table("casp")
    return split(data.X, data.y, train=10_000, test=5_000)


def elecdemand() -> Data:
    """12,520 and 5,000 random half-hours: hour of the day, day of the year, workday, temperature."""
    columns = read_columns(find_file("elecdemand.csv.gz"))
    step = np.arange(len(columns["demand"]))
    X = np.column_stack([step % 48, step // 48, columns["workday"], columns["temperature"]]).astype(float)
    return split(X, columns["demand"], train=12_520, test=5_000)


SETS: dict[str, Callable[[], Data]] = {
    "kin40k": kin40k,
    "kin40k-large": kin40k_large,
    "kin8nm": kin8nm,
    "casp": casp,
    "elecdemand": elecdemand,
}
