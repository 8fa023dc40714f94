"""From what a file calls a time to event time in ms: ISO and other dates, epochs of four units, local time.

Rules that a reader of the data must know:

- A number is an epoch in s, ms, us or ns: the unit that puts it between 1980 and 2100, and only one can. Eight,
  twelve and fourteen digits that form a date are a date.
- A time without offset is local time of the zone given.
- In the hour that occurs twice the order of a station's rows decides, and their step where it is kept: the first
  pass is the earlier one.
- A local time that does not exist is refused: moved by the gap it could double a row that is there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Literal, TypeAlias, final
from zoneinfo import ZoneInfo

from producers.dates import AMBIGUOUS, IMPLAUSIBLE, MISSING, NO_SUCH_TIME, UNREADABLE, TimeError, calendar
from streamgp.errors import DatasetError, SettingsError

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]
#: ms since 1970 UTC; a year, month, date or time as text, local where it names no offset; or a datetime
When: TypeAlias = int | str | datetime

_PER_MS: dict[Unit, float] = {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}
_EPOCH = datetime(1970, 1, 1)
_MS = timedelta(milliseconds=1)
#: calendar dates outside 1900-2100, and epochs outside 1980-2100, are no times of a measurement
_EARLIEST_MS, _LATEST_MS = -2_208_988_800_000, 4_102_444_800_000
_EARLIEST_EPOCH_MS = 315_532_800_000
_QUARTER_MS = 900_000
_MAX_OFFSETS = 100_000

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")


@dataclass
class _Order:
    """The last times of one station, by which its doubled hour is told apart."""

    last_ms: int | None = None
    gap_ms: int | None = None
    rising: bool | None = None


@dataclass
class Told:
    """What was guessed, for the summary: each guess is told once."""

    epoch_units: dict[str, int] = field(default_factory=dict)
    single_precision: bool = False
    ambiguous: bool = False


@final
class TimeReader:
    """Reads the time cells of one source, in the order of the file.

    Parameters
    ----------
    zone
        IANA name of the zone of times without offset.
    date_format
        A ``strptime`` format, where the guess will not do.
    unit
        Unit of epochs, where the guess will not do.
    day_first
        Whether 1/3/2024 is 1 March; None: not known, such a time is refused.
    tell
        Called once with each guess.

    Examples
    --------
    >>> reader = TimeReader()
    >>> {reader.read(cell) for cell in ("2024-03-01T18:51:52+01:00", "2024-03-01 17:51:52", 1709315512)}
    {1709315512000}
    """

    def __init__(
        self,
        *,
        zone: str = "UTC",
        date_format: str | None = None,
        unit: Unit | None = None,
        day_first: bool | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._zone = zone_of(zone)
        self._utc = zone in ("UTC", "Etc/UTC")
        self._format = date_format
        self._unit = unit
        self._day_first = day_first
        self._tell = tell
        self._orders: dict[str, _Order] = {}
        self._offsets: dict[int, tuple[int, int]] = {}
        self._seconds_gcd, self._epochs = 0, 0
        self.told = Told()

    def read(self, cell: object, *, station: str = "") -> int:
        """Event time in ms.

        Raises
        ------
        TimeError
            With the reason why the cell is no time.
        """
        if isinstance(cell, str):
            cell = cell.strip()
        if cell is None or cell == "":
            raise TimeError(MISSING)
        if isinstance(cell, bool):
            raise TimeError(UNREADABLE)
        if isinstance(cell, (int, float)):
            return self._epoch(cell)
        if isinstance(cell, datetime):
            return self._place(cell, station)
        if isinstance(cell, date):
            return self._place(datetime(cell.year, cell.month, cell.day), station)
        if not isinstance(cell, str):
            raise TimeError(UNREADABLE)
        if self._format is not None:
            try:
                return self._place(datetime.strptime(cell, self._format), station)
            except ValueError:
                raise TimeError(UNREADABLE) from None
        try:
            parsed = calendar(cell, day_first=self._day_first)
        except TimeError as error:
            if str(error) == AMBIGUOUS and not self.told.ambiguous:
                self.told.ambiguous = True
                self._tell(f"{cell} has the day first or the month: name a date format")
            raise
        if parsed is not None:
            return self._place(parsed, station)
        if _NUMBER.fullmatch(cell):
            return self._epoch(int(cell) if cell.isdigit() else float(cell))
        raise TimeError(UNREADABLE)

    def _epoch(self, value: int | float) -> int:
        if not math.isfinite(value):
            raise TimeError(MISSING if value != value else IMPLAUSIBLE)
        units: Iterable[Unit] = (self._unit,) if self._unit is not None else ("s", "ms", "us", "ns")
        earliest = _EARLIEST_MS if self._unit is not None else _EARLIEST_EPOCH_MS
        for unit in units:
            per_ms = _PER_MS[unit]
            if earliest * per_ms <= value < _LATEST_MS * per_ms:
                self._note(unit, value)
                if isinstance(value, int):
                    return value * 1000 if unit == "s" else value // int(per_ms)
                return round(value / per_ms)
        raise TimeError(IMPLAUSIBLE)

    def _note(self, unit: Unit, value: int | float) -> None:
        """Tell the unit once, and once that times lie where single precision leaves them: 128 s apart."""
        seen = self.told.epoch_units
        if not seen and self._unit is None:
            self._tell(f"times are numbers: taken as an epoch in {unit}")
        seen[unit] = seen.get(unit, 0) + 1
        self._epochs += 1
        if self._epochs > 16:
            return
        self._seconds_gcd = math.gcd(self._seconds_gcd, int(value if unit == "s" else value / _PER_MS[unit] / 1e3))
        if self._epochs == 16 and self._seconds_gcd % 128 == 0 and self._seconds_gcd % 86_400:
            self.told.single_precision = True
            self._tell("all times are multiples of 128 s: they went through single precision and are not exact")

    def _place(self, moment: datetime, station: str) -> int:
        """ms of a moment; a local one by its zone and, in a doubled hour, by the order of the station's rows."""
        if moment.tzinfo is not None:
            return self._checked(round((moment - _EPOCH.replace(tzinfo=timezone.utc)) / _MS))
        local_ms = round((moment - _EPOCH) / _MS)
        if self._utc:
            return self._checked(local_ms)
        quarter = local_ms // _QUARTER_MS  # no zone changes its clock within a quarter of an hour
        offsets = self._offsets.get(quarter)
        if offsets is None:
            offsets = self._offsets[quarter] = _offset_ms(moment, self._zone, 0), _offset_ms(moment, self._zone, 1)
            if len(self._offsets) > _MAX_OFFSETS:
                del self._offsets[next(iter(self._offsets))]
        first, second = local_ms - offsets[0], local_ms - offsets[1]
        order = self._orders.setdefault(station, _Order())
        if first == second:
            chosen = first
        elif second < first:
            # The clock was put forward past this time: by either offset it would be another local time.
            raise TimeError(NO_SUCH_TIME)
        else:
            chosen = _in_order(first, second, order)
        if order.last_ms is not None:
            order.gap_ms = chosen - order.last_ms
            if order.rising is None and order.gap_ms:
                order.rising = order.gap_ms > 0
        order.last_ms = chosen
        return self._checked(chosen)

    @staticmethod
    def _checked(time_ms: int) -> int:
        if not _EARLIEST_MS <= time_ms < _LATEST_MS:
            raise TimeError(IMPLAUSIBLE)
        return time_ms


def to_ms(when: When, zone: tzinfo = timezone.utc) -> int:
    """Event time in ms of a moment that a person named; local to ``zone`` where it has no offset of its own.

    Raises
    ------
    DatasetError
        If the text is no moment.

    Examples
    --------
    >>> to_ms("2013-03-01", ZoneInfo("Asia/Shanghai")) == to_ms("2013-02-28T16:00Z")
    True
    >>> to_ms("1970"), to_ms("1970-02")
    (0, 2678400000)
    """
    if isinstance(when, int):
        return when
    if isinstance(when, str):
        text = when.strip() + {4: "-01-01", 7: "-01"}.get(len(when.strip()), "")
        try:
            moment = calendar(text)
        except TimeError as error:
            raise DatasetError(f"{when!r}: {error}") from error
        if moment is None:
            raise DatasetError(f"{when!r} is no date or time")
        when = moment
    if when.tzinfo is None:
        when = when.replace(tzinfo=zone)
    return round((when - _EPOCH.replace(tzinfo=timezone.utc)) / _MS)


def zone_of(name: str) -> tzinfo:
    """The zone of an IANA name.

    Raises
    ------
    SettingsError
        If there is none of that name.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise SettingsError(f"no time zone is called {name!r}") from error


def _offset_ms(moment: datetime, zone: tzinfo, fold: int) -> int:
    offset = moment.replace(fold=fold, tzinfo=zone).utcoffset()
    assert offset is not None
    return round(offset / _MS)


def _in_order(first: int, second: int, order: _Order) -> int:
    """Which pass of a doubled hour: the one in the station's step, else the next in the rows' direction."""
    last = order.last_ms
    if last is None:
        return first
    if order.gap_ms in (first - last, second - last):
        return last + order.gap_ms
    if order.rising is False:
        return second if second < last else first
    return first if first > last else second
