"""What the options of ``streamgp replay`` say about files, as the reading takes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from consumers.options import Number
from producers.cells import NotANumberError, number
from producers.content import FileOptions
from producers.datasets import NAMES
from producers.mapping import Wishes
from streamgp.errors import SettingsError

F = TypeVar("F", bound=Callable[..., Any])

_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "blank": " "}

_SOURCE = (
    click.option("--dataset", type=click.Choice(NAMES), help="A named data set.  [default: none; then --file]"),
    click.option(
        "--file",
        "files",
        multiple=True,
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="PATH",
        help="CSV, JSON lines or Parquet, plain or .gz; several are merged by time.  [default: none; then --dataset]",
    ),
    click.option(
        "--target", metavar="COLUMN", help="What is measured; A,B sends both as one array.  [default: found out]"
    ),
    click.option(
        "--station",
        metavar="A,B",
        help="Only these stations; of a file without any: its name.  [default: all; the file's name]",
    ),
    click.option("--start", metavar="T", help="From this time on: a year, month, date or time.  [default: the first]"),
    click.option("--end", metavar="T", help="Before this time.  [default: to the last]"),
    click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N observations.  [default: all]"),
)
_PACE = (
    click.option(
        "--speed",
        type=float,
        metavar="X",
        help="X seconds of the data's time a second.  [default: as fast as possible]",
    ),
    click.option("--rate", type=float, metavar="R", help="R records a second.  [default: as fast as possible]"),
    click.option(
        "--timeout",
        "timeout_s",
        type=Number(min=0.1, max=1_000_000.0),
        default=30.0,
        show_default=True,
        metavar="S",
        help="How long a record may take to be acknowledged before it counts as failed.",
    ),
    click.option(
        "--resume",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Keeps the records that did not arrive; if it holds some, only they are sent.  [default: not kept]",
    ),
    click.option("--dry-run", is_flag=True, help="Read and report, send nothing."),
)
_COLUMNS = (
    click.option("--time-column", metavar="COLUMN", help="DATE,CLOCK joins two columns.  [default: found out]"),
    click.option("--station-column", metavar="COLUMN", help="Names the station, row by row.  [default: found out]"),
    click.option(
        "--x-columns", metavar="A,B", help="Inputs that travel with y; 'none' for none.  [default: all numbers]"
    ),
    click.option(
        "--wide/--long",
        "wide",
        default=None,
        help="A station a column, or a station column.  [default: found out]",
    ),
    click.option("--flag-column", metavar="COLUMN", help="Says whether a row is valid.  [default: none]"),
    click.option("--valid", default="1", show_default=True, metavar="V,W", help="Values of it that say yes."),
    click.option(
        "--sentinel",
        "sentinels",
        multiple=True,
        metavar="[STATION=]VALUE",
        help="A number that means missing.  [default: none]",
    ),
    click.option("--unit", metavar="UNIT", help="Unit of y, told in each record.  [default: not told]"),
    click.option("--unit-column", metavar="COLUMN", help="The same, row by row.  [default: none]"),
)
_FORMAT = (
    click.option("--time-zone", default="UTC", show_default=True, metavar="ZONE", help="Of times without offset."),
    click.option(
        "--date-format", metavar="FORMAT", help="As strptime takes it, e.g. %d/%m/%Y %H:%M.  [default: found out]"
    ),
    click.option(
        "--time-unit",
        type=click.Choice(["s", "ms", "us", "ns"]),
        help="Of times that are numbers.  [default: found out]",
    ),
    click.option(
        "--delimiter",
        metavar="SIGN",
        help="Between columns: a sign, or comma, semicolon, tab, bar.  [default: found out]",
    ),
    click.option("--decimal", type=click.Choice([".", ","]), help="Decimal sign.  [default: found out]"),
)


def replay_options(command: F) -> F:
    """All options of ``replay`` but the shared ones, in the order of the help page."""
    for option in reversed((*_SOURCE, *_PACE, *_COLUMNS, *_FORMAT)):
        command = option(command)
    return command


def file_options(given: dict[str, Any]) -> FileOptions:
    """How to read the files.

    Raises
    ------
    SettingsError
        If an option's value makes no sense.
    """
    everywhere, by_station = _sentinels(given["sentinels"])
    delimiter = given["delimiter"]
    if delimiter is not None:
        delimiter = _DELIMITERS.get(delimiter.lower(), delimiter)
        if len(delimiter) != 1:
            raise SettingsError(f"--delimiter {delimiter!r} is no single sign")
    stations = names(given["station"])
    wide = given["wide"]
    inputs = given["x_columns"]
    return FileOptions(
        wishes=Wishes(
            time=given["time_column"],
            station=given["station_column"],
            targets=names(given["target"]),
            inputs=None if inputs is None else names("" if inputs == "none" else inputs),
            shape=None if wide is None else ("wide" if wide else "long"),
            flag=given["flag_column"],
            unit=given["unit_column"],
        ),
        zone=given["time_zone"],
        date_format=given["date_format"],
        time_unit=given["time_unit"],
        delimiter=delimiter,
        decimal=given["decimal"],
        sentinels=everywhere,
        station_sentinels=by_station,
        valid=names(given["valid"]),
        unit=given["unit"],
        station_name=stations[0] if len(stations) == 1 else None,
    )


def names(text: str | None) -> tuple[str, ...]:
    """The parts of ``A,B``.

    Examples
    --------
    >>> names("DUB, MAL"), names(None)
    (('DUB', 'MAL'), ())
    """
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _sentinels(given: Sequence[str]) -> tuple[tuple[float, ...], dict[str, tuple[float, ...]]]:
    everywhere: list[float] = []
    by_station: defaultdict[str, tuple[float, ...]] = defaultdict(tuple)
    for text in given:
        station, equals, value = text.rpartition("=")
        try:
            sentinel = number(value)
        except NotANumberError:
            sentinel = None
        if sentinel is None:
            raise SettingsError(f"--sentinel {text}: {value!r} is no number")
        if equals:
            by_station[station] += (sentinel,)
        else:
            everywhere.append(sentinel)
    return tuple(everywhere), dict(by_station)
