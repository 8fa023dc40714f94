"""What the types of a record cannot tell: arrays that belong together have one length, an id is its owner's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from streamgp.errors import DecodeError
from streamgp.wire.records import Forecast, GlobalState, Prediction, Query, Record, StationForecast, Update


def check_shapes(record: Record) -> None:
    """Raise a DecodeError that names the field whose length differs from the others', or that is another's."""
    check = _CHECKS.get(type(record))
    if check is not None:
        check(record)


#: the id of a station's own question: its name, the time, the steps ahead
_OWN = re.compile(r"(.+):-?\d+:\d+", re.DOTALL)


def _query(query: Query) -> None:
    own = _OWN.fullmatch(query.id)
    if own is not None and own[1] != query.station:  # the first question of an id counts: nobody is to be forestalled
        raise DecodeError(f"only station {own[1]!r} asks under such an id", "id")
    for index, row in enumerate(query.points):
        if len(row) != len(query.points[0]):
            raise DecodeError(f"{len(row)} columns, the first row has {len(query.points[0])}", f"points[{index}]")


def _same_length(*names: str) -> Callable[[Any], None]:
    def check(record: Any) -> None:
        length = len(getattr(record, names[0]))
        for name in names[1:]:
            values = getattr(record, name)
            if values is not None and len(values) != length:
                raise DecodeError(f"{len(values)} values, {names[0]} has {length}", name)

    return check


def _forecast(forecast: Forecast) -> None:
    names = ("mean", "variance", "noise_variance")
    for group in (names, tuple(f"untrimmed_{name}" for name in names)):
        _same_length("kept", *group)(forecast)
        if len({getattr(forecast, name) is None for name in group}) > 1:
            raise DecodeError("mean, variance and noise variance are null together or not at all", group[0])


def _station_forecast(forecast: StationForecast) -> None:
    _same_length("mean", "variance", "noise_variance", "kept", "source")(forecast)
    _same_length("local_mean", "local_variance", "local_noise_variance")(forecast)


def _arrays(record: Update | GlobalState) -> None:
    for name, values in record.arrays.items():
        shape = record.shapes.get(name)
        if shape is None or math.prod(shape) != len(values):
            raise DecodeError(f"{len(values)} values, the shape is {shape}", f"arrays.{name}")
    for name in record.shapes:
        if name not in record.arrays:
            raise DecodeError("a shape without its array", f"shapes.{name}")


_CHECKS: dict[type[Record], Callable[[Any], None]] = {
    Query: _query,
    Prediction: _same_length("mean", "variance", "noise_variance"),
    Forecast: _forecast,
    StationForecast: _station_forecast,
    Update: _arrays,
    GlobalState: _arrays,
}
