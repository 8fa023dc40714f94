"""Named sets: what the files hold comes out, in event-time order, nothing made up."""

from __future__ import annotations

import csv
import gzip
import math
from datetime import datetime, timezone
from itertools import pairwise

import numpy as np
import pytest

from producers import datasets
from producers.datasets import Region, check_location, observations, select, stations
from streamgp.errors import DatasetError
from streamgp.experiments import tables
from tests.data import DATA, SHIPPED, needs


@pytest.fixture(autouse=True)
def _data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    if DATA.is_dir():
        monkeypatch.setenv("STREAMGP_DATA", str(DATA))


def _ms(*when: int) -> int:
    return int(datetime(*when, tzinfo=timezone.utc).timestamp() * 1000)


def test_irish_wind_equals_its_file_row_by_row() -> None:
    with gzip.open(SHIPPED / "irish_wind.csv.gz", "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [
        (code, _ms(*map(int, row["date"].split("-"))), float(row[code]))
        for row in rows
        for code in row
        if code != "date"
    ]
    assert [(o.station, o.time_ms, o.y) for o in observations("irish-wind")] == expected


def test_de_pm10_is_merged_by_time_and_loses_no_row() -> None:
    with gzip.open(SHIPPED / "de_pm10.csv.gz", "rt", newline="") as file:
        expected = {(r["station"], r["date"], float(r["pm10"])) for r in csv.DictReader(file)}
    got = list(observations("de-pm10"))
    assert len(got) == len(expected) == 149_151
    assert all(a.time_ms <= b.time_ms for a, b in pairwise(got))
    day = {o.time_ms: datetime.fromtimestamp(o.time_ms / 1000, timezone.utc).strftime("%Y-%m-%d") for o in got}
    assert {(o.station, day[o.time_ms], o.y) for o in got} == expected


@pytest.mark.parametrize("name", ["irish-wind", "de-pm10"])
def test_every_station_that_ships_has_a_possible_place(name: str) -> None:
    """R78: nobody stands at null island or in another ocean."""
    places = stations(name)
    assert set(places) == {o.station for o in observations(name)}
    region = datasets.registry.SERIES[name].region
    assert region is not None
    assert not [station for station, p in places.items() if check_location(p.lat, p.lon, region) is not None]


@pytest.mark.parametrize(
    ("place", "region", "reason"),
    [
        ((0.0, 0.0), None, "null island"),
        ((144.96, -37.81), None, "latitude out of range: swapped?"),
        ((47.72, 87.41), Region(lon_min=-100, lon_max=-70), "outside region: sign?"),
        ((47.72, -87.41), Region(lon_min=-100, lon_max=-70), None),
        ((-6.25, 53.43), Region(51, 56, -11, -5), "outside region: swapped?"),
        ((10.0, 10.0), Region(51, 56, -11, -5), "outside region"),
        ((math.nan, 1.0), None, "not finite"),
        ((200.0, 300.0), None, "latitude out of range"),
        ((45.0, 300.0), None, "longitude out of range"),
        ((-17.0, 179.5), Region(-20, -10, 170, -170), None),
        ((-17.0, -179.5), Region(-20, -10, 170, -170), None),
        ((-17.0, 10.0), Region(-20, -10, 170, -170), "outside region"),
    ],
)
def test_a_place_is_refused_with_its_own_reason(
    place: tuple[float, float], region: Region | None, reason: str | None
) -> None:
    """C10, R78."""
    assert check_location(*place, region) == reason


def test_selection_by_station_time_and_limit() -> None:
    got = list(observations("irish-wind", stations=["MAL", "RPT"], start="1961-01-02", end="1961-01-04", limit=3))
    assert [(o.station, o.time_ms) for o in got] == [
        ("RPT", _ms(1961, 1, 2)),
        ("MAL", _ms(1961, 1, 2)),
        ("RPT", _ms(1961, 1, 3)),
    ]
    zoned = list(observations("irish-wind", start="1961-01-02T01:00+01:00", end=_ms(1961, 1, 3)))
    assert {o.time_ms for o in zoned} == {_ms(1961, 1, 2)}
    assert not list(observations("irish-wind", limit=0))


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("irish-wind", {"stations": ["XYZ"]}, "XYZ"),
        ("irish-wind", {"target": "rain"}, "rain"),
        ("irish-wind", {"start": "yesterday"}, "yesterday"),
        ("no-such-set", {}, "no-such-set"),
    ],
)
def test_what_is_not_there_is_named(name: str, options: dict[str, object], word: str) -> None:
    with pytest.raises(DatasetError, match=word):
        observations(name, **options)


def test_a_set_that_is_nowhere_says_where_it_looked(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("STREAMGP_DATA", "/nowhere")
    monkeypatch.setenv("STREAMGP_CACHE", str(tmp_path))
    with pytest.raises(DatasetError, match="/nowhere"):
        tables.table("concrete")


@pytest.mark.data
@needs("beijing_air_quality.parquet")
def test_beijing_is_local_time_and_missing_is_never_zero() -> None:
    chosen = select("beijing-air", target="PM2.5")
    assert (len(chosen), chosen.missing) == (420_768 - 8_739, 8_739)
    first = next(iter(chosen))
    assert (first.station, first.time_ms, first.y) == ("Aotizhongxin", _ms(2013, 2, 28, 16), 4.0)
    assert first.x["wd"] == 337.5
    assert list(first.x) == ["PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN", "wd", "WSPM"]
    day = list(observations("beijing-air", start="2013-03-01", end="2013-03-02", stations=["Huairou"]))
    assert {o.time_ms for o in day} <= set(range(_ms(2013, 2, 28, 16), _ms(2013, 3, 1, 16), 3_600_000))
    some = list(observations("beijing-air", target="PM2.5,CO", limit=20_000))
    assert any(o.y[1] is None for o in some if isinstance(o.y, tuple))
    assert not any(o.y == (None, None) for o in some)


@pytest.mark.data
@needs("elecdemand.csv.gz", "solent_weather.csv.gz", "mg.csv.gz")
def test_other_series_and_tables_as_observations() -> None:
    first = next(observations("elecdemand"))
    assert (first.station, first.time_ms, list(first.x)) == (
        "Victoria",
        _ms(2013, 12, 31, 14),
        ["workday", "temperature"],
    )
    assert {o.station for o in observations("solent", limit=8000)} == {
        "bramblemet",
        "cambermet",
        "chimet",
        "sotonmet",
    }
    X, y, names = datasets.table("mg")
    got = list(observations("mg"))
    assert [o.y for o in got] == y.tolist()
    assert [[o.x[name] for name in names] for o in got[:50]] == X[:50].tolist()
    assert {b.time_ms - a.time_ms for a, b in pairwise(got)} == {1000}


@pytest.mark.data
@needs("kin40k.csv.gz", "sarcos_partial.csv.gz", "concrete.csv.gz", "abalone.csv.gz")
def test_tables_have_their_published_splits() -> None:
    assert datasets.table("kin40k", part="train").X.shape == (10_000, 8)
    assert datasets.table("kin40k", part="test").X.shape == (30_000, 8)
    train, test = datasets.table("sarcos", part="train"), datasets.table("sarcos", part="test")
    assert (train.X.shape, test.X.shape) == ((3_315 - 332, 21), (4_449, 21)) or len(train.y) == 44_484
    assert not {row.tobytes() for row in train.X} & {row.tobytes() for row in test.X} or len(train.y) == 44_484
    rest, fold = (datasets.table("concrete", part=part, fold=3) for part in ("train", "test"))
    assert (len(rest.y), len(fold.y)) == (927, 103)
    assert datasets.table("abalone").X.shape == (4_177, 8)
    assert set(np.unique(datasets.table("abalone").X[:, 0])) == {1.0, 2.0, 3.0}
    for options in ({"part": "train"}, {"fold": 3}, {"part": "train", "fold": 10}, {"target": "x"}):
        with pytest.raises(DatasetError):
            datasets.table("concrete", **options)
