"""What watch shows: forecasts and running scores, one JSON object a line where a program reads."""

from __future__ import annotations

import io
import json
import threading

import msgspec
from rich.console import Console

from streamgp.roles.settings import Settings
from streamgp.roles.watch import watch, watch_agents
from streamgp.roles.wiring import subscriptions
from streamgp.wire.codec import encode
from streamgp.wire.log import Outgoing
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Score, StationForecast, Trust
from streamgp.wire.topics import topic_plan


def forecast(station: str) -> StationForecast:
    return StationForecast(
        query_id=f"{station}:0:1", station=station, time_ms=0, target_ms=86_400_000, mean=(5.0,), variance=(0.5,),
        noise_variance=(0.5,), kept=(7,), trimmed=("B",), missing=(), status="ok", source=("cloud",),
    )  # fmt: skip


def score(station: str) -> Score:
    return Score(
        station=station, query_id="q", target_ms=1, method="chosen", y=1.0, mean=2.0, variance=0.5, noise_variance=0.5,
        error=1.0, nlpd=1.4, crps=0.6, covered=True,
    )  # fmt: skip


def log_with(*records: tuple[str, str, object]) -> MemoryLog:
    log = MemoryLog()
    log.create_topics(topic_plan("streamgp"))
    log.writer().write([Outgoing(f"streamgp.{suffix}", key, encode(r)) for suffix, key, r in records])  # type: ignore[arg-type]
    return log


def shown(log: MemoryLog, **options: object) -> str:
    out = io.StringIO()
    reader = log.reader(subscriptions("watch", Settings()))
    watch(reader, Settings(), threading.Event(), Console(file=out, width=200), timeout_s=0.3, **options)  # type: ignore[arg-type]
    return out.getvalue()


def test_lines_carry_forecast_and_running_scores() -> None:
    log = log_with(("scores", "A", score("A")), ("station-forecasts", "A", forecast("A")))
    text = shown(log) + shown(log)
    assert "A  for 1970-01-02 00:00Z: 5 ± 1.6 (cloud), ok, trimmed: B" in text
    both = shown(log_with(*[("scores", "A", score("A"))] * 3, ("station-forecasts", "A", forecast("A"))))
    assert "5 ± 1.6" in both


def test_scores_are_shown_where_nobody_has_a_terminal() -> None:
    """Whichever comes first: those that follow the last forecast get a line of their own, and all do at the end."""
    log = log_with(("station-forecasts", "A", forecast("A")), *[("scores", s, score(s)) for s in "AB"])
    for station, wanted in ((None, {"A", "B"}), ("B", {"B"})):
        text = shown(log, station=station)
        assert "chosen 1 (NLPD 1.4, CRPS 0.6, 90% band 100%)" in text
        assert {line.split()[0] for line in text.splitlines() if "scored so far, RMSE" in line} == wanted
    ended = shown(log_with(("scores", "A", score("A")), ("station-forecasts", "A", forecast("A"))), limit=1)
    assert ended.splitlines()[-1].startswith("A  scored so far, RMSE: chosen 1 ")
    first = shown(log, scores_first=True, limit=1).splitlines()[0]
    assert first.endswith("RMSE: chosen 1 (NLPD 1.4, CRPS 0.6, 90% band 100%)")
    told = [json.loads(line) for line in shown(log, as_json=True).splitlines()]
    assert [line["scores"] for line in told] in (
        [{}],
        [{"chosen": {"rmse": 1.0, "nlpd": 1.4, "crps": 0.6, "coverage": 1.0}}],
    )


def test_a_forecast_of_the_network_s_is_called_so() -> None:
    taken = msgspec.structs.replace(forecast("A"), choice="network")
    assert "5 ± 1.6 (network), ok" in shown(log_with(("station-forecasts", "A", taken)))


def test_json_is_one_record_a_line_and_nothing_else() -> None:
    log = log_with(*[("station-forecasts", s, forecast(s)) for s in "ABA"], ("station-forecasts", "A", forecast("A")))
    lines = [json.loads(line) for line in shown(log, as_json=True, station="A").splitlines()]
    assert [line["station"] for line in lines] == ["A", "A", "A"]
    assert len(shown(log, as_json=True, limit=2).splitlines()) == 2


def test_rubbish_is_not_shown_and_stops_nothing() -> None:
    log = log_with(("station-forecasts", "A", forecast("A")))
    log.writer().write([Outgoing("streamgp.station-forecasts", "A", b"rubbish")])
    assert len(shown(log, as_json=True).splitlines()) == 1


def test_agents_are_told_with_their_standing() -> None:
    trust = Trust(
        agent="A", time_ms=0, answered=9, missing=1, refused={"mean is not finite": 2}, trimmed=0.5, mean_low=0.5,
        mean_high=0.0, variance_low=0.0, variance_high=0.0, outlying=0.0, scored=8.0, z2=1.1, coverage=0.9, nlpd=1.4,
        factor=1.0, standing="sound", beta=0.1, dropped_by=("B", "C", "D", "E", "F", "G"),
    )  # fmt: skip
    log = log_with(("trust", "A", trust))
    out = io.StringIO()
    reader = log.reader(subscriptions("trust", Settings()))
    watch_agents(reader, threading.Event(), Console(file=out, width=200), timeout_s=0.3)
    assert "sound" in out.getvalue()
    assert "B, C, D, E and 2 more" in out.getvalue()
    assert "50%" in out.getvalue()


def test_a_score_whose_square_is_no_number_stops_nobody_and_counts_for_nothing() -> None:
    """C13: a finite error of 1e308."""
    absurd = msgspec.structs.replace(score("A"), error=1e308)
    text = shown(
        log_with(("scores", "A", absurd), ("scores", "A", score("A")), ("station-forecasts", "A", forecast("A")))
    )
    assert "5 ± 1.6" in text
    assert "inf" not in text
    assert "nan" not in text


def test_a_forecast_without_points_or_with_a_negative_variance_is_not_shown() -> None:
    """C13, C37: rubbish on the topic stops nobody who watches."""
    none = {"mean": (), "variance": (), "noise_variance": (), "kept": (), "source": ()}
    far = msgspec.structs.replace(forecast("C"), target_ms=9_000_000_000_000_000)  # of a year that no calendar has
    bad = [msgspec.structs.replace(forecast("B"), **change) for change in ({"variance": (-1.0,)}, none)]
    log = log_with(*[("station-forecasts", f.station, f) for f in [*bad, far, forecast("A")]])
    text = shown(log)
    assert "A  for" in text
    assert "C  for 9000000000000000 ms" in text
    assert "B  for" not in text
