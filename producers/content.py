"""How a data file is to be read, and what it was found to hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from producers import dates
from producers.mapping import Wishes
from producers.times import Unit
from streamgp.wire.records import Observation

NOT_A_NUMBER, NO_STATION, BROKEN = "not a number", "no station", "broken row"
MISSING, SENTINEL, INVALID = "missing", "sentinel", "invalid flag"
#: reasons that are faults of the data, to be looked at; rows skipped for another reason were to be left out
FAULTS = frozenset(
    {
        dates.IMPLAUSIBLE, dates.UNREADABLE, dates.NO_SUCH_TIME, dates.MISSING, dates.AMBIGUOUS,
        NOT_A_NUMBER, "not finite", NO_STATION, BROKEN,
    }
)  # fmt: skip


@dataclass(frozen=True)
class FileOptions:
    """How to read a file; None where it is to be found out.

    ``valid`` are the values of the flag column that let a row pass. ``station_name`` is the name of the station
    in a file that has none; its default is the file's name.
    """

    wishes: Wishes = field(default_factory=Wishes)
    zone: str = "UTC"
    date_format: str | None = None
    time_unit: Unit | None = None
    delimiter: str | None = None
    decimal: str | None = None
    sentinels: tuple[float, ...] = ()
    station_sentinels: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    valid: tuple[str, ...] = ("1",)
    unit: str | None = None
    station_name: str | None = None


@dataclass(frozen=True)
class Skipped:
    """A faulty row or value: where it stood, and what is wrong with which column."""

    source: str
    line: int
    reason: str
    field: str
    station: str
    original: bytes


@dataclass
class Content:
    """What a file holds: observations, oldest first; counts of what was left out, and the faulty rows."""

    observations: list[Observation] = field(default_factory=list)
    faults: list[Skipped] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
