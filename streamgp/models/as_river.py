"""Any streaming estimator of this project as a river regressor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np
from river import base, proba, stats
from sklearn.base import clone

from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.local import EstimatorModel
from streamgp.models.nearest import NearestNeighborGP
from streamgp.models.rows import LARGEST


@final
class AsRiver(base.MiniBatchRegressor):
    """A river regressor around an estimator such as :class:`streamgp.NearestNeighborGP`.

    The columns are the features of the first observation, in alphabetical order. A feature that is missing later
    stands at its mean so far; one that is new later is left out. ``learn_one`` returns None, as in river.

    Parameters
    ----------
    estimator
        It is cloned, never fitted itself; None is ``NearestNeighborGP()``. ``CPoERegressor`` is another that learns
        row by row.

    Raises
    ------
    TypeError
        If the estimator cannot learn row by row, as ``HierarchicalGP``, which learns whole clients.

    Examples
    --------
    >>> import math
    >>> from streamgp import AsRiver, NearestNeighborGP
    >>> model = AsRiver(NearestNeighborGP(noise_variance=0.01, optimizer=None))
    >>> round(model.predict_one({"t": 0.0}, with_dist=True).sigma ** 2, 9)  # the prior and the noise
    1.01
    >>> for i in range(60):
    ...     model.learn_one({"t": i / 10}, math.sin(i / 10))
    >>> round(model.predict_one({"t": 3.05}), 2)
    0.09
    """

    def __init__(self, estimator: Any = None) -> None:
        streams = not isinstance(estimator, type) and all(hasattr(estimator, name) for name in ("learn_rows", "belief"))
        if estimator is not None and not streams:
            raise TypeError(
                f"{estimator!r} does not learn row by row: AsRiver takes a NearestNeighborGP or a CPoERegressor"
            )
        self.estimator = estimator
        self._model: EstimatorModel | None = None
        self._means: dict[str, stats.Mean] = {}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"estimator": NearestNeighborGP(n_neighbors=8, optimizer=None)}

    # -- one at a time

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Take in an observation; missing values are None, NaN or pandas' NA.

        Raises
        ------
        TypeError
            If a value is no number.
        ValueError
            If y is not finite, a number is beyond 1e100, or the first x has no feature; nothing has changed then.
        """
        self._learn([x], [_number(y, "y")])

    def predict_one(self, x: Mapping[Any, Any], with_dist: bool = False) -> Any:
        """The mean at x, or with ``with_dist`` river's Gaussian of y (noise included). Before any data: the prior."""
        belief = self._belief([x])
        mean = float(belief.mean[0])
        if not with_dist:
            return mean
        make: Any = proba.Gaussian._from_state  # river makes it so itself, and gives it no types
        return make(n=1, m=mean, var=float(belief.total[0]), ddof=0)

    # -- many at a time

    def learn_many(self, X: Any, y: Any) -> None:
        """Take in a frame X (n, d) and a series y (n,): the same as one by one, in their order."""
        if hasattr(y, "columns"):
            raise TypeError("y must be a series, got a frame")
        self._learn(_records(X), [_number(v, "y") for v in (y.tolist() if hasattr(y, "tolist") else y)])

    def predict_many(self, X: Any) -> Any:
        """The means at the rows of a frame, as a series with its index."""
        import pandas as pd  # comes with river; loaded by those who use frames

        records = _records(X)
        means = self._belief(records).mean if records else np.zeros(0)
        return pd.Series(means, index=X.index, dtype="float64")

    # -- rows

    def _learn(self, rows: list[Mapping[Any, Any]], targets: list[float]) -> None:
        if len(rows) != len(targets):
            raise ValueError(f"X has {len(rows)} rows, y {len(targets)}")
        if not rows:
            return
        named = [_named(x) for x in rows]
        if not all(map(math.isfinite, targets)):
            raise ValueError("y must be finite")
        for name, value in [*((k, v) for x in named for k, v in x.items()), *(("y", t) for t in targets)]:
            if LARGEST < abs(value) < math.inf:  # an infinite feature is a missing one
                raise ValueError(f"{name} is {value:g}: it must be at most {LARGEST:g}")
        if self._model is None:
            if not named[0]:
                raise ValueError("the first observation has no feature")
            self._means = {name: stats.Mean() for name in sorted(named[0])}
            self._model = EstimatorModel(_fresh(self.estimator))
        Z = np.array([self._taken(x) for x in named])
        self._model.learn(Z, np.array(targets))

    def _taken(self, x: Mapping[str, float]) -> list[float]:
        """The row of x; its known values count towards the means."""
        for name, mean in self._means.items():
            value = x.get(name, math.nan)
            if math.isfinite(value):
                mean.update(value)
        return self._row(x)

    def _row(self, x: Mapping[str, float]) -> list[float]:
        values = ((x.get(name, math.nan), mean) for name, mean in self._means.items())
        return [value if math.isfinite(value) else float(mean.get()) for value, mean in values]

    def _belief(self, rows: list[Mapping[Any, Any]]) -> Gaussian:
        named = [_named(x) for x in rows]
        if self._model is None:
            Z: Array = np.zeros((len(rows), max(1, len(named[0]))))
            prior: Gaussian = _fresh(self.estimator).belief(Z)
            return prior
        return self._model.predict(np.array([self._row(x) for x in named]).reshape(len(rows), -1))


def _fresh(estimator: Any) -> Any:
    return NearestNeighborGP() if estimator is None else clone(estimator)


def _records(X: Any) -> list[Mapping[Any, Any]]:
    """The rows of a frame."""
    if not hasattr(X, "columns"):
        raise TypeError(f"X must be a frame, got {type(X).__name__}")
    records: list[Mapping[Any, Any]] = X.to_dict("records")
    return records


def _named(x: Mapping[Any, Any]) -> dict[str, float]:
    """Feature -> number, NaN where it is missing."""
    if not isinstance(x, Mapping):
        raise TypeError(f"x must be a dict of features, got {type(x).__name__}")
    return {str(k): _number(v, str(k)) for k, v in x.items()}


def _number(value: Any, name: str) -> float:
    """A Python, numpy or decimal number as a float; None is missing, and so are pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return math.nan
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number, got {value!r}") from error
    except OverflowError as error:
        raise ValueError(f"{name} is too large for a float") from error
