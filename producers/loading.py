"""Everything that a replay will send, read and put in the order of event time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from producers.content import FileOptions, Skipped
from producers.datasets import select
from producers.files import read_file
from producers.times import to_ms, zone_of
from streamgp.errors import DatasetError
from streamgp.wire.records import Observation

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Choice:
    """Which of the observations: ``start <= time < end``, these stations (empty: all), the first ``limit``."""

    stations: tuple[str, ...] = ()
    start: str | None = None
    end: str | None = None
    limit: int | None = None


@dataclass
class Load:
    """Observations, oldest first, and what was left out on the way; where none is left of some, ``why_none``."""

    observations: Sequence[Observation] | Iterable[Observation]
    count: int
    skipped: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    faults: list[Skipped] = field(default_factory=list)
    why_none: str = ""


def load_dataset(name: str, choice: Choice, *, target: str | None = None) -> Load:
    """A named set; errors as :func:`producers.datasets.observations`."""
    selection = select(
        name,
        target=target,
        stations=choice.stations or None,
        start=choice.start,
        end=choice.end,
        limit=choice.limit,
    )
    missing = Counter({"missing": selection.missing}) if selection.missing else Counter()
    load = Load(selection, len(selection), skipped=missing)
    if not load.count and choice.limit != 0:
        load.why_none = f"{name} has no observation{_span(choice)}{_left_out(missing)}"
    return load


def load_files(paths: Sequence[Path], options: FileOptions, choice: Choice, *, tell: Tell) -> Load:
    """Several files merged by event time; at one time, the order of the files and of their rows.

    Raises
    ------
    DatasetError
        If a file cannot be read, or a station that was asked for is in none of them.
    """
    zone = zone_of(options.zone)
    start = None if choice.start is None else to_ms(choice.start, zone)
    end = None if choice.end is None else to_ms(choice.end, zone)
    load, rows = Load((), 0), []
    for path in paths:
        content = read_file(path, options, tell=tell)
        rows += content.observations
        load.skipped += content.skipped
        load.missing += content.missing
        load.faults += content.faults
    known = list(dict.fromkeys(row.station for row in rows))
    if (rows or not load.skipped) and (unknown := [s for s in choice.stations if s not in known]):
        raise DatasetError(f"no observation of {', '.join(unknown)}; there are {', '.join(known[:50])}")
    wanted = frozenset(choice.stations)
    chosen = [
        row
        for row in rows
        if (not wanted or row.station in wanted)
        and (start is None or row.time_ms >= start)
        and (end is None or row.time_ms < end)
    ]
    if len(paths) > 1:
        chosen.sort(key=lambda row: row.time_ms)
    if rows and not chosen:
        asked = sum(not wanted or row.station in wanted for row in rows)
        load.why_none = f"none of {asked} observations is{_span(choice)}"
    elif not rows and load.skipped:
        load.why_none = f"no row holds an observation{_left_out(load.skipped)}"
    elif not rows and choice.limit != 0:
        load.why_none = "there is no row below the names of the columns"
    load.observations = chosen[: choice.limit]
    load.count = len(load.observations)
    return load


def _span(choice: Choice) -> str:
    """The time that was asked for, in words."""
    start = "" if choice.start is None else f" from --start {choice.start} on"
    end = "" if choice.end is None else f" before --end {choice.end}"
    return start + (" and" if start and end else "") + end


def _left_out(skipped: Counter[str]) -> str:
    """Why rows were skipped, the most common reason first."""
    told = ", ".join(f"{reason} {count}" for reason, count in skipped.most_common(5))
    return f": {told}" if told else ""
