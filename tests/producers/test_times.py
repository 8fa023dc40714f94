"""Times of data files: every way of writing them, epochs, and the two bad hours of a year."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.dates import TimeError, day_first
from producers.times import TimeReader
from streamgp.errors import SettingsError

UTC = timezone.utc


def _iso(time_ms: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds")


def test_epochs_of_every_unit_are_the_same_moment_and_told_once() -> None:
    """C05, R71."""
    told: list[str] = []
    reader = TimeReader(tell=told.append)
    moment = 1_709_315_512_000
    assert reader.read(1709315512) == moment
    assert reader.read("1709315512577") == moment + 577
    assert reader.read(1709315512577000000) == moment + 577
    assert reader.read(1709315512577000) == moment + 577
    assert reader.read(1709315512.577) == moment + 577
    assert reader.read("2024-03-01T17:51:52Z") == reader.read("2024-03-01T18:51:52+01:00") == moment
    with pytest.raises(TimeError, match="implausible time"):
        reader.read(45147364669817)
    assert len(told) == 1
    assert "epoch in s" in told[0]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("2024-03-01", "2024-03-01T00:00:00.000+00:00"),
        ("2024-3-1 7:05", "2024-03-01T07:05:00.000+00:00"),
        ("2024/03/01 17:51:52", "2024-03-01T17:51:52.000+00:00"),
        ("2024-03-01T17:51:52.123456789Z", "2024-03-01T17:51:52.123+00:00"),
        ("2024-03-01 17:51:52,5", "2024-03-01T17:51:52.500+00:00"),
        ("2024-03-01T17:51+0530", "2024-03-01T12:21:00.000+00:00"),
        ("2024-03-01 17:51 UTC", "2024-03-01T17:51:00.000+00:00"),
        ("2024-03-01T24:00:00", "2024-03-02T00:00:00.000+00:00"),
        ("20240301", "2024-03-01T00:00:00.000+00:00"),
        ("20240301T1751", "2024-03-01T17:51:00.000+00:00"),
        ("20240301175152", "2024-03-01T17:51:52.000+00:00"),
        ("01.03.2024 17:51", "2024-03-01T17:51:00.000+00:00"),
        ("31/12/2023 11:59 PM", "2023-12-31T23:59:00.000+00:00"),
        ("12/31/2023 12:01 am", "2023-12-31T00:01:00.000+00:00"),
        (" 2024-03-01 ", "2024-03-01T00:00:00.000+00:00"),
        (datetime(2024, 3, 1, 17), "2024-03-01T17:00:00.000+00:00"),
        (datetime(2024, 3, 1), "2024-03-01T00:00:00.000+00:00"),
        ("1961-01-01", "1961-01-01T00:00:00.000+00:00"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.000+00:00"),
    ],
)
def test_ways_of_writing(cell: object, expected: str) -> None:
    assert _iso(TimeReader().read(cell)) == expected


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("", "missing time"),
        (None, "missing time"),
        (float("nan"), "missing time"),
        ("soon", "unreadable time"),
        (True, "unreadable time"),
        ([1], "unreadable time"),
        ("2024-02-30", "implausible time"),
        ("0001-01-01", "implausible time"),
        ("2424-01-01", "implausible time"),
        (float("inf"), "implausible time"),
        (0, "implausible time"),
        ("17", "implausible time"),
        ("03/04/2024", "ambiguous date"),
        ("2024-03-01 13:00 PM", "implausible time"),
    ],
)
def test_what_is_no_time_says_why(cell: object, reason: str) -> None:
    with pytest.raises(TimeError, match=reason):
        TimeReader().read(cell)


def test_day_and_month_are_told_apart_by_the_file_or_by_the_format() -> None:
    assert _iso(TimeReader(day_first=True).read("03/04/2024"))[:10] == "2024-04-03"
    assert _iso(TimeReader(day_first=False).read("03/04/2024"))[:10] == "2024-03-04"
    assert _iso(TimeReader(date_format="%d/%m/%y %H.%M").read("03/04/24 17.30"))[:16] == "2024-04-03T17:30"
    assert day_first(["01/02/2024", "28/02/2024"]) is True
    with pytest.raises(TimeError, match="unreadable"):
        TimeReader(date_format="%d/%m/%Y").read("2024-03-01")


def test_a_unit_that_is_given_is_not_guessed() -> None:
    assert TimeReader(unit="ms").read(10_000) == 10_000
    assert TimeReader(unit="ns").read(1_709_315_512_577_000_000) == 1_709_315_512_577
    with pytest.raises(TimeError, match="implausible"):
        TimeReader(unit="ms").read(45147364669817)


FALL = [f"2022-11-06 {clock}" for clock in ("00:30", "01:00", "01:30", "01:00", "01:30", "02:00")]


@pytest.mark.parametrize("step", [1, -1])
def test_the_doubled_hour_is_told_apart_by_the_order_of_the_rows(step: int) -> None:
    """C07, R70: also in a file with the newest row first."""
    reader = TimeReader(zone="America/Denver")
    got = [_iso(reader.read(cell))[11:16] for cell in FALL[::step]]
    assert got == ["06:30", "07:00", "07:30", "08:00", "08:30", "09:00"][::step]


def test_the_doubled_hour_of_each_station_is_its_own() -> None:
    reader = TimeReader(zone="America/Denver")
    got = [(s, reader.read(cell, station=s)) for cell in FALL for s in ("A", "B")]
    assert len(set(got)) == 12
    for station in ("A", "B"):
        times = [t for s, t in got if s == station]
        assert all(b - a == 1_800_000 for a, b in pairwise(times))


def test_a_time_that_does_not_exist_is_refused() -> None:
    """C07, R70: moved by the gap it could double a row that is there."""
    reader = TimeReader(zone="America/Denver")
    with pytest.raises(TimeError, match="non-existent local time"):
        reader.read("2023-03-12 02:00")
    assert _iso(reader.read("2023-03-12 01:59"))[11:16] == "08:59"
    assert _iso(reader.read("2023-03-12 03:00"))[11:16] == "09:00"


@settings(deadline=None, max_examples=25)
@given(
    zone=st.sampled_from(["America/Denver", "Europe/Dublin", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]),
    year=st.integers(1995, 2035),
    month=st.sampled_from([3, 4, 10, 11]),
    minutes=st.sampled_from([10, 30, 60]),
)
def test_a_regular_series_in_local_time_comes_back_regular(zone: str, year: int, month: int, minutes: int) -> None:
    """R70: the weeks around the changes of the clock, no row missing; noon UTC is in nobody's doubled hour."""
    first = datetime(year, month, 1, 12, tzinfo=UTC) - timedelta(days=8)
    moments = [first + timedelta(minutes=m) for m in range(0, 20 * 24 * 60, minutes)]
    reader = TimeReader(zone=zone)
    cells = [moment.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M") for moment in moments]
    assert [reader.read(cell) for cell in cells] == [int(moment.timestamp() * 1000) for moment in moments]


def test_epochs_that_went_through_single_precision_are_told() -> None:
    """C23: float32 epoch seconds are 128 s apart."""
    told: list[str] = []
    reader = TimeReader(tell=told.append)
    for i in range(20):
        reader.read((1_709_315_512 + 60 * i) // 128 * 128)
    assert [line for line in told if "single precision" in line]
    honest: list[str] = []
    for step in (60, 3_600, 86_400):
        reader = TimeReader(tell=honest.append)
        for i in range(20):
            reader.read(1_709_251_200 + step * i)
    assert not [line for line in honest if "single" in line]


def test_an_unknown_zone_is_an_error() -> None:
    with pytest.raises(SettingsError, match="Mars"):
        TimeReader(zone="Mars/Olympus")
