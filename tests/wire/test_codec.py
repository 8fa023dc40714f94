"""Strict JSON: what goes out is finite and comes back equal; whatever comes in is a record or a DecodeError."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamgp.errors import DecodeError, EncodeError
from streamgp.wire.codec import decode, decode_topic, encode
from streamgp.wire.records import (
    TOPICS,
    Forecast,
    GlobalState,
    Observation,
    Prediction,
    Progress,
    Query,
    Record,
    Scale,
    Score,
    StationForecast,
    Update,
)

# -- records of every kind, drawn

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
TIMES = st.integers(-(2**53), 2**53)
COUNTS = st.integers(0, 2**53)
TUPLES_OF_NAMES = st.lists(NAMES, max_size=3).map(tuple)


def rows_of(size: int) -> st.SearchStrategy[tuple[float, ...]]:
    return st.lists(NUMBERS, min_size=size, max_size=size).map(tuple)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    width, count = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    return Query(
        id=draw(NAMES.filter(lambda name: ":" not in name)),
        station=draw(st.none() | NAMES),
        time_ms=draw(TIMES),
        target_ms=draw(TIMES),
        points=tuple(draw(rows_of(width)) for _ in range(count)),
        scale=draw(st.none() | st.builds(Scale, mean=NUMBERS, std=st.floats(1e-300, 1e300))),
        innovation=draw(st.none() | NUMBERS),
    )


@st.composite
def predictions(draw: st.DrawFn) -> Prediction:
    row = rows_of(draw(st.integers(0, 4)))
    return Prediction(
        query_id=draw(NAMES),
        agent=draw(NAMES),
        time_ms=draw(TIMES),
        mean=draw(row),
        variance=draw(row),
        noise_variance=draw(row),
        learned=draw(COUNTS),
    )


@st.composite
def forecasts(draw: st.DrawFn) -> Forecast | StationForecast:
    size = draw(st.integers(1, 4))
    row, kept = rows_of(size), tuple(draw(st.lists(COUNTS, min_size=size, max_size=size)))
    names = {"trimmed": draw(TUPLES_OF_NAMES), "missing": draw(TUPLES_OF_NAMES)}
    common: dict[str, Any] = {
        "query_id": draw(NAMES),
        "time_ms": draw(TIMES),
        "target_ms": draw(TIMES),
        "kept": kept,
        **names,
    }
    if draw(st.booleans()):
        return Forecast(
            station=None, mean=None, variance=None, noise_variance=None, status="no_quorum", refused=("x",), **common
        )
    common |= {"mean": draw(row), "variance": draw(row), "noise_variance": draw(row), "status": "ok"}
    if draw(st.booleans()):
        return Forecast(station=draw(NAMES), n_trim=draw(COUNTS), answers=draw(COUNTS), **common)
    source = tuple(draw(st.lists(st.sampled_from(["cloud", "local"]), min_size=size, max_size=size)))
    return StationForecast(station=draw(NAMES), source=source, local_mean=(), learned_ms=None, **common)


@st.composite
def updates(draw: st.DrawFn) -> Update | GlobalState:
    shapes = draw(st.dictionaries(NAMES, st.lists(st.integers(0, 3), max_size=3).map(tuple), max_size=3))
    arrays = {name: draw(rows_of(math.prod(shape))) for name, shape in shapes.items()}
    common: dict[str, Any] = {"run": draw(NAMES), "round": draw(COUNTS), "time_ms": draw(TIMES)}
    if draw(st.booleans()):
        return Update(client=draw(NAMES), arrays=arrays, shapes=shapes, **common)
    return GlobalState(status="empty", clients=draw(TUPLES_OF_NAMES), arrays=arrays, shapes=shapes, **common)


OBSERVATIONS = st.builds(
    Observation,
    station=NAMES,
    time_ms=TIMES,
    x=st.dictionaries(NAMES, st.none() | NUMBERS, max_size=3),
    y=NUMBERS | st.lists(st.none() | NUMBERS, min_size=1, max_size=3).map(tuple),
)
PROGRESS = st.builds(
    Progress,
    station=NAMES,
    time_ms=st.none() | TIMES,
    queries=TUPLES_OF_NAMES,
    state=st.sampled_from(["busy", "idle", "gone"]),
)
SCORES = st.builds(
    Score,
    station=NAMES,
    query_id=NAMES,
    target_ms=TIMES,
    method=NAMES,
    covered=st.booleans(),
    **dict.fromkeys(("y", "mean", "variance", "noise_variance", "error", "nlpd", "crps"), NUMBERS),
)
RECORDS = st.one_of(OBSERVATIONS, queries(), PROGRESS, predictions(), forecasts(), updates(), SCORES)


def decoded(data: bytes, kind: type[Record]) -> Record | None:
    """The record, or None if it was refused, with a reason; any other error is the test's failure."""
    try:
        return decode(data, kind)
    except DecodeError as error:
        if not error.reason:
            raise
        return None


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@given(RECORDS)
def test_what_goes_out_comes_back_equal_and_is_strict_json(record: Record) -> None:
    """R30: every message passes a strict parser of another maker."""
    data = encode(record)
    assert decode(data, type(record)) == record
    assert finite(json.loads(data, parse_constant=refuse))


SPLICES = st.sampled_from(
    [b"NaN", b"-Infinity", b"1e400", b"1" * 400, b"null", b"{}", b"[]", b'""', b"\xff", b"\\ud800", b"\x00", b'"v":2,']
)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, type[Record]]:
    """A record's bytes, cut, spliced, flipped, or read as another kind of record."""
    record = draw(RECORDS)
    data = bytearray(encode(record))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["cut", "flip", "splice", "drop"])):
            case "cut":
                del data[at:]
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "splice":
                data[at:at] = draw(SPLICES)
            case _:
                del data[at : at + draw(st.integers(1, 9))]
    kind = type(record) if draw(st.integers(0, 4)) else draw(st.sampled_from(list(TOPICS.values())))
    return bytes(data), kind


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_damaged_bytes_are_a_valid_record_or_a_decode_error(case: tuple[bytes, type[Record]]) -> None:
    """C13, C43, R30, R65: nothing else may come out of it, and nothing that is not finite."""
    data, kind = case
    record = decoded(data, kind)
    if record is not None:
        assert finite(msgspec.to_builtins(record))
        assert decode(encode(record), kind) == record


@settings(max_examples=200)
@given(st.binary(max_size=80), st.sampled_from(sorted(TOPICS)))
def test_any_bytes_at_all(data: bytes, suffix: str) -> None:
    record = decoded(data, TOPICS[suffix])
    assert record is None or isinstance(record, TOPICS[suffix])


# -- one by one

GOOD = {"v": 1, "station": "A", "time_ms": 5, "x": {"pm25": 1.0}, "y": 2.0}


def observation(**changes: object) -> bytes:
    text = json.dumps({**GOOD, **{k: v for k, v in changes.items() if not isinstance(v, bytes)}})
    for key, raw in changes.items():
        if isinstance(raw, bytes):
            text = text.replace(json.dumps(GOOD[key]), raw.decode("latin-1"), 1)
    return text.encode("latin-1")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(("field", "template"), [("y", "%s"), ("x.pm25", '{"pm25": %s}'), ("y[1]", "[1.0, %s]")])
def test_a_number_that_is_not_finite_is_refused_by_name(number: str, field: str, template: str) -> None:
    """C13."""
    key = field[0]
    with pytest.raises(DecodeError, match="not a finite number") as caught:
        decode(observation(**{key: (template % number).encode()}), Observation)
    assert caught.value.field == field


@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"1" * 400])
def test_a_number_beyond_every_float_is_refused_by_name(number: bytes) -> None:
    """C13, R30."""
    with pytest.raises(DecodeError, match="out of range") as caught:
        decode(observation(y=number), Observation)
    assert caught.value.field == "y"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"station": 3}, "station"),
        ({"station": ""}, "station"),
        ({"station": "x" * 257}, "station"),
        ({"station": None}, "station"),
        ({"time_ms": 5.5}, "time_ms"),
        ({"time_ms": "5"}, "time_ms"),
        ({"time_ms": 2**53 + 1}, "time_ms"),
        ({"time_ms": b"1" * 30}, "time_ms"),
        ({"time_ms": True}, "time_ms"),
        ({"y": "2.0"}, "y"),
        ({"y": None}, "y"),
        ({"y": []}, "y"),
        ({"y": [[1.0]]}, "y[0]"),
        ({"x": [1.0]}, "x"),
        ({"x": {"pm25": "high"}}, "x[...]"),
        ({"v": 2}, "v"),
        ({"v": "1"}, "v"),
    ],
)
def test_the_field_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(observation(**changes), Observation)
    assert caught.value.field == field


@pytest.mark.parametrize("missing", ["station", "time_ms", "y"])
def test_a_missing_field_is_named(missing: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(json.dumps({k: v for k, v in GOOD.items() if k != missing}).encode(), Observation)
    assert caught.value.field == missing


def test_an_unknown_version_comes_before_what_it_changed() -> None:
    """A record of a later schema may look wrong in every field: it is the version that is told."""
    with pytest.raises(DecodeError, match="unknown schema version '9'") as caught:
        decode(b'{"v": 9, "station": ["A", "B"], "when": "now"}', Observation)
    assert caught.value.field == "v"


def test_unknown_fields_are_ignored_and_integers_are_numbers() -> None:
    record = decode(observation(y=2, colour="red", more={"deep": [1, {}]}), Observation)
    assert record == Observation(station="A", time_ms=5, x={"pm25": 1.0}, y=2.0)


@pytest.mark.parametrize(
    "data",
    [
        *(None, b"", b" ", b"null", b"[]", b'"A"', b"3", b"{", b"\xef\xbb\xbf{}", b"[" * 100_000, b'{"x":' * 100_000),
        b'{"station":"A","y":1,"time_ms":1,"junk":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"station":"\\ud800","y":1,"time_ms":1}',
        b'{"station":"\xff","y":1,"time_ms":1}',
        observation() + b" {}",
    ],
    ids=lambda data: repr(data)[:24],
)
def test_what_is_no_record_is_refused(data: bytes | None) -> None:
    for suffix in TOPICS:
        with pytest.raises(DecodeError):
            decode_topic(data, suffix)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    """C43, R65: on every topic it is an unknown format, and what it would do is not done."""
    trace = tmp_path / "opened"

    class Harm:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (trace,))

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for suffix in TOPICS:
            with pytest.raises(DecodeError, match="unknown format"):
                decode_topic(pickle.dumps(Harm(), protocol), suffix)
    assert not trace.exists()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_never_written(bad: float) -> None:
    """C13: a forecast with an infinite variance is withheld, whatever field it hides in."""
    row = {"mean": (1.0,), "variance": (1.0,), "noise_variance": (1.0,)}
    for record in (
        Observation(station="A", time_ms=0, y=bad),
        Observation(station="A", time_ms=0, y=(1.0, None, bad)),
        Observation(station="A", time_ms=0, y=1.0, x={"a": None, "b": bad}),
        Query(id="q", time_ms=0, target_ms=0, points=((1.0, bad),)),
        Query(id="q", time_ms=0, target_ms=0, points=((1.0,),), scale=Scale(bad, 1.0)),
        Prediction(query_id="q", agent="A", time_ms=0, learned=1, **{**row, "variance": (bad,)}),
    ):
        with pytest.raises(EncodeError, match="not finite"):
            encode(record)


def test_a_value_of_another_type_is_not_written() -> None:
    with pytest.raises(EncodeError):
        encode(Observation(station="A", time_ms=0, y=object()))  # type: ignore[arg-type]  # refused at run time too
    with pytest.raises(EncodeError):
        encode(Observation(station="\ud800", time_ms=0, y=1.0))


@pytest.mark.parametrize(
    ("record", "field"),
    [
        (Query(id="q", time_ms=0, target_ms=0, points=((1.0,), (1.0, 2.0))), "points[1]"),
        (
            Prediction(query_id="q", agent="A", time_ms=0, mean=(1.0,), variance=(), noise_variance=(1.0,), learned=1),
            "variance",
        ),
        (Update(run="r", round=1, client="A", time_ms=0, arrays={"g": (1.0,)}, shapes={}), "arrays.g"),
        (Update(run="r", round=1, client="A", time_ms=0, arrays={"g": (1.0,)}, shapes={"g": (2,)}), "arrays.g"),
        (Update(run="r", round=1, client="A", time_ms=0, arrays={}, shapes={"g": (0,)}), "shapes.g"),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_named(record: Record, field: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(encode(record), type(record))
    assert caught.value.field == field


@pytest.mark.parametrize(("name", "station", "good"), [
    ("A:-5:1", "A", True), ("a:b:5:12", "a:b", True), ("A:5:1", "B", False), ("A:5:1", None, False),
    ("A:x:1", None, True), ("ask-1", None, True), ("ask-1", "A", True),
])  # fmt: skip
def test_under_the_id_of_a_stations_question_only_that_station_asks(name: str, station: str | None, good: bool) -> None:
    """C41: the first question of an id is the one that counts, so nobody may ask before its owner does."""
    data = encode(Query(id=name, station=station, time_ms=0, target_ms=1, points=((0.0,),)))
    if good:
        assert decode(data, Query).id == name
    else:
        with pytest.raises(DecodeError, match="id: only station 'A' asks"):
            decode(data, Query)


def test_a_forecast_is_whole_or_has_no_quorum() -> None:
    forecast: dict[str, Any] = {
        "query_id": "q",
        "station": "A",
        "time_ms": 0,
        "target_ms": 1,
        "mean": [1.0],
        "variance": None,
        "noise_variance": [1.0],
        "kept": [3],
        "trimmed": [],
        "missing": [],
        "status": "ok",
    }
    with pytest.raises(DecodeError, match="together"):
        decode(json.dumps(forecast).encode(), Forecast)
    with pytest.raises(DecodeError, match="2 values, kept has 1"):
        decode(json.dumps({**forecast, "variance": [1.0], "mean": [1.0, 2.0]}).encode(), Forecast)
