"""Which column of a file is what: time, station, target, inputs; and whether a column is a station."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from producers.cells import NotANumberError, is_missing, number
from producers.dates import AMBIGUOUS, NO_SUCH_TIME, TimeError
from producers.times import TimeReader
from streamgp.errors import DatasetError

Shape: TypeAlias = Literal["long", "wide"]

_TIME = (
    "time_ms",
    "time",
    "timestamp",
    "datetime",
    "date_time",
    "date time",
    "date",
    "ts",
    "utc",
    "zeit",
    "datum",
    "time_utc",
)
_STATION = (
    "station", "station_id", "stationid", "station name", "station_name", "site", "site_id", "sensor", "sensor_id",
    "device", "device_id", "location", "mote", "mote_id", "moteid", "series", "name", "code", "id",
)  # fmt: skip
_TARGET = ("y", "value", "target", "reading", "measurement")
_CLOCK_ONLY = re.compile(r"\s*\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:[AaPp][Mm])?\s*")
#: what a column is called that has no name of its own
_UNNAMED = re.compile(r"column_\d+")


@dataclass(frozen=True)
class Wishes:
    """What the user said about columns; None or empty where nothing."""

    time: str | None = None
    station: str | None = None
    targets: tuple[str, ...] = ()
    inputs: tuple[str, ...] | None = None
    shape: Shape | None = None
    flag: str | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Mapping:
    """The columns to be read.

    ``time`` is one column, or a date and a time column. In a wide file each of ``targets`` is a station. In a
    long one ``station`` names the column of the station, None where the file has a single one.
    """

    shape: Shape
    time: tuple[str, ...]
    station: str | None
    targets: tuple[str, ...]
    inputs: tuple[str, ...]
    flag: str | None
    unit: str | None

    @property
    def told(self) -> str:
        time = " + ".join(self.time)
        if self.shape == "wide":
            return f"wide: time in {time}, a station a column: {_some(self.targets)}"
        where = f"station in {self.station}" if self.station else "a single station"
        inputs = f", x: {_some(self.inputs)}" if self.inputs else ""
        return f"long: time in {time}, {where}, y: {', '.join(self.targets)}{inputs}"


#: the columns of observations as this project writes them
OURS = ("station", "time_ms", "y")


def our_mapping(names: Sequence[str]) -> Mapping | None:
    """The mapping of a file of records as they stand on the observations topic, None for any other file."""
    if not set(OURS) <= set(names):
        return None
    inputs = tuple(name for name in names if name.startswith("x."))
    return Mapping("long", ("time_ms",), "station", ("y",), inputs, None, "unit" if "unit" in names else None)


def find_mapping(
    names: Sequence[str],
    sample: Sequence[dict[str, Any]],
    wishes: Wishes,
    *,
    decimal: str,
    times: Callable[[], TimeReader],
) -> Mapping:
    """What the columns are: as wished, else by their names, else by what is in them.

    Parameters
    ----------
    names, sample
        Column names, and the cells of the first rows.
    times
        Makes a reader that knows the file's way of writing times; used on the sample alone.

    Raises
    ------
    DatasetError
        If a wished column is not there, nothing tells which is meant, or the file has no names of columns.
    """
    wished = [
        *(wishes.time or "").split(","),
        wishes.station,
        *wishes.targets,
        *(wishes.inputs or ()),
        wishes.flag,
        wishes.unit,
    ]
    absent = [name for name in wished if name and name not in names and not (wishes.time and name == wishes.time)]
    if absent:
        raise DatasetError(f"no column is called {', '.join(absent)}; there are {', '.join(names)}")
    time = _find_time(names, sample, wishes, times)
    if not (wishes.time or wishes.station or wishes.targets) and _is_a_time(time[0], times):
        raise DatasetError(f"the first row holds data ({time[0]}), not the names of columns: add a header line")
    rest = [name for name in names if name not in (*time, wishes.flag, wishes.unit)]
    station = wishes.station
    if station is None and wishes.shape != "wide":
        station = _by_name(rest, _STATION)
    rest = [name for name in rest if name != station]
    numeric = [name for name in rest if _is_numeric([row.get(name) for row in sample], decimal)]
    filled = [name for name in numeric if any(not is_missing(row.get(name)) for row in sample)]
    numeric = [name for name in numeric if name in filled or not _UNNAMED.fullmatch(name)]
    is_long = station or wishes.targets or len(filled) == 1 or _by_name(filled, _TARGET)
    shape = wishes.shape or ("long" if is_long else "wide")
    if shape == "wide":
        columns = wishes.targets or tuple(numeric)
        if not columns:
            raise DatasetError(f"no column of numbers among {', '.join(names)}")
        return Mapping("wide", time, None, columns, (), wishes.flag, wishes.unit)
    targets = wishes.targets or _find_target(filled)
    inputs = wishes.inputs if wishes.inputs is not None else tuple(name for name in numeric if name not in targets)
    return Mapping("long", time, station, targets, inputs, wishes.flag, wishes.unit)


def _find_time(
    names: Sequence[str], sample: Sequence[dict[str, Any]], wishes: Wishes, times: Callable[[], TimeReader]
) -> tuple[str, ...]:
    if wishes.time:
        return (wishes.time,) if wishes.time in names else tuple(wishes.time.split(","))
    named = _by_name(names, _TIME)
    if named is not None:
        clocks = [
            name
            for name in names
            if name != named and _all(sample, name, lambda cell: _CLOCK_ONLY.fullmatch(str(cell)))
        ]
        if _all(sample, named, lambda cell: _CLOCK_ONLY.fullmatch(str(cell))):
            dates = [name for name in names if name != named and _reads_as_time(sample, name, times)]
            if not dates:
                raise DatasetError(f"{named} holds times of day, and no column a date: name the time column")
            return dates[0], named
        return (named, clocks[0]) if clocks else (named,)
    for name in names:
        if _reads_as_time(sample, name, times):
            return (name,)
    raise DatasetError(f"no column holds times among {', '.join(names)}: name the time column")


def _find_target(numeric: Sequence[str]) -> tuple[str, ...]:
    named = _by_name(numeric, _TARGET)
    if named is not None:
        return (named,)
    if len(numeric) != 1:
        raise DatasetError(
            f"which column is the target? Name one of {', '.join(numeric) or 'them: none holds numbers'}"
        )
    return (numeric[0],)


def _by_name(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    lower = {name.strip().lower(): name for name in reversed(names)}
    return next((lower[name] for name in wanted if name in lower), None)


def _is_numeric(cells: Sequence[Any], decimal: str) -> bool:
    """Whether at least half of what is there are numbers; a column in which nothing is there counts as numeric."""
    good = bad = 0
    for cell in cells:
        if isinstance(cell, list):
            return False
        try:
            good += number(cell, decimal) is not None
        except NotANumberError:
            bad += 1
    return good >= bad


def _reads_as_time(sample: Sequence[dict[str, Any]], name: str, times: Callable[[], TimeReader]) -> bool:
    reader = times()

    def reads(cell: Any) -> bool:
        try:
            reader.read(cell)
        except TimeError:
            return False
        return True

    return _all(sample, name, reads)


def _is_a_time(name: str, times: Callable[[], TimeReader]) -> bool:
    """Whether the name of the time column is a time itself, one with day and month in doubt included."""
    try:
        times().read(name)
    except TimeError as error:
        return str(error) in (AMBIGUOUS, NO_SUCH_TIME)
    return True


def _all(sample: Sequence[dict[str, Any]], name: str, holds: Callable[[Any], Any]) -> bool:
    cells = [row[name] for row in sample if not is_missing(row.get(name))]
    return bool(cells) and all(map(holds, cells))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
