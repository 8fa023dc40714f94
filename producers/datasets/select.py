"""From a named set to its observations in event-time order."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta, timezone, tzinfo
from typing import Any, final

import numpy as np
import numpy.typing as npt

from producers.datasets.fetch import locate
from producers.datasets.places import Place
from producers.datasets.registry import NAMES, SERIES, Series, series_of
from producers.times import When, to_ms
from streamgp.errors import DatasetError
from streamgp.experiments import tables
from streamgp.wire.records import Observation

#: the sixteen points of the compass, clockwise from north, 22.5 degrees apart
COMPASS = ("N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE", "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW")

#: rows of a set without times happen from this moment on, so far apart
TABLE_START_MS, TABLE_STEP_MS = 946_684_800_000, 1_000


@dataclass(frozen=True)
class Rows:
    """All rows of a set: station (n,), time (n,) and columns of numbers (n,), NaN where missing."""

    station: npt.NDArray[Any]
    time_ms: npt.NDArray[np.int64]
    columns: dict[str, npt.NDArray[np.float64]]
    target: str
    zone: tzinfo = timezone.utc


@final
class Selection:
    """The chosen rows of a set as observations, oldest first; stations of one time in the file's order.

    ``missing`` counts the chosen rows that are left out because no target was measured.

    Examples
    --------
    >>> chosen = select("irish-wind", stations=["DUB"], end="1961-01-03")
    >>> [(o.station, o.y) for o in chosen], chosen.missing
    ([('DUB', 13.67), ('DUB', 11.5)], 0)
    """

    def __init__(self, rows: Rows, order: npt.NDArray[np.intp], *, targets: tuple[str, ...], missing: int) -> None:
        self._rows = rows
        self._order = order
        self._targets = targets
        self.missing = missing

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Observation]:
        columns = self._rows.columns
        names = tuple(name for name in columns if name not in self._targets)
        for start in range(0, len(self._order), 10_000):
            at = self._order[start : start + 10_000]
            ys = [_or_none(columns[name][at]) for name in self._targets]
            xs = [_or_none(columns[name][at]) for name in names]
            stations, times = self._rows.station[at].tolist(), self._rows.time_ms[at].tolist()
            for i, (station, time_ms) in enumerate(zip(stations, times, strict=True)):
                y = ys[0][i] if len(ys) == 1 else tuple(values[i] for values in ys)
                x = {name: values[i] for name, values in zip(names, xs, strict=True)}
                yield Observation(station=station, time_ms=time_ms, x=x, y=y)


def select(
    name: str,
    *,
    target: str | Sequence[str] | None = None,
    stations: Sequence[str] | None = None,
    start: When | None = None,
    end: When | None = None,
    limit: int | None = None,
) -> Selection:
    """The part of a named set that :func:`producers.datasets.observations` walks through; same parameters.

    Raises
    ------
    DatasetError
        If the set, a target or a station is unknown, a time cannot be read, or the file is not there.
    """
    rows = _series_rows(name, series_of(name)) if name in SERIES else _table_rows(name, target)
    targets = _targets(name, rows, target)
    known = list(dict.fromkeys(rows.station.tolist()))
    if stations is not None and (unknown := sorted(set(stations) - set(known))):
        raise DatasetError(f"{name} has no station {', '.join(unknown)}; it has {', '.join(known)}")
    rank = {station: i for i, station in enumerate(known)}
    codes = np.array([rank[station] for station in rows.station.tolist()], dtype=np.intp)
    chosen = np.ones(len(codes), dtype=bool)
    if stations is not None:
        chosen &= np.isin(codes, [rank[station] for station in stations])
    if start is not None:
        chosen &= rows.time_ms >= to_ms(start, rows.zone)
    if end is not None:
        chosen &= rows.time_ms < to_ms(end, rows.zone)
    measured = np.any([~np.isnan(rows.columns[column]) for column in targets], axis=0)
    order = np.lexsort((codes, rows.time_ms))
    order = order[(chosen & measured)[order]]
    missing = int(np.count_nonzero(chosen & ~measured))
    return Selection(rows, order[:limit], targets=targets, missing=missing)


def places_of(name: str) -> dict[str, Place]:
    """Station -> place, in the file's order; empty where the set does not tell."""
    series = series_of(name)
    if series.places is None:
        return {}
    with locate(series.places).open(newline="", encoding="utf-8") as file:
        return {
            row.get("code", row["station"]): Place(float(row["lat"]), float(row["lon"]), row["station"])
            for row in csv.DictReader(file)
        }


def load_table(
    name: str, *, target: str | None = None, part: tables.Part | None = None, fold: int | None = None
) -> tables.Table:
    """:func:`streamgp.experiments.tables.table`, after its files were fetched where they are not at hand."""
    if name in tables.LAYOUTS:
        for choice in tables.files_of(name, part):
            if not any(tables.has_file(file) for file in choice):
                locate(choice[0])
    return tables.table(name, target=target, part=part, fold=fold)


def _series_rows(name: str, series: Series) -> Rows:
    table = tables.read_columns(locate(series.file))
    zone = timezone(timedelta(hours=series.utc_offset_h))
    local = table.pop(series.time).astype("datetime64[ms]").astype(np.int64)
    time_ms = local - round(series.utc_offset_h * 3_600_000)
    for column in series.compass:
        degrees = {point: 22.5 * i for i, point in enumerate(COMPASS)}
        table[column] = np.array([degrees.get(point, np.nan) for point in table[column]])
    if series.station is not None:
        station = table.pop(series.station)
        return Rows(station, time_ms, table, target=series.quantity, zone=zone)
    if series.single is not None:
        station = np.full(len(time_ms), series.single, dtype=object)
        return Rows(station, time_ms, table, target=series.quantity, zone=zone)
    names = np.array(list(table), dtype=object)
    values = np.column_stack(list(table.values())).ravel()
    station = np.tile(names, len(time_ms))
    times = np.repeat(time_ms, len(names))
    return Rows(station, times, {series.quantity: values}, target=series.quantity, zone=zone)


def _table_rows(name: str, target: str | Sequence[str] | None) -> Rows:
    """A regression set as one station's rows, a second apart."""
    if name not in tables.LAYOUTS:
        raise DatasetError(f"no data set is called {name!r}; there are {', '.join(NAMES)}")
    chosen = target if isinstance(target, str) else tables.LAYOUTS[name].target
    X, y, names = load_table(name, target=chosen)
    columns = {column: X[:, j] for j, column in enumerate(names)} | {chosen: y}
    times = TABLE_START_MS + TABLE_STEP_MS * np.arange(len(y), dtype=np.int64)
    return Rows(np.full(len(y), name, dtype=object), times, columns, target=chosen)


def _targets(name: str, rows: Rows, target: str | Sequence[str] | None) -> tuple[str, ...]:
    if target is None:
        return (rows.target,)
    wanted = tuple(target.split(",")) if isinstance(target, str) else tuple(target)
    unknown = [column for column in wanted if column not in rows.columns]
    if unknown or not wanted:
        raise DatasetError(f"{name} has no column {', '.join(unknown)}; it has {', '.join(rows.columns)}")
    return wanted


def _or_none(values: npt.NDArray[np.float64]) -> list[Any]:
    """Values with None for NaN."""
    return [None if value != value else value for value in values.tolist()]
