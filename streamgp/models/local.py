"""Any streaming estimator as the local model of a station."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, final

from typing_extensions import Self

from streamgp.errors import CheckpointError
from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.contract import State
from streamgp.models.rows import check_rows

VERSION = 1
#: what a snapshot calls an estimator, and where that which goes on from it is: loaded when it is met
KNOWN = {
    "NearestNeighborGP": ("streamgp.models.nearest_stream", "NearestStream"),
    "CPoERegressor": ("streamgp.models.experts", "CPoERegressor"),
}
#: classes whose state is of that form
NAMES = {
    ("streamgp.models.nearest", "NearestNeighborGP"): "NearestNeighborGP",
    ("streamgp.models.nearest_stream", "NearestStream"): "NearestNeighborGP",
    ("streamgp.models.experts", "CPoERegressor"): "CPoERegressor",
}


class StreamEstimator(Protocol):
    """What an estimator needs beside scikit-learn's names to serve a station.

    All arrays are finite float64 of the right shape already; an unfitted estimator starts with ``learn_rows`` and
    answers ``belief`` with its prior.
    """

    def learn_rows(self, Z: Array, y: Array) -> None:
        """Go on with rows Z (n, d), targets y (n,), in their order."""

    def belief(self, Z: Array) -> Gaussian:
        """Belief at rows Z (m, d)."""

    def state(self) -> State:
        """Parameters and everything learned."""

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The estimator that ``state`` describes."""


@final
class EstimatorModel:
    """A local model around an estimator; arrays are checked for shape and for being finite, and nothing else.

    Parameters
    ----------
    estimator
        A :class:`StreamEstimator`, such as ``NearestNeighborGP(...)``. It is used itself, not a copy. A twin made from
        the state of one has a ``NearestStream``: the same numbers, without scikit-learn.
    merge
        Share of the noise variance that learning close rows as one may cost, for an estimator that can
        (``merge_rows``); 0 keeps every row apart.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp.models.nearest import NearestNeighborGP
    >>> model = EstimatorModel(NearestNeighborGP(noise_variance=0.01, optimizer=None))
    >>> model.predict(np.zeros((1, 2))).variance
    array([1.])
    >>> model.learn(np.zeros((1, 2)), np.array([5.0]))
    >>> model.predict(np.zeros((1, 2))).mean.round(3), model.learned
    (array([4.95]), 1)
    """

    def __init__(self, estimator: StreamEstimator, *, merge: float = 0.01) -> None:
        self.estimator = estimator
        self._learned = 0
        if merge > 0.0 and hasattr(estimator, "merge_rows"):
            estimator.merge_rows(merge)

    @property
    def learned(self) -> int:
        return self._learned

    def learn(self, Z: Array, y: Array) -> None:
        """Take in rows Z (n, d), targets y (n,).

        Raises
        ------
        ValueError
            If the shapes do not fit or a number is not finite; nothing has changed then.
        """
        check_rows(Z, y)
        if len(Z):
            self.estimator.learn_rows(Z, y)
            self._learned += len(Z)

    def predict(self, Z: Array) -> Gaussian:
        if Z.ndim != 2:
            raise ValueError(f"Z must be (m, d), got {Z.shape}")
        return self.estimator.belief(Z)

    def state(self) -> State:
        home = type(self.estimator).__module__, type(self.estimator).__name__
        if home not in NAMES:
            raise CheckpointError(f"no snapshot can name {'.'.join(home)}")
        return {"version": VERSION, "estimator": NAMES[home], "learned": self._learned, "inner": self.estimator.state()}

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The twin that ``state`` describes.

        Raises
        ------
        CheckpointError
            If the state is of another version, names an unknown estimator, or is damaged.
        """
        if state.get("version") != VERSION:
            raise CheckpointError(f"local model: version {state.get('version')!r}, this release reads {VERSION}")
        name = state.get("estimator")
        if name not in KNOWN:
            raise CheckpointError(f"local model: unknown estimator {name!r}")
        module, kind_name = KNOWN[name]
        kind = getattr(import_module(module), kind_name)
        try:
            new = cls(kind.from_state(state["inner"]), merge=0.0)
            new._learned = int(state["learned"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"local model: damaged state ({error})") from error
        return new
