"""What a station believes, in its own units: scale, features and a local model that grow together.

This is the whole of a station without any network: it learns a series reading by reading and forecasts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Protocol, TypeAlias, final, runtime_checkable

import numpy as np

from streamgp.errors import CheckpointError, KeptSettingsError
from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.contract import LocalModel, State
from streamgp.models.features import FeatureMap, FeatureSettings

if TYPE_CHECKING:
    from streamgp.models.hgp.globals import GlobalModel  # of the hierarchical model: loaded by who has one

#: event time (ms), the record's own inputs, y
Reading: TypeAlias = tuple[int, dict[str, float | None], float]

VERSION = 1


@runtime_checkable
class Adopting(Protocol):
    """A local model that can stand on the global layer of a training."""

    def adopt(self, given: GlobalModel) -> bool:
        """Stand on it from now on; False, and no change, if its rows are others."""


@final
class StationModel:
    """A series of readings, learned as they come.

    During the warm-up readings are kept as they are, and cadence and scale follow them (the scale each time that
    there are a tenth more); a provisional model
    with the hyperparameters as given answers for them. At its end cadence and scale are fixed, hyperparameters
    are fitted, and from then on each reading is learned once.

    Parameters
    ----------
    features
        What a row is made of; every station of a network needs the same columns. ``cadence_ms`` of it counts
        only where ``step_ms`` is given.
    make
        Makes a local model; its argument says whether hyperparameters are to be fitted on the first rows.
    load
        Makes a local model from its state.
    warm_up
        Readings before scale and hyperparameters are fixed.
    step_ms
        The station's cadence; without it the most common difference of the first readings.

    Examples
    --------
    >>> from streamgp.models.constant import ConstantModel
    >>> station = StationModel(FeatureSettings(lags=(1,), averages=()), make=lambda fit: ConstantModel(),
    ...                        load=ConstantModel.from_state, warm_up=3)
    >>> for day in range(5):
    ...     station.observe(day * 86_400_000, {}, 10.0 + day % 2)
    >>> station.warm, station.step_ms, station.width
    (True, 86400000, 3)
    """

    def __init__(
        self,
        features: FeatureSettings,
        *,
        make: Callable[[bool], LocalModel],
        load: Callable[[State], LocalModel],
        warm_up: int = 200,
        step_ms: int | None = None,
    ) -> None:
        self._settings = features if step_ms is None else replace(features, cadence_ms=step_ms)
        self._make = make
        self._load = load
        self._warm_up = warm_up
        self._given_ms = step_ms
        self._features = FeatureMap(self._settings)
        self._early: list[Reading] | None = []
        self._rows: list[tuple[Array, float] | None] = []
        self._model: LocalModel | None = None
        self._shift, self._scale = 0.0, 1.0
        self._global: GlobalModel | None = None

    # -- learning

    def observe(self, time_ms: int, x: Mapping[str, float | None], y: float) -> None:
        """Take in a reading, later than all before. If this raises, nothing has changed.

        Raises
        ------
        ValueError
            If y is not finite or the time does not go forward.
        """
        if not isfinite(y):
            raise ValueError(f"y must be finite, got {y}")
        if self._early is None:
            self._learn(time_ms, x, y)
            return
        if self._early and time_ms <= self._early[-1][0]:
            raise ValueError(f"time {time_ms} does not follow {self._early[-1][0]}")
        early = [*self._early, (time_ms, dict(x), float(y))]
        settings = replace(self._settings, cadence_ms=self._given_ms or _cadence(early))
        known = settings == self._settings
        rows = [*self._rows, self._raw(self._features, early[-1])] if known else self._replay(early, settings)
        warm, model = len(early) >= self._warm_up, None
        shift, scale = self._shift, self._scale
        if warm or _refreshes(len(early)):
            shift, scale = _scale_of(early)
        elif known and self._model is not None:
            model = self._model
            self._teach(model, rows[-1:], shift, scale)
        if warm:
            model = self._fitted(rows, shift, scale, fit=True)
        if known:
            self._features.observe(time_ms, x, y)
        else:
            self._features = FeatureMap(settings)
            for reading in early:
                self._features.observe(*reading)
        self._settings, self._shift, self._scale, self._model = settings, shift, scale, model
        self._early, self._rows = (None, []) if warm else (early, rows)

    def _raw(self, features: FeatureMap, reading: Reading) -> tuple[Array, float] | None:
        """The row of a reading in physical units, and its y; None while lags are not full."""
        row = features.row(reading[0], reading[1])
        return None if row is None else (row, reading[2])

    def _replay(self, readings: list[Reading], settings: FeatureSettings) -> list[tuple[Array, float] | None]:
        """The rows of these readings under other settings."""
        features, rows = FeatureMap(settings), []
        for reading in readings:
            rows.append(self._raw(features, reading))
            features.observe(*reading)
        return rows

    def _fitted(self, rows: list[tuple[Array, float] | None], shift: float, scale: float, *, fit: bool) -> LocalModel:
        """A model that has learned these rows, standardised."""
        model = self._make(fit)
        if self._global is not None and isinstance(model, Adopting) and self._global.width == self.width:
            model.adopt(self._global)
        self._teach(model, rows, shift, scale)
        return model

    def _teach(self, model: LocalModel, rows: list[tuple[Array, float] | None], shift: float, scale: float) -> None:
        """Let a model learn rows, standardised."""
        full = [row for row in rows if row is not None]
        if full:
            Z, y = np.array([z for z, _ in full]), np.array([y for _, y in full])
            own = len(self._settings.lags) + len(self._settings.averages)  # the columns in units of y
            Z[:, :own] = (Z[:, :own] - shift) / scale
            model.learn(Z, (y - shift) / scale)

    def _learn(self, time_ms: int, x: Mapping[str, float | None], y: float) -> None:
        features, shift, scale = self._features, self._shift, self._scale
        if features.last_ms is not None and time_ms <= features.last_ms:
            raise ValueError(f"time {time_ms} does not follow {features.last_ms}")
        cells = features.cells(time_ms, x, shift=shift, scale=scale)
        if cells is not None:
            model = self._model or self._current()
            model.learn(np.array(cells, dtype=np.float64)[None], np.array([(y - shift) / scale], dtype=np.float64))
        features.take(time_ms, x, y)

    def adopt(self, given: GlobalModel) -> bool:
        """Stand on the global layer of a training, now and when the model is made anew; False if it cannot be.

        It cannot where the model is another, or was trained on rows of other columns.
        """
        if given.layout.n_outputs != 1 or given.width != self.width:
            return False
        if not isinstance(self._current(), Adopting):
            return False
        self._global = given
        if self._early is not None:
            self._model = None  # provisional, and made anew when it is asked
            return True
        model = self._current()
        return isinstance(model, Adopting) and model.adopt(given)

    # -- asking and answering

    @property
    def step_ms(self) -> int | None:
        """The cadence; None before the second reading."""
        if self._given_ms is None and self._early is not None and len(self._early) < 2:
            return None
        return self._settings.cadence_ms

    @property
    def last_ms(self) -> int | None:
        """Event time of the last reading."""
        return self._features.last_ms

    @property
    def scale(self) -> tuple[float, float]:
        """Mean and standard deviation that stand for 0 and 1 now."""
        return self._shift, self._scale

    @property
    def width(self) -> int:
        """Columns of a row."""
        return len(self._features.columns)

    @property
    def warm(self) -> bool:
        """Whether the warm-up is over."""
        return self._early is None

    @property
    def learned(self) -> int:
        """Rows behind the answers."""
        return self._current().learned

    def ask(self, target_ms: int, x: Mapping[str, float | None] | None = None) -> tuple[Array, float, float] | None:
        """The row (d,) for a target time and the scale it is meant in; None while it cannot be made."""
        row = self._features.row(target_ms, x, shift=self._shift, scale=self._scale)
        return None if row is None else (row, self._shift, self._scale)

    def answer(self, Z: Array) -> Gaussian:
        """Belief at rows Z (m, d), standardised."""
        return self._current().predict(Z)

    def _current(self) -> LocalModel:
        if self._model is None:  # during the warm-up, after the scale has changed
            self._model = self._fitted(self._rows, self._shift, self._scale, fit=False)
        return self._model

    # -- the state

    def state(self) -> State:
        """All that a twin needs to go on from here; made with the same factories it is the same to the bit."""
        return {
            "version": VERSION,
            "early": None if self._early is None else [[t, x, y] for t, x, y in self._early],
            "shift": self._shift,
            "scale": self._scale,
            "cadence_ms": self._settings.cadence_ms,
            "features": self._features.state(),
            "model": None if self._model is None or self._early is not None else self._model.state(),
            "global": None if self._global is None or self._early is None else self._global.plain(),
        }

    def restore(self, state: State) -> None:
        """Go on from a state.

        Raises
        ------
        CheckpointError
            If it is of another version, or damaged.
        KeptSettingsError
            If it is of a station with other features, or a model of another kind.
        """
        if state.get("version") != VERSION:
            raise CheckpointError(f"station: version {state.get('version')!r}, this release reads {VERSION}")
        try:
            early = state["early"]
            readings = None if early is None else [(int(t), dict(x), float(y)) for t, x, y in early]
            shift, scale, cadence_ms = float(state["shift"]), float(state["scale"]), int(state["cadence_ms"])
            features = FeatureMap.from_state(state["features"])
            model = None if state["model"] is None else self._load(state["model"])
            given = state.get("global")  # a snapshot of an earlier release has none
            global_ = None if given is None else _global_from(given)
        except KeptSettingsError:  # nothing is damaged
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"station: damaged state ({error})") from error
        _check_rows(self._settings, features.settings)
        self._settings = replace(self._settings, cadence_ms=cadence_ms)
        self._early, self._shift, self._scale = readings, shift, scale
        self._features, self._model, self._global = features, model, global_
        self._rows = [] if readings is None else self._replay(readings, self._settings)


def _check_rows(wanted: FeatureSettings, kept: FeatureSettings) -> None:
    """Raise a KeptSettingsError that names what makes other rows than the kept ones; the cadence may differ."""
    names = [f.name for f in fields(kept) if f.name != "cadence_ms"]
    other = [name for name in names if getattr(wanted, name) != getattr(kept, name)]
    if other:
        said = ", ".join(f"features.{n} = {getattr(wanted, n)} (the kept state has {getattr(kept, n)})" for n in other)
        raise KeptSettingsError(
            f"{said}: what was learned is of no use with other rows; set it back, "
            "or start with --fresh to learn everything anew on purpose"
        )


def _global_from(plain: State) -> GlobalModel:
    from streamgp.models.hgp.globals import GlobalModel  # only the hierarchical model's snapshots hold one

    return GlobalModel.from_plain(plain)


def _refreshes(count: int) -> bool:
    """Whether the scale follows the readings at this one of the warm-up: all of the first, then a tenth more each."""
    at = 1
    while at < count:
        at = max(at + 1, at * 11 // 10)
    return at == count


def _scale_of(readings: list[Reading]) -> tuple[float, float]:
    values = np.array([y for _, _, y in readings])
    mean, std = float(np.mean(values)), float(np.std(values))
    if std <= 1e-12 * abs(mean):  # constant: standardised it is zero, not what rounding makes of the mean
        return float(values[0]), 1.0
    return mean, std


def _cadence(readings: list[Reading]) -> int:
    """The most common difference of times, the shortest of equals."""
    steps = Counter(b - a for (a, *_), (b, *_) in pairwise(readings))
    if not steps:
        return FeatureSettings().cadence_ms
    most = max(steps.values())
    return min(step for step, count in steps.items() if count == most)
