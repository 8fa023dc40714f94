"""Data files as people send them: what is there comes out, what is not there is missing, never 0.0."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.cells import NotANumberError, number
from producers.content import Content, FileOptions
from producers.dialect import detect
from producers.files import read_file
from producers.mapping import Wishes
from streamgp.errors import DatasetError
from streamgp.wire.codec import encode
from streamgp.wire.records import Observation
from tests.data import SHIPPED

HOUR = 3_600_000
T0 = 1_709_312_400_000  # 2024-03-01 17:00 UTC


def _read(
    folder: Path, content: str | bytes, *, name: str = "data.csv", options: FileOptions | None = None
) -> tuple[Content, list[str]]:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    told: list[str] = []
    return read_file(path, options, tell=told.append), told


def test_bom_semicolons_and_decimal_commas(tmp_path: Path) -> None:
    """C01, R72."""
    content, told = _read(
        tmp_path, b"\xef\xbb\xbfstation;time;pm25\r\nA;2024-03-01 17:00;12,5\r\nA;2024-03-01 18:00;1.234,5\r\n"
    )
    assert [(o.station, o.time_ms, o.y) for o in content.observations] == [
        ("A", T0, 12.5),
        ("A", T0 + HOUR, 1234.5),
    ]
    assert [o.x for o in content.observations] == [{}, {}]
    assert told[0] == "data.csv: utf-8-sig, columns parted by semicolon, decimal ','"
    assert "\ufeff" not in "".join(told)


def test_missing_is_missing_and_an_empty_column_is_told(tmp_path: Path) -> None:
    """C02, R73."""
    days = zip(("", " ", "NA", "unavailable", "7.1"), range(1, 6), strict=True)
    content, told = _read(tmp_path, "time,pm25,other\n" + "".join(f"2024-01-0{d},{v},\n" for v, d in days))
    assert [o.y for o in content.observations] == [7.1]
    assert content.observations[0].x == {"other": None}
    assert content.missing["pm25"] == 4
    assert content.skipped == {"missing": 4}
    assert "data.csv: column other is all missing" in told


def test_sentinels_and_flags(tmp_path: Path) -> None:
    """C04, R68, R69."""
    values = np.random.default_rng(0).normal(20.0, 1.0, size=99)
    rows = [f"{v!r},1" for v in values.tolist()] + ["-9999,1", "-999,1", "0.0,-1", "-25.0,1"]
    text = "time,v,ok\n" + "\n".join(f"{1_700_000_000 + 60 * i},{row}" for i, row in enumerate(rows))
    options = FileOptions(wishes=Wishes(flag="ok"), sentinels=(-9999.0, -999.0))
    content, _ = _read(tmp_path, text, options=options)
    kept = [o.y for o in content.observations]
    assert content.skipped == {"sentinel": 2, "invalid flag": 1}
    assert kept[-1] == -25.0
    assert abs(np.mean(kept[:-1]) - 20) < 0.2
    assert abs(np.std(kept[:-1]) - 1) < 0.2
    text = "station,time,v\nA,2024-01-01,999.9\nB,2024-01-01,999.9\nA,2024-01-02,1999.9\n"
    content, _ = _read(tmp_path, text, options=FileOptions(station_sentinels={"A": (999.9, 1999.9)}))
    assert [o.station for o in content.observations] == ["B"]


def test_epochs_offsets_and_a_nonsense_time(tmp_path: Path) -> None:
    """C05: five moments, one row that is none."""
    epochs = ("1709315512", "1709315512577", "1709315512577000000", "45147364669817")
    cells = (*epochs, "2024-03-01T17:51:52Z", "2024-03-01T18:51:52+01:00")
    content, told = _read(tmp_path, "time,v\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells)))
    assert [(o.time_ms - 1_709_315_512_000, o.y) for o in content.observations] == [
        (0, 0),
        (0, 4),
        (0, 5),
        (577, 1),
        (577, 2),
    ]
    assert content.skipped == {"implausible time": 1}
    fault = content.faults[0]
    assert (fault.source, fault.line, fault.reason, fault.field) == ("data.csv", 5, "implausible time", "time")
    assert json.loads(fault.original) == {"time": "45147364669817", "v": "3"}
    assert sum("epoch" in line for line in told) == 1


def test_local_times_over_both_changes_of_the_clock(tmp_path: Path) -> None:
    """C07, R70."""
    clocks = ("00:30", "01:00", "01:30", "01:00", "01:30", "02:00")
    text = "time,v\n" + "".join(f"2022-11-06 {c},{i}\n" for i, c in enumerate(clocks)) + "2023-03-12 02:00,9\n"
    content, _ = _read(tmp_path, text, options=FileOptions(zone="America/Denver"))
    start = int(datetime(2022, 11, 6, 6, 30, tzinfo=timezone.utc).timestamp() * 1000)
    assert [(o.time_ms, o.y) for o in content.observations] == [(start + i * HOUR // 2, i) for i in range(6)]
    assert content.skipped == {"non-existent local time": 1}


def test_wide_and_long_are_told_apart_and_merged_in_time_order(tmp_path: Path) -> None:
    wide, told = _read(tmp_path, "date,DUB,MAL\n1961-01-02,3,4\n1961-01-01,1.5,\n")
    assert [(o.station, o.y) for o in wide.observations] == [("DUB", 1.5), ("DUB", 3.0), ("MAL", 4.0)]
    assert "wide: time in date, a station a column: DUB, MAL" in told[1]
    text = "site,time,v,w\n" + "".join(f"{s},2024-01-0{d},{d},{9 - d}\n" for s in "BA" for d in (1, 2))
    options = FileOptions(wishes=Wishes(targets=("v",)))
    long, told = _read(tmp_path, text, options=options)
    assert [(o.station, o.y, o.x) for o in long.observations] == [
        ("B", 1.0, {"w": 8.0}),
        ("A", 1.0, {"w": 8.0}),
        ("B", 2.0, {"w": 7.0}),
        ("A", 2.0, {"w": 7.0}),
    ]
    assert "station in site" in told[1]
    several, _ = _read(tmp_path, text, options=FileOptions(wishes=Wishes(targets=("v", "w"), inputs=())))
    assert several.observations[0].y == (1.0, 8.0)
    forced, _ = _read(tmp_path, "time,a,b\n2024-01-01,1,2\n", options=FileOptions(wishes=Wishes(targets=("a",))))
    assert [(o.station, o.y, o.x) for o in forced.observations] == [("data", 1.0, {"b": 2.0})]


def test_irish_wind_as_a_file_equals_irish_wind_by_name() -> None:
    from producers.datasets import observations

    content = read_file(SHIPPED / "irish_wind.csv.gz")
    assert content.observations == list(observations("irish-wind"))


def test_date_and_clock_in_columns_of_their_own(tmp_path: Path) -> None:
    content, told = _read(tmp_path, "Date;Time;Temp\n01.03.2024;17:00;1,5\n01.03.2024;18:00:00;2,5\n")
    assert [o.time_ms for o in content.observations] == [T0, T0 + HOUR]
    assert "time in Date + Time" in told[1]


def test_json_lines_arrays_and_records_of_our_own(tmp_path: Path) -> None:
    records = [
        Observation(station="B", time_ms=T0 + 5, x={"t": 1.5, "u": None}, y=2.5, unit="C"),
        Observation(station="A", time_ms=-T0, x={}, y=(1.0, None)),
    ]
    lines = b"\n".join(encode(record) for record in records)
    content, _ = _read(tmp_path, lines + b"\n\nnot json\n[1]\n", name="ours.jsonl")
    assert content.observations == records[::-1]
    assert content.skipped == {"broken row": 2}
    assert [fault.line for fault in content.faults] == [4, 5]
    text = '[{"time": "2024-03-01T17:00Z", "value": 1, "a": {"b": 2}}, {"time": "2024-03-01T18:00Z", "value": "n/a"}]'
    array, _ = _read(tmp_path, text, name="array.json", options=FileOptions(station_name="S"))
    assert [(o.station, o.time_ms, o.y, o.x) for o in array.observations] == [("S", T0, 1.0, {"a.b": 2.0})]
    bad = '{"time": "2024-03-01", "v": NaN}\n{"time": "2024-03-01", "v": 1e400}\n{"time": "2024-03-01", "v": 1}\n'
    strict, _ = _read(tmp_path, bad, name="nan.jsonl")
    assert (len(strict.observations), strict.skipped) == (1, {"broken row": 2})


def test_parquet_keeps_types_and_refuses_single_precision_times(tmp_path: Path) -> None:
    """C23: an epoch in float32 is refused by name."""
    moments = [datetime(2024, 3, 1, 17), datetime(2024, 3, 1, 18)]
    table = pa.table({"time": pa.array(moments, pa.timestamp("us")), "station": ["A", None], "v": [1.5, 2.5]})
    pq.write_table(table, tmp_path / "a.parquet")
    content = read_file(tmp_path / "a.parquet")
    assert [(o.station, o.time_ms, o.y) for o in content.observations] == [("A", T0, 1.5)]
    assert content.skipped == {"no station": 1}
    zoned = pa.table({"time": pa.array(moments, pa.timestamp("us", tz="UTC")), "v": [1.5, None]})
    pq.write_table(zoned, tmp_path / "b.parquet")
    options = FileOptions(zone="America/Denver")
    assert [o.time_ms for o in read_file(tmp_path / "b.parquet", options).observations] == [T0]
    single = pa.table({"time": pa.array(np.array([1.7e9, 1.7e9], np.float32)), "v": [1.0, 2.0]})
    pq.write_table(single, tmp_path / "c.parquet")
    with pytest.raises(DatasetError, match="single precision"):
        read_file(tmp_path / "c.parquet")


def test_units_by_column_or_for_all(tmp_path: Path) -> None:
    text = "time,v,u\n2024-01-01,18,C\n2024-01-02,64.4,F\n"
    content, _ = _read(tmp_path, text, options=FileOptions(wishes=Wishes(unit="u")))
    assert [o.unit for o in content.observations] == ["C", "F"]
    content, _ = _read(tmp_path, "time,v\n2024-01-01,18\n", options=FileOptions(unit="K"))
    assert [o.unit for o in content.observations] == ["K"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("a,b\n1,2\n", "no column holds times"),
        ("time,site,v,w\n2024-01-01,A,1,2\n", "which column is the target"),
        ("time,v,v\n2024-01-01,1,2\n", "several columns are called v"),
        ("time,v\n2024-01-01,what\n", "no column of numbers"),
        (b"\x00\x01\x02", "no text"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, text: str | bytes, word: str) -> None:
    with pytest.raises(DatasetError, match=word):
        _read(tmp_path, text)


def test_wished_columns_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no column is called wind"):
        _read(tmp_path, "time,v\n2024-01-01,1\n", options=FileOptions(wishes=Wishes(targets=("wind",))))
    with pytest.raises(DatasetError, match="No such file"):
        read_file(tmp_path / "nothing.csv")


def test_broken_rows_and_garbage_are_skipped_by_reason(tmp_path: Path) -> None:
    rows = (
        "A,2024-01-01,1",
        "A,2024-01-02",
        "A,2024-01-03,what",
        ",2024-01-04,1",
        "A,soon,1",
        "A,,1",
        "A,2024-01-05,inf",
    )
    text = "\n".join(("station,time,v", *rows))
    content, _ = _read(tmp_path, text)
    assert [o.y for o in content.observations] == [1.0]
    assert content.skipped == {
        "broken row": 1,
        "not a number": 1,
        "no station": 1,
        "unreadable time": 1,
        "missing time": 1,
        "not finite": 1,
    }
    assert [fault.line for fault in content.faults] == [3, 4, 5, 6, 7, 8]


def test_a_packed_file_that_breaks_off_loses_only_its_end(tmp_path: Path) -> None:
    text = "time,v\n" + "".join(f"{1_700_000_000 + 60 * i},{i % 7}.5\n" for i in range(30_000))
    whole = gzip.compress(text.encode())
    content, _ = _read(tmp_path, whole, name="whole.csv.gz")
    assert len(content.observations) == 30_000
    cut, _ = _read(tmp_path, whole[: len(whole) * 9 // 10], name="cut.csv.gz")
    assert 1_000 < len(cut.observations) < 30_000
    assert cut.skipped["broken row"] == 1


@pytest.mark.parametrize(
    ("cell", "decimal", "value"),
    [
        ("12,5", ",", 12.5),
        ("1.234.567,8", ",", 1234567.8),
        ("1.234", ",", 1234.0),
        ("1,234,567.8", ".", 1234567.8),
        ("1 234,5", ",", 1234.5),
        ("1'234.5", ".", 1234.5),
        ("-0,5", ",", -0.5),
        ("5.", ".", 5.0),
        ("1e-3", ".", 0.001),
        ("  7 ", ".", 7.0),
        (7, ",", 7.0),
        (None, ".", None),
        ("n/a", ",", None),
        (float("nan"), ".", None),
    ],
)
def test_numbers(cell: object, decimal: str, value: float | None) -> None:
    assert number(cell, decimal) == value


@pytest.mark.parametrize("cell", ["12,5", "inf", "-Infinity", "1.2.3", "5 m/s", True, [1], 10**400])
def test_no_numbers(cell: object) -> None:
    with pytest.raises(NotANumberError):
        number(cell)


@settings(deadline=None)
@given(
    values=st.lists(st.floats(-1e6, 1e6).map(lambda v: round(v, 2)), min_size=3, max_size=30),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    decimal=st.sampled_from([".", ","]),
    bom=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_dialect_comes_back(values: list[float], delimiter: str, decimal: str, bom: bool, seed: int) -> None:
    """R72: written in any dialect, with some cells missing, the file reads as what was written."""
    rng = random.Random(seed)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["time", "station", "v"])
    start = datetime(2024, 1, 1)
    kept = []
    for i, value in enumerate([*values, 0.25, 1.75]):
        missing = rng.random() < 0.2 and i < len(values)
        cell = rng.choice(["", "NA", " "]) if missing else f"{value:.2f}".replace(".", decimal)
        writer.writerow([(start + timedelta(hours=i)).isoformat(sep=" "), "Ä", cell])
        kept += [] if missing else [round(value, 2)]
    with tempfile.TemporaryDirectory() as folder:
        content, _ = _read(Path(folder), out.getvalue().encode("utf-8-sig" if bom else "utf-8"))
    assert [o.y for o in content.observations] == kept
    assert {o.station for o in content.observations} == {"Ä"}


_WHOLE = (
    b"\xef\xbb\xbfstation;time;pm25\r\nA;2024-03-01 17:00;12,5\r\nA;2024-03-01 18:00;1.234,5\r\n",
    b"time,v,w\n1709315512,1,2\n1709315572,NA,3\n",
    b'{"station":"A","time_ms":1709315512000,"x":{"t":1.5},"y":2.5}\n{"station":"A","time_ms":5,"x":{},"y":[1,null]}\n',
    b'[{"time":"2024-01-01","value":1},{"time":"2024-01-02","value":2}]',
    b"date,DUB,MAL\n1961-01-01,1,2\n01/02/2024,3,4\n",
    gzip.compress(b"Date;Time;v\n01.03.2024;17:00;1\n" * 40),
)
_TOKENS = (b'"', b",", b";", b"\n", b"\x00", b"NaN", b"1e999", b"\xff", b"{", b"]", b"null", b"9" * 30, b"2024-13-45")


@settings(deadline=None, max_examples=300)
@given(whole=st.sampled_from(_WHOLE), seed=st.integers(0, 2**32 - 1), zone=st.sampled_from(["UTC", "America/Denver"]))
def test_whatever_is_in_a_file_it_is_read_in_order_or_refused(whole: bytes, seed: int, zone: str) -> None:
    rng, data = random.Random(seed), bytearray(whole)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data) + 1)
        cut = rng.choice((0, 0, 1, 12))
        data[at : at + cut] = rng.choice((*_TOKENS, bytes([rng.randrange(256)]), bytes(data[:20])))
    with tempfile.TemporaryDirectory() as folder:
        try:
            content, _ = _read(Path(folder), bytes(data), options=FileOptions(zone=zone))
        except DatasetError:
            return
    for observation in content.observations:
        encode(observation)
    times = [observation.time_ms for observation in content.observations]
    assert times == sorted(times)


def test_a_damaged_parquet_file_is_told_and_times_in_ns_are_read(tmp_path: Path) -> None:
    times = pa.array([1_709_312_400_000_000_001, 1_709_316_000_000_000_999], pa.timestamp("ns"))
    pq.write_table(pa.table({"time": times, "v": [1.0, 2.0]}), tmp_path / "a.parquet")
    assert [o.time_ms for o in read_file(tmp_path / "a.parquet").observations] == [T0, T0 + HOUR]
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[20:60] = b"\x00" * 40
    (tmp_path / "b.parquet").write_bytes(bytes(data))
    damaged = read_file(tmp_path / "b.parquet")
    assert (damaged.observations, damaged.skipped) == ([], {"broken row": 1})
    assert "damaged" in damaged.faults[0].field


def test_encodings() -> None:
    assert detect("é;b\n1,5;2\n".encode("cp1252")).encoding == "cp1252"
    assert detect("a,b\n1.5,2\n".encode("utf-16")).encoding == "utf-16"
    cut: Any = "ä".encode() * 10
    assert detect(b"a,b\n1,2\n" + cut[:-1]).encoding == "utf-8"


@pytest.mark.parametrize(
    "text", ["2024-03-01,7.5\n2024-03-02,8\n", "A,1709312400,7.5\nA,1709316000,8\n", "03/02/2024,7\n13/02/2024,8\n"]
)
def test_a_file_without_a_header_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DatasetError, match="first row holds data"):
        _read(tmp_path, text)


def test_columns_with_numbers_for_names_are_a_header(tmp_path: Path) -> None:
    content, _ = _read(tmp_path, "when,101,102\n2024-03-01,7.5,8\n")
    assert [(o.station, o.y) for o in content.observations] == [("101", 7.5), ("102", 8.0)]
    named = FileOptions(wishes=Wishes(time="2024-03-01", targets=("7.5",)))
    content, _ = _read(tmp_path, "2024-03-01,7.5\n2024-03-02,8\n", options=named)
    assert [o.y for o in content.observations] == [8.0]
