"""``replay`` as a command, over the embedded log."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from producers import replay
from producers.datasets import observations
from streamgp.wire.codec import decode
from streamgp.wire.deadletter import read_dead_letter
from streamgp.wire.log import Subscription
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Observation
from streamgp.wire.topics import topic_plan


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create_topics(topic_plan("streamgp", partitions=1))
    return log


def _run(log: MemoryLog | None, *args: object) -> Result:
    return CliRunner().invoke(replay.command, [str(arg) for arg in args], obj=log)


def _sent(log: MemoryLog, topic: str = "streamgp.observations") -> list[Observation]:
    return [decode(m.value, Observation) for m in log.reader([Subscription(topic)]).poll(0.0, 10**6)]


def _file(folder: Path, text: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_named_set_arrives_whole_and_in_order(log: MemoryLog) -> None:
    result = _run(log, "--dataset", "irish-wind", "--start", "1961-02", "--end", "1961-03", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["sent"], summary["acknowledged"], summary["failed"], summary["skipped"]) == (336, 336, 0, {})
    assert _sent(log) == list(observations("irish-wind", start="1961-02-01", end="1961-03-01"))
    messages = log.reader([Subscription("streamgp.observations")]).poll(0.0)
    assert messages[0].key == "RPT"
    assert messages[0].timestamp_ms > 1_700_000_000_000  # the time of sending; event time is in the payload


def test_stations_limit_and_prefix(log: MemoryLog) -> None:
    log.create_topics(topic_plan("mine", partitions=1))
    result = _run(log, "--dataset", "irish-wind", "--station", "DUB,MAL", "--limit", 3, "--prefix", "mine")
    assert result.exit_code == 0
    assert [o.station for o in _sent(log, "mine.observations")] == ["DUB", "MAL", "DUB"]
    assert "sent 3, acknowledged 3, failed 0, skipped 0" in result.stdout


def test_dialect_is_printed_and_the_rows_are_right(log: MemoryLog, tmp_path: Path) -> None:
    """C01, R72."""
    content = b"\xef\xbb\xbfstation;time;pm25\r\nA;2024-03-01 17:00;12,5\r\nA;2024-03-01 18:00;1.234,5\r\n"
    result = _run(log, "--file", _file(tmp_path, content), "--time-zone", "UTC")
    assert result.exit_code == 0
    assert [o.y for o in _sent(log)] == [12.5, 1234.5]
    assert "parted by semicolon, decimal ','" in result.stderr


def test_missing_cells_are_counted_and_never_sent(log: MemoryLog, tmp_path: Path) -> None:
    """C02, R73."""
    rows = [f'2024-01-0{i + 1},"{cell}",' for i, cell in enumerate(("", " ", "NA", "unavailable", "7.1"))]
    result = _run(log, "--file", _file(tmp_path, "\n".join(["time,pm25,other", *rows])), "--json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert (summary["sent"], summary["skipped"], summary["missing"]["pm25"]) == (1, {"missing": 4}, 4)
    assert [o.y for o in _sent(log)] == [7.1]
    assert "column other is all missing" in result.stderr


def test_sentinels_flags_units_and_columns_by_options(log: MemoryLog, tmp_path: Path) -> None:
    """C04, R68, R69."""
    text = (
        "when,where,temp,ok,hum\n"
        "2024-01-01,A,20,1,5\n2024-01-02,A,-9999,1,5\n2024-01-03,A,0.0,-1,5\n"
        "2024-01-04,A,-25,1,5\n2024-01-05,B,999.9,1,5\n2024-01-06,A,999.9,1,5\n"
    )
    options = ["--time-column", "when", "--station-column", "where", "--target", "temp", "--flag-column", "ok"]
    options += ["--sentinel", "-9999", "--sentinel", "B=999.9", "--x-columns", "hum", "--unit", "C", "--json"]
    result = _run(log, "--file", _file(tmp_path, text), *options)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["skipped"] == {"sentinel": 2, "invalid flag": 1}
    assert [(o.station, o.y, o.x, o.unit) for o in _sent(log)] == [
        ("A", 20.0, {"hum": 5.0}, "C"),
        ("A", -25.0, {"hum": 5.0}, "C"),
        ("A", 999.9, {"hum": 5.0}, "C"),
    ]


def test_faulty_rows_become_dead_letters_with_their_origin(log: MemoryLog, tmp_path: Path) -> None:
    """C05, C07: what cannot be placed in time is kept for a person to look at."""
    text = "time,v\n45147364669817,4\n2024-03-01T17:51:52Z,5\n"
    result = _run(log, "--file", _file(tmp_path, text), "--station", "A", "--json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert (summary["sent"], summary["dead_letters"], summary["skipped"]) == (1, 1, {"implausible time": 1})
    letters = [read_dead_letter(m) for m in log.reader([Subscription("streamgp.dead-letter")]).poll(0.0)]
    assert [(x.topic, x.offset, x.key, x.reason, x.field) for x in letters] == [
        ("file:data.csv", 2, "A", "implausible time", "time")
    ]
    assert json.loads(letters[0].value or b"") == {"time": "45147364669817", "v": "4"}


def test_several_files_are_merged_by_time(log: MemoryLog, tmp_path: Path) -> None:
    a = _file(tmp_path, "time,v\n2024-01-01,1\n2024-01-03,3\n", "A.csv")
    b = _file(tmp_path, '{"time": "2024-01-02", "v": 2}\n{"time": "2024-01-01", "v": 1.5}\n', "B.jsonl")
    result = _run(log, "--file", a, "--file", b, "--end", "2024-01-03")
    assert result.exit_code == 0
    assert [(o.station, o.y) for o in _sent(log)] == [("A", 1.0), ("B", 1.5), ("B", 2.0)]


def test_no_broker_fails_and_a_second_run_sends_what_failed(log: MemoryLog, tmp_path: Path) -> None:
    """C14, R05: never a success line, and nothing sent twice."""
    left = tmp_path / "left.jsonl"
    log.available = False
    run = ("--dataset", "irish-wind", "--limit", 100, "--resume", left, "--timeout", 1)
    first = _run(log, *run)
    assert first.exit_code == 1
    assert "sent 100, acknowledged 0, failed 100" in first.stdout
    assert len(left.read_bytes().splitlines()) == 100
    log.available = True
    second = _run(log, *run, "--json")
    assert second.exit_code == 0
    assert json.loads(second.stdout)["acknowledged"] == 100
    assert "that an earlier run left" in second.stderr
    assert not left.exists()
    assert _sent(log) == list(observations("irish-wind", limit=100))


def test_a_dry_run_sends_nothing(log: MemoryLog) -> None:
    result = _run(log, "--dataset", "irish-wind", "--limit", 5, "--dry-run", "--json")
    assert (result.exit_code, json.loads(result.stdout)["read"], json.loads(result.stdout)["sent"]) == (0, 5, 0)
    assert not _sent(log)


def test_a_missing_topic_names_the_command_that_makes_it() -> None:
    """R17."""
    result = _run(MemoryLog(), "--dataset", "irish-wind", "--limit", 5)
    assert result.exit_code == 4
    assert "streamgp.observations" in result.stderr
    assert "streamgp topics create" in result.stderr


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ([], "either --dataset NAME or --file PATH"),
        (["--dataset", "irish-wind", "--file", "x.csv"], "either"),
        (["--dataset", "irish-wind", "--station", "XYZ"], "XYZ"),
        (["--dataset", "irish-wind", "--start", "soon"], "soon"),
        (["--dataset", "irish-wind", "--limit", "3", "--speed", "1", "--rate", "1"], "contradict"),
        (["--dataset", "irish-wind", "--limit", "3", "--rate", "0"], "rate"),
        (["--file", "nothing.csv"], "nothing.csv"),
        (["--file", "nothing.csv", "--time-zone", "Mars"], "Mars"),
        (["--file", "nothing.csv", "--sentinel", "A=x"], "no number"),
        (["--file", "nothing.csv", "--delimiter", "ab"], "delimiter"),
    ],
)
def test_wrong_use_is_told_in_one_line(log: MemoryLog, args: list[str], word: str) -> None:
    result = _run(log, *args)
    assert result.exit_code not in (0, 2)
    assert word in result.stderr
    assert result.stderr.startswith("error: ")
    assert not _sent(log)


def test_a_station_that_no_file_has_is_named(log: MemoryLog, tmp_path: Path) -> None:
    path = _file(tmp_path, "station,time,v\nA,2024-01-01,1\nB,2024-01-01,2\n")
    assert "no observation of C; there are A, B" in _run(log, "--file", path, "--station", "A,C").stderr
    empty = _file(tmp_path, "station,time,v\n", "empty.csv")
    assert "no observation of C" in _run(log, "--file", empty, "--target", "v", "--station", "C").stderr
    assert _run(log, "--file", path, "--station", "B").exit_code == 0
    assert [o.station for o in _sent(log)] == ["B"]


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--time-column", "v"], "implausible time 2"),
        (["--target", "note"], "not a number 2"),
        (["--date-format", "%d/%m/%Y"], "unreadable time 2"),
        (["--start", "2025", "--end", "2024"], "from --start 2025 on and before --end 2024"),
        (["--date-format", "%d/%m/%Y", "--station", "A"], "unreadable time 2"),
    ],
)
def test_rows_of_which_none_can_be_sent_are_a_failure(
    log: MemoryLog, tmp_path: Path, args: list[str], word: str
) -> None:
    path = _file(tmp_path, "station,time,v,note\nA,2024-01-01,1,x1\nA,2024-01-02,2,x2\n")
    result = _run(log, "--file", path, "--target", "v", *args, "--json")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("error: nothing to send: ")
    assert word in result.stderr
    assert json.loads(result.stdout)["sent"] == 0
    assert not _sent(log)


def test_a_set_without_an_observation_in_the_time_asked_for_is_a_failure(log: MemoryLog) -> None:
    result = _run(log, "--dataset", "irish-wind", "--start", "1962", "--end", "1961")
    assert result.exit_code == 1
    assert "irish-wind has no observation from --start 1962 on and before --end 1961" in result.stderr
    assert _run(log, "--dataset", "irish-wind", "--limit", 0).exit_code == 0


def test_a_code_for_missing_that_nobody_named_is_told_and_sent(log: MemoryLog, tmp_path: Path) -> None:
    """R68, C04: -999 may be a reading, so it is not left out; who replays it is told what it looks like."""
    text = "time,v,w\n2024-01-01,20,-99\n2024-01-02,-999,-98\n2024-01-03,21,-100\n2024-01-04,-999,-97\n"
    path = _file(tmp_path, text)
    result = _run(log, "--file", path, "--target", "v")
    assert (
        "v is -999 in 2 rows, and 20 to 21 in all others: if that means missing, say --sentinel=-999" in result.stderr
    )
    assert len(_sent(log)) == 4
    named = _run(log, "--file", path, "--target", "v", "--sentinel=-999", "--json")
    assert json.loads(named.stdout)["skipped"] == {"sentinel": 2}
    assert "means missing" not in named.stderr + _run(log, "--file", path, "--target", "w").stderr


def test_a_file_without_a_row_is_a_failure(log: MemoryLog, tmp_path: Path) -> None:
    result = _run(log, "--file", _file(tmp_path, "time,v\n"))
    assert result.exit_code == 1
    assert "nothing to send: there is no row below the names of the columns" in result.stderr


def test_months_grouped_digits_nameless_columns_and_wide_text_are_read(log: MemoryLog, tmp_path: Path) -> None:
    """R72: as spreadsheets and archives write them."""
    for text, told in (
        ("time;v\n2024-01;1\u00a0234,5\n2024-02;12 345,6\n", [1234.5, 12345.6]),
        ("time,v,\n2024-01,1,\n2024-02,2,\n", [1.0, 2.0]),
    ):
        fresh = MemoryLog()
        fresh.create_topics(topic_plan("streamgp", partitions=1))
        for encoding in ("utf-8", "utf-16", "utf-32"):
            result = _run(fresh, "--file", _file(tmp_path, text.encode(encoding)))
            assert result.exit_code == 0, result.stderr
        sent = _sent(fresh)
        assert [o.y for o in sent] == told * 3
        assert [(o.time_ms, o.x) for o in sent[:2]] == [(1_704_067_200_000, {}), (1_706_745_600_000, {})]


def test_rubbish_between_json_lines_is_no_column(log: MemoryLog, tmp_path: Path) -> None:
    lines = ('{"time": "2024-01-01", "v": 1}', "rubbish", "[1]", '{"time": "2024-01-02", "v": NaN}')
    result = _run(log, "--file", _file(tmp_path, "\n".join(lines), "a.jsonl"), "--json")
    assert json.loads(result.stdout)["skipped"] == {"broken row": 3}
    assert [(o.y, o.x) for o in _sent(log)] == [(1.0, {})]
    nothing = _run(log, "--file", _file(tmp_path, '{"a": ', "b.json"))
    assert nothing.exit_code == 1
    assert "no JSON" in nothing.stderr


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_a_packed_file_that_breaks_off_is_told_and_the_rows_before_it_are_sent(
    log: MemoryLog, tmp_path: Path, kind: str
) -> None:
    rows = [{"time": f"2024-01-{i // 24 + 1:02d}T{i % 24:02d}:00:00Z", "y": i} for i in range(700)]
    lines = [json.dumps(row) for row in rows]
    text = {
        "csv": "time,y\n" + "".join(f"{row['time']},{row['y']}\n" for row in rows),
        "jsonl": "\n".join(lines),
        "json": f"[{','.join(lines)}]",
    }[kind]
    packed = gzip.compress(text.encode())
    half = _run(log, "--file", _file(tmp_path, packed[: len(packed) // 2], f"a.{kind}.gz"), "--target", "y")
    assert "the file breaks off: Compressed file ended" in half.stderr
    sent = len(_sent(log))
    assert half.exit_code == (0 if sent else 1)
    assert 0 < sent < 700 or (kind == "json" and not sent)  # an array is read as a whole
    for most in (5, 15):
        nothing = _run(log, "--file", _file(tmp_path, packed[:most], f"b.{kind}.gz"))
        assert nothing.exit_code == 1
        assert "breaks off before its first row" in nothing.stderr


@pytest.mark.parametrize("text", ["time,v\n2024-01-01,1\n", "time,station,value", '[{"time":"2024-01-01","v":1}]'])
def test_a_packed_file_cut_anywhere_is_read_or_refused_in_one_line(tmp_path: Path, text: str) -> None:
    packed = gzip.compress(text.encode())
    for most in range(len(packed) + 1):
        result = _run(None, "--dry-run", "--file", _file(tmp_path, packed[:most], "a.gz"))
        assert result.exit_code in (0, 1)
        assert result.exit_code == 0 or result.stderr.splitlines()[-1].startswith("error: ")


def test_a_boolean_is_no_number(log: MemoryLog, tmp_path: Path) -> None:
    lines = ('{"time": "2024-01-01", "y": true}', '{"time": "2024-01-02", "y": 2}')
    result = _run(log, "--file", _file(tmp_path, "\n".join(lines), "a.jsonl"), "--target", "y", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["skipped"] == {"not a number": 1}
    assert [o.y for o in _sent(log)] == [2.0]


def test_a_place_for_the_rest_that_cannot_be_is_refused_before_anything_is_sent(log: MemoryLog, tmp_path: Path) -> None:
    result = _run(log, "--dataset", "irish-wind", "--limit", 3, "--resume", tmp_path / "none" / "left")
    assert result.exit_code in (2, 3)
    assert result.stderr.startswith("error: --resume")
    assert not _sent(log)


@pytest.mark.parametrize("value", ["nan", "inf", "0"])
def test_a_timeout_that_is_no_time_is_refused(value: str) -> None:
    result = _run(None, "--dataset", "irish-wind", "--broker", "127.0.0.1:1", "--timeout", value)
    assert result.exit_code == 2
    assert "--timeout" in result.stderr
