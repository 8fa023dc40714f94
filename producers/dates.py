"""Dates and times of day in the ways people write them, to moments of the calendar."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

IMPLAUSIBLE = "implausible time"
UNREADABLE = "unreadable time"
NO_SUCH_TIME = "non-existent local time"
MISSING = "missing time"
AMBIGUOUS = "ambiguous date"

_CLOCK = r"(?:[T ]+(\d{1,2})(?::?(\d{2}))?(?::?(\d{2})(?:[.,](\d+))?)?\s*([AaPp][Mm])?)?"
_ZONE = r"\s*(Z|z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?"
_YEAR_FIRST = re.compile(rf"(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}}){_CLOCK}{_ZONE}")
_YEAR_LAST = re.compile(rf"(\d{{1,2}})([-/.])(\d{{1,2}})[-/.](\d{{4}}){_CLOCK}{_ZONE}")
_MONTH = re.compile(r"(\d{4})[-/](\d{1,2})")
_COMPACT = re.compile(rf"(\d{{4}})(\d{{2}})(\d{{2}})(?:T?(\d{{2}})(\d{{2}})(\d{{2}})?)?{_ZONE}")


class TimeError(ValueError):
    """A cell that is no time; the text is one of the fixed reasons above."""


def calendar(text: str, *, day_first: bool | None = None) -> datetime | None:
    """The moment that a date in digits and separators names, with its offset where it has one.

    A month is its first moment. Years come first, or last after day and month (with dots the day is first). Clocks
    may have a fraction of a second, AM or PM, and 24:00. None if the text is no date at all.

    Raises
    ------
    TimeError
        If there is no such day, or the day and the month cannot be told apart.

    Examples
    --------
    >>> str(calendar("2024-03-01T17:51:52.5Z")), str(calendar("01.03.2024 5:51 pm")), calendar("17")
    ('2024-03-01 17:51:52.500000+00:00', '2024-03-01 17:51:00', None)
    """
    if text[4:5] == text[7:8] == "-":
        try:
            return datetime.fromisoformat(text)  # the common case, in C
        except ValueError:
            pass
    if match := _YEAR_FIRST.fullmatch(text):
        year, month, day, *clock = match.groups()
    elif match := _MONTH.fullmatch(text):
        year, month, day, clock = match[1], match[2], "1", [None] * 6
    elif match := _COMPACT.fullmatch(text):
        year, month, day, hour, minute, second, offset = match.groups()
        if not ("1900" <= year < "2100" and "01" <= month <= "12" and "01" <= day <= "31"):
            return None
        clock = [hour, minute, second, None, None, offset]
    elif match := _YEAR_LAST.fullmatch(text):
        first, separator, second, year, *clock = match.groups()
        if separator == ".":
            day_first = True
        if day_first is None and int(first) <= 12 and int(second) <= 12 and first != second:
            raise TimeError(AMBIGUOUS)
        if day_first is None:
            day_first = int(first) > 12
        day, month = (first, second) if day_first else (second, first)
    else:
        return None
    try:
        return _moment(int(year), int(month), int(day), *clock)
    except ValueError:
        raise TimeError(IMPLAUSIBLE) from None


def day_first(cells: Iterable[object]) -> bool | None:
    """Whether dates like 1/3/2024 have the day first, by those that can be read one way only.

    Examples
    --------
    >>> day_first(["01/03/2024", "13/03/2024"]), day_first(["01/03/2024", "03/13/2024"]), day_first(["01/03/2024"])
    (True, False, None)
    """
    for cell in cells:
        if isinstance(cell, str) and (match := _YEAR_LAST.fullmatch(cell.strip())):
            if int(match[1]) > 12:
                return True
            if int(match[3]) > 12:
                return False
    return None


def needs_day_first(cells: Iterable[object]) -> bool:
    """Whether dates of the kind 1/3/2024 are among them."""
    matches = (_YEAR_LAST.fullmatch(cell.strip()) for cell in cells if isinstance(cell, str))
    return any(match is not None and match[2] != "." for match in matches)


def _moment(
    year: int,
    month: int,
    day: int,
    hour: str | None,
    minute: str | None,
    second: str | None,
    fraction: str | None,
    half: str | None,
    offset: str | None,
) -> datetime:
    hours = int(hour or 0)
    if half is not None:
        if not 1 <= hours <= 12:
            raise ValueError("no such hour")
        hours = hours % 12 + (12 if half.lower() == "pm" else 0)
    carry = timedelta(0)
    if hours == 24 and not int(minute or 0) and not int(second or 0):
        hours, carry = 0, timedelta(days=1)
    seconds = int(second or 0)
    if seconds == 60:  # a leap second is the last one again
        seconds = 59
    micro = int((fraction or "0")[:6].ljust(6, "0"))
    moment = datetime(year, month, day, hours, int(minute or 0), seconds, micro) + carry
    if offset is None:
        return moment
    if offset[0] not in "+-":
        return moment.replace(tzinfo=timezone.utc)
    minutes = int(offset[1:3]) * 60 + int(offset[-2:] if len(offset) > 3 else 0)
    return moment.replace(tzinfo=timezone(timedelta(minutes=minutes if offset[0] == "+" else -minutes)))
