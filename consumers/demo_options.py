"""What the demo's options mean: periods, late stations, units and topics of its own."""

from __future__ import annotations

import re
import time
from datetime import date, datetime, timezone

from producers.datasets.registry import SERIES
from streamgp.errors import SettingsError

#: what is run where --period is not given: a run of the default must not take longer than a minute
DEFAULT_PERIODS = {"irish-wind": ("1961-01-01", "1963-01-01"), "de-pm10": ("1998-01-01", "2000-01-01")}


def period_of(text: str | None, dataset: str) -> tuple[str | None, str | None]:
    """Both ends of a period of years, months or dates, as dates.

    An end that is left out is None, and the last day is not part of it.

    Examples
    --------
    >>> period_of("1961:1963", "irish-wind")
    ('1961-01-01', '1963-01-01')
    >>> period_of("1961-02:", "irish-wind")
    ('1961-02-01', None)
    """
    if text is None:
        return DEFAULT_PERIODS.get(dataset, (None, None))
    start, colon, end = text.partition(":")
    if not colon:
        raise SettingsError(f"--period {text}: FROM:TO expected, for example 1961:1965, 1961-04:1962-04 or 1961-04-01:")
    return _date(start), _date(end)


def _date(text: str) -> str | None:
    if not text:
        return None
    first = {4: "-01-01", 7: "-01"}.get(len(text), "") if re.fullmatch(r"\d{4}(-\d\d){0,2}", text) else ""
    try:
        return date.fromisoformat(text + first).isoformat()
    except ValueError as error:
        raise SettingsError(f"{text!r} is no date: YYYY, YYYY-MM or YYYY-MM-DD expected") from error


def late_of(given: tuple[str, ...]) -> dict[str, int]:
    """Station -> event time (ms) before which it has no observations.

    Examples
    --------
    >>> late_of(("BEL:1962-01-01",))
    {'BEL': -252460800000}
    """
    late = {}
    for text in given:
        station, colon, day = text.rpartition(":")
        when = _date(day) if colon and station else None
        if when is None:
            raise SettingsError(f"--late {text}: STATION:DATE expected, for example BEL:1962-01-01")
        late[station] = int(datetime.fromisoformat(when).replace(tzinfo=timezone.utc).timestamp() * 1000)
    return late


def unit_of(dataset: str, target: str | None) -> str:
    """What the values are, for axes and headings."""
    series = SERIES.get(dataset)
    if series is None or target not in (None, series.quantity):
        return target or "y"
    return f"{series.quantity}, {series.unit}"


def own_prefix(prefix: str) -> str:
    """A prefix that no other run has."""
    return f"{prefix}-demo-{time.time_ns() // 1_000_000}"
