"""The network layer in the cloud: the same numbers however windows come, nothing too early, nothing unbounded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec import structs

from streamgp.roles.foretelling import Foretelling
from streamgp.roles.fusing import Fusing
from streamgp.roles.settings import CloudSettings, NetworkSection
from streamgp.roles.window import Closed
from streamgp.wire.checkpoint import pack, unpack
from streamgp.wire.records import Forecast, Prediction, Query, Scale

HOUR = 3_600_000
NAMES = tuple("ABCDEF")
CLOUD = CloudSettings(beta=1 / 6)


def query(station: str | None, t: int, *, error: float | None, lead: int = 1, points: int = 1) -> Query:
    return Query(
        id=f"{station}:{t}:{lead}", station=station, time_ms=t * HOUR, target_ms=(t + lead) * HOUR,
        points=((0.0,),) * points, scale=Scale(10.0, 2.0), innovation=error,
    )  # fmt: skip


def window(asked: Query, *, names: Sequence[str] = NAMES, seed: int = 0) -> Closed:
    """What all stations answered, by the query's own draw."""
    rng = np.random.default_rng([seed, asked.time_ms // HOUR, *map(ord, asked.station or "-")])
    answers = {
        name: Prediction(
            query_id=asked.id, agent=name, time_ms=asked.time_ms, mean=(10.0 + float(rng.normal()),), variance=(1.0,),
            noise_variance=(0.5,), learned=9,
        )
        for name in names
    }  # fmt: skip
    return Closed(asked, answers, ())


def stream(steps: int, *, seed: int = 0) -> list[list[Closed]]:
    """Windows by event time: what A was wrong by one step ago is what the others are wrong by now."""
    rng, before, out = np.random.default_rng(seed), 0.0, []
    for t in range(steps):
        lead = float(rng.normal())
        errors = {n: lead if n == "A" else 0.8 * before + 0.4 * float(rng.normal()) for n in NAMES}
        out.append([window(query(n, t, error=errors[n] if t else None)) for n in NAMES])
        before = lead
    return out


def run(fusing: Fusing, steps: Sequence[Sequence[Closed]], *, batch: str, ahead: int = 0) -> list[Forecast]:
    """All windows of a time at once, one at a time, or in halves; queries are heard ``ahead`` steps before."""
    told, heard = [], 0
    for t, windows in enumerate(steps):
        for later in steps[heard : t + ahead + 1]:
            for closed in later if batch == "all" else reversed(later):
                fusing.heard(closed.query)
        heard = max(heard, t + ahead + 1)
        size = {"all": len(windows), "halves": 4, "single": 1}[batch]
        for i in range(0, len(windows), size):
            told += [forecast for forecast, _ in fusing.conclude(windows[i : i + size])]
    return told


def test_the_numbers_depend_on_neither_batches_nor_order_nor_on_how_far_ahead_queries_are_read() -> None:
    """Equal to the bit; what is read four steps early changes nothing before it is due."""
    steps = stream(80)
    expected = run(Fusing(CLOUD), steps, batch="all")
    assert run(Fusing(CLOUD), steps, batch="single") == expected
    assert run(Fusing(CLOUD), steps, batch="halves", ahead=4) == expected
    own = {w.query.id: w.answers["B"].mean[0] for windows in steps for w in windows if w.query.station == "B"}
    moved = [f.network_mean[0] - own[f.query_id] for f in expected if f.station == "B" and f.network_mean]
    said = [w.query.innovation for windows in steps for w in windows if w.query.station == "A"]
    assert np.corrcoef(moved[-15:], np.array(said[-15:], dtype=float))[0, 1] > 0.6  # what moves B is what A said


def test_a_changed_future_changes_nothing_before_it_is_due() -> None:
    steps, turn = stream(60), 40
    other = [
        [structs.replace(w.query, innovation=-5.0) for w in windows] if t >= turn else [w.query for w in windows]
        for t, windows in enumerate(steps)
    ]
    changed = [
        [Closed(q, w.answers, ()) for q, w in zip(qs, ws, strict=True)] for qs, ws in zip(other, steps, strict=True)
    ]
    one, two = run(Fusing(CLOUD), steps, batch="all", ahead=30), run(Fusing(CLOUD), changed, batch="all", ahead=30)
    assert one[: turn * len(NAMES)] == two[: turn * len(NAMES)]
    assert one[turn * len(NAMES) :] != two[turn * len(NAMES) :]


def test_a_twin_from_a_snapshot_goes_on_to_the_bit() -> None:
    steps = stream(60)
    whole = run(Fusing(CLOUD), steps, batch="all")
    first = Fusing(CLOUD)
    run(first, steps[:40], batch="all")
    first.heard(steps[40][0].query)  # one error waits for its time
    twin = Fusing(CLOUD)
    twin.restore(unpack(pack(first.state())))
    assert pack(twin.state()) == pack(first.state())
    for windows in steps[40:41]:
        for closed in windows[1:]:
            twin.heard(closed.query)
    told = [f for f, _ in twin.conclude(steps[40])]
    assert told + run(twin, steps[41:], batch="all") == whole[40 * len(NAMES) :]


def test_a_station_joins_late_leaves_and_comes_back_after_a_month() -> None:
    """It is corrected from the start on, named while it is silent, and harms nobody when it is back."""
    steps = stream(220)
    month = 30 * 24
    kept = [
        [w for w in windows if w.query.station != "A" or 30 <= t < 120] for t, windows in enumerate(steps[:200])
    ] + [[window(query(n, 200 + month + t, error=0.5)) for n in NAMES] for t in range(3)]
    told = run(Fusing(CLOUD), kept, batch="all")
    assert all(f.network_mean is not None for f in told)
    by_time = {t: [f for f in told if f.time_ms == t * HOUR and f.station == "B"] for t in (150, 200 + month)}
    assert by_time[150][0].network_silent == ("A",)
    assert by_time[200 + month][0].network_silent == ()
    back = [f for f in told if f.station == "A"]
    assert back[-1].time_ms == (202 + month) * HOUR
    assert back[-1].network_variance is not None
    assert 0.0 < back[-1].network_variance[0] < 5.0


def test_each_lead_learns_from_its_own_errors() -> None:
    """The error of a three-step forecast says nothing of the next step, and is no error of it."""
    told = Foretelling(NetworkSection())
    for t in range(5):
        told.heard(query("A", t, error=0.5))
        told.heard(query("A", t, error=2.0, lead=3))
    told.learn_up_to(4 * HOUR)
    assert set(told.layer.state()["targets"]) == {str(HOUR), str(3 * HOUR)}


@pytest.mark.parametrize(
    "asked",
    [query(None, 3, error=0.3), query("A", 3, error=0.3, points=2)],
    ids=["from outside", "two points"],
)
def test_questions_that_are_not_a_station_s_own_next_value_get_the_product_alone(asked: Query) -> None:
    two = window(asked)
    if len(asked.points) == 2:
        answers = {n: structs.replace(p, mean=p.mean * 2, variance=(1.0,) * 2, noise_variance=(0.5,) * 2)
                   for n, p in two.answers.items()}  # fmt: skip
        two = Closed(asked, answers, ())
    ((forecast, _),) = Fusing(CLOUD).conclude([two])
    assert forecast.mean is not None
    assert forecast.network_mean is None


def test_an_asker_that_is_silent_or_refused_has_no_forecast_of_the_network_s() -> None:
    silent = window(query("A", 0, error=None), names=NAMES[1:])
    whole = window(query("A", 0, error=None))
    bad = Closed(whole.query, {**whole.answers, "A": structs.replace(whole.answers["A"], mean=(1e300,))}, ())
    for closed in (silent, bad):
        ((forecast, _),) = Fusing(CLOUD).conclude([closed])
        assert forecast.mean is not None
        assert forecast.network_mean is None
    ((few, _),) = Fusing(CLOUD).conclude([window(query("A", 0, error=None), names=("A", "B"))])
    assert (few.status, few.network_mean) == ("no_quorum", few.network_mean)
    assert few.network_mean is not None  # it needs no quorum


def test_switched_off_it_costs_and_says_nothing() -> None:
    fusing = Fusing(CLOUD, network=NetworkSection(enabled=False))
    told = run(fusing, stream(5), batch="all")
    assert {f.network_mean for f in told} == {None}
    assert fusing.state()["network"]["told"] == []


def test_a_flood_of_names_fills_no_memory() -> None:
    told = Foretelling(NetworkSection(most_stations=3))
    for i in range(50):
        told.heard(query(f"S{i:02d}", 0, error=1.0))
    told.learn_up_to(0)
    assert told.layer.stations == ["S00", "S01", "S02"]
    asked = [query(n, 1, error=None) for n in ("S01", "S40")]
    windows = [window(q, names=(*NAMES, q.station or "")) for q in asked]
    fused = [f for f, _ in Fusing(CLOUD, network=NetworkSection(enabled=False)).conclude(windows)]
    known, unknown = told.corrected(windows, fused)
    assert known.network_mean is not None
    assert unknown.network_mean is None


def test_who_is_not_heard_any_more_is_told_in_the_trust_report() -> None:
    """A foretells the others for a while, and then says the opposite: they drop it."""
    steps = stream(410)
    lying = [
        [
            Closed(structs.replace(w.query, innovation=-w.query.innovation), w.answers, ())
            if w.query.station == "A" and t >= 300 and w.query.innovation is not None
            else w
            for w in windows
        ]
        for t, windows in enumerate(steps)
    ]
    fusing, dropped = Fusing(structs.replace(CLOUD, report_every=len(NAMES))), []
    for windows in lying:
        for closed in windows:
            fusing.heard(closed.query)
        for forecast, reports in fusing.conclude(windows):
            for report in reports:
                if report.dropped_by:
                    dropped.append((forecast.time_ms // HOUR, report.agent, report.dropped_by))
    about = [(agent, by) for t, agent, by in dropped if t >= 390]
    assert {agent for agent, _ in about} == {"A"}
    assert set(about[-1][1]) >= {"B", "C", "D"}
