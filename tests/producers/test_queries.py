"""``query`` as a command, over the embedded log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from producers import queries
from producers.points import from_file, grid
from streamgp.errors import DatasetError, SettingsError
from streamgp.wire.codec import decode, encode
from streamgp.wire.keys import LIST, make_key, write_list, write_private
from streamgp.wire.log import Outgoing, Subscription
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Forecast, Prediction, Query
from streamgp.wire.topics import topic_plan


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create_topics(topic_plan("streamgp", partitions=1))
    return log


def _run(log: MemoryLog, *args: object) -> Result:
    return CliRunner().invoke(queries.command, [str(arg) for arg in args], obj=log)


def _file(folder: Path, text: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_grid_goes_out_in_queries_and_ids(log: MemoryLog) -> None:
    args = ("--grid", "a=0:1:40,b=-1:1:30", "--time", "1961-02-01", "--scale", "10:2", "--json")
    result = _run(log, *args)
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["queries"], told["points"], told["columns"]) == (3, 1200, ["a", "b"])
    messages = log.reader([Subscription("streamgp.queries")]).poll(0.0)
    asked = [decode(m.value, Query) for m in messages]
    assert [m.key for m in messages] == [q.id for q in asked]
    assert [p for q in asked for p in q.points] == grid("a=0:1:40,b=-1:1:30")[1]
    assert {(q.station, q.time_ms, q.target_ms) for q in asked} == {(None, -281_318_400_000, -281_318_400_000)}
    assert asked[0].scale is not None
    assert (asked[0].scale.mean, asked[0].scale.std) == (10.0, 2.0)


def test_waiting_prints_the_forecasts_of_this_query_alone(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Answering:
        """A log behind which somebody answers each query at once."""

        def __getattr__(self, name: str) -> Any:
            return getattr(log, name)

        def writer(self) -> Any:
            inner = log.writer()
            write = inner.write

            def and_answer(records: list[Outgoing]) -> None:
                write(records)
                for record in records:
                    query = decode(record.value, Query)
                    m = len(query.points)
                    facts: dict[str, Any] = {"query_id": query.id, "station": None, "time_ms": 0, "target_ms": 0}
                    numbers = {"mean": (1.5,) * m, "variance": (0.04,) * m, "noise_variance": (0.05,) * m}
                    told = {"kept": (3,) * m, "trimmed": ("Z",), "missing": ()}
                    answer = Forecast(**facts, **numbers, **told, status="ok")
                    other = Forecast(**{**facts, "query_id": "other"}, **numbers, **told, status="ok")
                    for forecast in (answer, answer, other):
                        log.writer().write([Outgoing("streamgp.forecasts", forecast.query_id, encode(forecast))])

            monkeypatch.setattr(inner, "write", and_answer)
            return inner

    points = _file(tmp_path, "lon;lat;name\n-8,5;52,1;x\n-7;53;y\n", "points.csv")
    args = ("--points", points, "--columns", "lat,lon", "--wait", 5)
    result = CliRunner().invoke(queries.command, [*map(str, args), "--json"], obj=Answering())
    assert result.exit_code == 0, result.stderr
    answers = json.loads(result.stdout)["answers"]
    assert [a["point"] for a in answers] == [{"lat": 52.1, "lon": -8.5}, {"lat": 53.0, "lon": -7.0}]
    assert {(a["mean"], a["variance"], a["kept"], a["status"]) for a in answers} == {(1.5, 0.04, 3, "ok")}
    text = CliRunner().invoke(queries.command, [*map(str, args)], obj=Answering())
    assert "lat=52.1 lon=-8.5: 1.5 ± 0.493 (90%), 3 agents, ok" in text.stdout


def test_nobody_answers_is_an_exit_code(log: MemoryLog) -> None:
    result = _run(log, "--grid", "a=0:1:2", "--wait", "0.05")
    assert result.exit_code == 1
    assert "1 of 1 queries had no forecast within 0.05 s" in result.stderr


def _asked_by_a_station(log: MemoryLog, width: int) -> None:
    query = Query(id=f"A:{width}", station="A", time_ms=0, target_ms=1, points=((0.0,) * width,))
    log.writer().write([Outgoing("streamgp.queries", query.id, encode(query))])


def test_points_of_another_width_than_the_stations_are_refused_before_they_are_sent(
    log: MemoryLog, tmp_path: Path
) -> None:
    ask = ("--grid", "a=0:1:2,b=0", "--wait", "0.01")
    _asked_by_a_station(log, 6)
    result = _run(log, *ask)
    assert result.exit_code == 3
    assert "points of 2 columns (a, b), but the stations' own questions have 6: lag1, lag2," in result.stderr
    assert len(log.reader([Subscription("streamgp.queries")]).poll(0.0)) == 1
    _asked_by_a_station(log, 2)  # stations may differ
    assert "no forecast" in _run(log, *ask).stderr


def test_the_columns_of_the_model_in_another_order_are_refused(log: MemoryLog) -> None:
    """Each value would be read as another: numbers that look right."""
    right = "lag1=0,lag2=0,lag3=0,mean10=0,year_sin=0,year_cos=1"
    wrong = ",".join(reversed(right.split(",")))
    assert _run(log, "--grid", right).exit_code == 0
    result = _run(log, "--grid", wrong)
    assert result.exit_code == 3
    assert "another order: lag1,lag2,lag3,mean10,year_sin,year_cos" in result.stderr


def test_points_of_another_width_than_the_settings_make_are_refused(log: MemoryLog, tmp_path: Path) -> None:
    settings = _file(tmp_path, "[features]\nlags = [1]\naverages = []\n", "settings.toml")
    ask = ("--grid", "a=0:1:2,b=0", "--settings", settings)
    result = _run(log, *ask)
    assert result.exit_code == 3
    assert "the settings' features make 3 or 5: lag1, year_sin, year_cos" in result.stderr
    _asked_by_a_station(log, 2)  # what runs is the truth
    assert _run(log, *ask).exit_code == 0


def test_a_forecast_without_numbers_is_a_failure_that_says_why(log: MemoryLog) -> None:
    """The reasons are those of the agents that abstained, in whatever order the topics are read."""

    class Abstaining:
        def __getattr__(self, name: str) -> Any:
            return getattr(log, name)

        def writer(self) -> Any:
            inner = log.writer()
            write = inner.write

            def and_abstain(records: list[Outgoing]) -> None:
                write(records)
                query = decode(records[0].value, Query)
                nothing: dict[str, Any] = {"mean": None, "variance": None, "noise_variance": None}
                forecast = Forecast(
                    query_id=query.id, station=None, time_ms=0, target_ms=0, **nothing, kept=(0,) * len(query.points),
                    trimmed=(), missing=(), status="no_quorum",
                )  # fmt: skip
                log.writer().write([Outgoing("streamgp.forecasts", query.id, encode(forecast))])
                for agent, reason in (("A", "warming up"), ("B", "rows of 6 columns expected")):
                    said = Prediction(
                        query_id=query.id, agent=agent, time_ms=0, mean=(), variance=(), noise_variance=(), learned=1,
                        abstained=reason,
                    )  # fmt: skip
                    log.writer().write([Outgoing("streamgp.predictions", query.id, encode(said))])

            inner.write = and_abstain
            return inner

    args = ["--grid", "a=0:1:2", "--wait", "5"]
    result = CliRunner().invoke(queries.command, [*args, "--json"], obj=Abstaining())
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert [(a["mean"], a["status"]) for a in told["answers"]] == [(None, "no_quorum")] * 2
    assert told["abstained"] == {"rows of 6 columns expected": ["B"], "warming up": ["A"]}
    why = "without numbers (no quorum): no usable answer; rows of 6 columns expected (B); warming up (A)"
    assert why in result.stderr
    assert why in CliRunner().invoke(queries.command, args, obj=Abstaining()).stderr


@pytest.mark.parametrize(
    "text", ["a", "a=1:2:0", "a=x:1:2", "a=0:1:2,a=0:1:2", "a=0:1:2:3", "a=0:inf:2", "a=0:1:2000000"]
)
def test_grids_that_are_none(text: str) -> None:
    with pytest.raises(SettingsError, match="--grid"):
        grid(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a,b\n1,\n", "b is missing"),
        ("a,b\n1,x1\n", "not a number"),
        ("a,b\n1\n", "columns"),
        ("a,b\n", "points"),
    ],
)
def test_points_have_no_missing_coordinates(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(DatasetError, match=word):
        from_file(_file(tmp_path, text))


def test_one_value_fixes_a_column() -> None:
    assert grid("a=5,b=0:1:2") == (("a", "b"), [(5.0, 0.0), (5.0, 1.0)])


@pytest.mark.parametrize("by", ["option", "environment"])
def test_who_asks_names_the_folder_of_its_key(by: str, log: MemoryLog, tmp_path: Path) -> None:
    settings = _file(tmp_path, "[signing]\nenabled = true\n", "settings.toml")
    folder = tmp_path / "keys"
    words = ["--grid", "a=0:1:2", "--settings", str(settings), *(["--keys", str(folder)] if by == "option" else [])]
    env = {"STREAMGP_KEYS": str(folder if by == "environment" else tmp_path / "other")}
    result = CliRunner().invoke(queries.command, words, obj=log, env=env)
    assert result.exit_code == 3
    assert f"no private key {folder / 'asker.pem'}" in result.stderr
    pem, entry = make_key("asker")
    write_private(folder / "asker.pem", pem)
    write_list(folder / LIST, [entry])
    assert CliRunner().invoke(queries.command, words, obj=log, env=env).exit_code == 0
    (asked,) = log.reader([Subscription("streamgp.queries")]).poll(0.0)
    assert asked.headers
