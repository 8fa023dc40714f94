"""The row of a model for a target time: lags of the station's own y, moving averages, calendar, the record's x."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import cos, fsum, sin, tau
from typing import Any, Literal, TypeAlias, final

import numpy as np
from typing_extensions import Self

from streamgp.errors import CheckpointError, SettingsError
from streamgp.gp.gaussian import Array
from streamgp.models.contract import State
from streamgp.models.scaling import LARGEST, RunningScale

VERSION = 1
DAY_MS = 86_400_000

Calendar: TypeAlias = Literal["year", "week", "day"]
PERIOD_MS: dict[str, float] = {"year": 365.2425 * DAY_MS, "week": 7.0 * DAY_MS, "day": float(DAY_MS)}
#: standard deviations that a standardised column usually stays within
REACH = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSettings:
    """What a row is made of. Stations that answer each other's queries need the same settings.

    Parameters
    ----------
    lags
        How many steps back from the target each lag looks; 1 is the last value before it.
    averages
        Numbers of last values whose mean is a column.
    calendar
        Periods whose phase at the target time is a pair of columns (sine, cosine); None chooses by cadence: the
        year from a day up, day and year below.
    x
        Names of the record's own columns. A name that the caller does not give for the target time has its
        last known value, and so has one that is no number or beyond 1e150; one never seen stands at its mean.
    cadence_ms
        Time between two readings.
    max_gap
        Steps over which a missing reading is bridged by the last one before it; a longer gap empties the lags.

    Examples
    --------
    >>> FeatureMap(FeatureSettings(lags=(1, 2), averages=(7,), x=("rain",))).columns
    ('lag1', 'lag2', 'mean7', 'year_sin', 'year_cos', 'rain')
    """

    lags: tuple[int, ...] = (1, 2, 3)
    averages: tuple[int, ...] = (10,)
    calendar: tuple[Calendar, ...] | None = None
    x: tuple[str, ...] = ()
    cadence_ms: int = DAY_MS
    max_gap: int = 3

    def __post_init__(self) -> None:
        for name in ("lags", "averages"):
            values = getattr(self, name)
            if any(v < 1 for v in values) or len(set(values)) != len(values):
                raise SettingsError(f"{name} must be different numbers from 1 up, got {values}")
        if self.cadence_ms < 1 or self.max_gap < 0:
            raise SettingsError("cadence_ms must be at least 1 and max_gap at least 0")
        if unknown := set(self.periods) - set(PERIOD_MS):
            raise SettingsError(f"calendar knows {sorted(PERIOD_MS)}, got {sorted(unknown)}")
        if not self.columns:
            raise SettingsError("a row needs at least one column")
        if len(set(self.columns)) != len(self.columns):
            raise SettingsError(f"two columns of the same name in {self.columns}")

    @property
    def periods(self) -> tuple[str, ...]:
        if self.calendar is not None:
            return self.calendar
        return ("year",) if self.cadence_ms >= DAY_MS else ("day", "year")

    @property
    def columns(self) -> tuple[str, ...]:
        calendar = (f"{p}_{wave}" for p in self.periods for wave in ("sin", "cos"))
        return (*(f"lag{k}" for k in self.lags), *(f"mean{w}" for w in self.averages), *calendar, *self.x)

    @property
    def box(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Lowest and highest usual value of each column: 4 standard deviations, or 1 for a sine or cosine."""
        waves = {f"{p}_{wave}" for p in self.periods for wave in ("sin", "cos")}
        high = tuple(1.0 if name in waves else REACH for name in self.columns)
        return tuple(-h for h in high), high

    @property
    def depth(self) -> int:
        """Readings that a row looks back on."""
        return max(*self.lags, *self.averages, 1, 1)


@final
class FeatureMap:
    """Rows for one station, from its readings so far.

    Examples
    --------
    >>> features = FeatureMap(FeatureSettings(lags=(1, 2), averages=(), calendar=()))
    >>> features.row(0) is None
    True
    >>> for day, y in enumerate((10.0, 12.0)):
    ...     features.observe(day * DAY_MS, {}, y)
    >>> features.row(2 * DAY_MS, shift=10.0, scale=2.0)
    array([1., 0.])
    """

    def __init__(self, settings: FeatureSettings | None = None) -> None:
        self.settings = settings if settings is not None else FeatureSettings()
        self.columns = self.settings.columns
        self._depth = self.settings.depth
        self._cadence_ms = self.settings.cadence_ms
        self._period_ms = [PERIOD_MS[period] for period in self.settings.periods]
        self.last_ms: int | None = None  #: event time of the last reading
        self._next_ms: int | None = None  # when the next one is due
        self._values: list[float] = []  # the last ones, at most twice as many as a row looks back on
        self._x_scales = {name: RunningScale() for name in self.settings.x}
        self._x_last: dict[str, float] = {}

    def observe(self, time_ms: int, x: Mapping[str, float | None], y: float) -> None:
        """Take in a reading, later than all before. If this raises, nothing has changed.

        Raises
        ------
        ValueError
            If y is not finite, or the time does not go forward.
        """
        if not math.isfinite(y):
            raise ValueError(f"y must be finite, got {y}")
        if self.last_ms is not None and time_ms <= self.last_ms:
            raise ValueError(f"time {time_ms} does not follow {self.last_ms}")
        self.take(time_ms, x, y)

    def take(self, time_ms: int, x: Mapping[str, float | None], y: float) -> None:
        """:meth:`observe` for a caller who knows that y is finite and that the time goes forward."""
        values = self._values
        if time_ms != self._next_ms and (missed := self._missed(time_ms)):
            if missed > self.settings.max_gap:
                values.clear()
            elif values:
                values.extend([values[-1]] * missed)
        values.append(float(y))
        if len(values) >= 2 * self._depth:
            del values[: -self._depth]
        self.last_ms, self._next_ms = time_ms, time_ms + self._cadence_ms
        for name in self.settings.x:
            value = x.get(name)
            if value is not None and abs(value) < LARGEST:
                self._x_scales[name].update(value)
                self._x_last[name] = float(value)

    def _missed(self, time_ms: int) -> int:
        """Steps between the last reading and ``time_ms`` that brought none."""
        if self.last_ms is None:
            return 0
        return max(0, round((time_ms - self.last_ms) / self.settings.cadence_ms) - 1)

    def row(
        self,
        target_ms: int,
        x: Mapping[str, float | None] | None = None,
        *,
        shift: float = 0.0,
        scale: float = 1.0,
    ) -> Array | None:
        """(d,) row for a target time after the last reading; None while the lags are not full.

        Parameters
        ----------
        target_ms
            The time that a prediction is wanted for.
        x
            Values of the record's columns that are known for that time already.
        shift, scale
            Lags and averages are standardised with them: ``(y - shift) / scale``.
        """
        cells = self.cells(target_ms, x, shift=shift, scale=scale)
        return None if cells is None else np.array(cells, dtype=np.float64)

    def cells(
        self, target_ms: int, x: Mapping[str, float | None] | None, *, shift: float, scale: float
    ) -> list[float] | None:
        """The numbers of :meth:`row`, one a column."""
        s, values = self.settings, self._values
        if len(values) < self._depth:
            return None
        if target_ms != self._next_ms and (missed := self._missed(target_ms)):
            if missed > s.max_gap:
                return None
            values = values + [values[-1]] * missed
        cells: list[float] = []
        for k in s.lags:
            cells.append((values[-k] - shift) / scale)  # for three, faster than a comprehension
        for w in s.averages:
            cells.append((fsum(values[-w:]) / w - shift) / scale)
        for period in self._period_ms:
            angle = tau * ((target_ms % period) / period)
            cells += (sin(angle), cos(angle))
        for name in s.x:
            cells.append(self._x_value(name, None if x is None else x.get(name)))
        return cells

    def _x_value(self, name: str, given: float | None) -> float:
        scale = self._x_scales[name]
        if given is None or not abs(given) < LARGEST:
            given = self._x_last.get(name)
        return 0.0 if given is None else (given - scale.mean) / scale.std

    def state(self) -> State:
        """All that the rows to come depend on."""
        return {
            "version": VERSION,
            "settings": asdict(self.settings),
            "last_ms": self.last_ms,
            "values": np.array(self._values[-self._depth :]),
            "x_scales": {name: scale.state() for name, scale in self._x_scales.items()},
            "x_last": dict(self._x_last),
        }

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The twin that ``state`` describes.

        Raises
        ------
        CheckpointError
            If the state is of another version, or damaged.
        """
        if state.get("version") != VERSION:
            raise CheckpointError(f"features: version {state.get('version')!r}, this release reads {VERSION}")
        try:
            settings: dict[str, Any] = {
                k: tuple(v) if isinstance(v, (list, tuple)) else v for k, v in state["settings"].items()
            }
            new = cls(FeatureSettings(**settings))
            if state["last_ms"] is not None:
                new.last_ms = int(state["last_ms"])
                new._next_ms = new.last_ms + new._cadence_ms
            new._values.extend([float(v) for v in state["values"]][-new._depth :])
            new._x_scales = {name: RunningScale.from_state(state["x_scales"][name]) for name in new.settings.x}
            new._x_last = {str(name): float(value) for name, value in state["x_last"].items()}
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"features: damaged state ({error})") from error
        return new
