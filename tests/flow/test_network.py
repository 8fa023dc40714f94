"""A whole network over the embedded log: the same numbers however records come, and liars that do not decide."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

import msgspec
import pytest

from streamgp.demo.plan import Plan
from streamgp.demo.result import Result
from streamgp.demo.run import Network, run_embedded
from streamgp.roles.loop import together
from streamgp.roles.settings import NetworkSection
from streamgp.roles.wiring import subscriptions
from streamgp.wire.clock import ManualClock
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Forecast, Observation, Prediction, Query, StationForecast
from streamgp.wire.topics import topic_plan
from tests.flow.networks import DAY_MS, numbers, plan_of, quick_settings, records


def run_slowly(plan: Plan, *, seed: int) -> MemoryLog:
    """The same network, its roles served in random order and its observations trickling in at random times."""
    rng, network, log, clock = random.Random(seed), Network(plan), MemoryLog(), ManualClock()
    log.create_topics(topic_plan(network.settings.prefix))
    writer, waiting = log.writer(), network.outgoing()
    triples = [
        (role, log.reader(subscriptions(kind, network.settings, station=station)), log.writer())
        for kind, station, role in network.roles
    ]
    for role, _, out in triples:
        out.write(role.start(clock.monotonic_s()))
    while waiting:
        count = rng.choice((0, 0, 1, 2, 7, 40))
        writer.write(waiting[:count])
        del waiting[:count]
        for role, reader, out in rng.sample(triples, k=rng.randint(1, len(triples))):
            role.feed(reader.poll(0.0, rng.choice((1, 3, 500)), without=role.full()), clock.monotonic_s())
            out.write(role.drain(clock.monotonic_s()))
        clock.advance(rng.choice((0.0, 0.01, 0.05)))
    together(triples, clock)
    return log


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, dict[str, bytes]]:
    plan, log = plan_of(), MemoryLog()
    run_embedded(plan, lambda tally: None, log=log)
    return numbers(log, plan.settings.prefix)


@pytest.mark.parametrize("seed", range(2))
def test_forecasts_do_not_depend_on_how_fast_records_come(undisturbed: dict[str, dict[str, bytes]], seed: int) -> None:
    plan = plan_of()
    told = numbers(run_slowly(plan, seed=seed), plan.settings.prefix)
    assert told == undisturbed
    assert len(told["forecasts"]) == 6 * 51


def test_every_answer_was_given_with_all_rows_up_to_the_question_and_none_after() -> None:
    plan, log = plan_of(days=45), MemoryLog()
    run_embedded(plan, lambda tally: None, log=log)
    queries = {q.id: q for q in records(log, "streamgp", "queries", Query)}
    answers = records(log, "streamgp", "predictions", Prediction)
    assert len(answers) == 6 * len(queries)
    for answer in answers:
        assert isinstance(answer, Prediction)
        assert answer.time_ms == queries[answer.query_id].time_ms


def test_a_station_with_gaps_does_not_hold_the_others_back_or_change_their_numbers() -> None:
    """R28: one silent source never stops the others."""
    full = plan_of()
    silent = tuple(o for o in full.observations if o.station != "MAL" or not 40 <= _day(o) < 50)
    gaps = dataclasses.replace(full, observations=silent)
    log = MemoryLog()
    run_embedded(gaps, lambda tally: None, log=log)
    forecasts = records(log, "streamgp", "station-forecasts", StationForecast)
    days = {s: sorted(_day_of(f.time_ms) for f in forecasts if f.station == s) for s in ("MAL", "DUB")}
    assert days["DUB"] == list(range(9, 60))
    assert not set(days["MAL"]) & set(range(40, 50))
    assert days["MAL"][-1] == 59


def _day(record: Observation | Forecast) -> int:
    return _day_of(record.time_ms)


def _day_of(time_ms: int) -> int:
    return (time_ms + 283_996_800_000) // DAY_MS


@pytest.fixture(scope="module")
def honest() -> Result:
    """What is forecast while nobody lies."""
    return run_embedded(plan_of(days=50), lambda tally: None)


@pytest.mark.parametrize(
    "attack",
    ["same-value", "gaussian", "alie", "mimic", "bit-flip", "tiny-variance", "huge-variance", "per-query", "flood",
     "silence", "nan", "collusion", "sleeper"],
)  # fmt: skip
def test_a_liar_does_not_decide(attack: str, honest: Result) -> None:
    """C37: whatever one of six sends, the trimmed forecast of the honest stays near what it is without."""
    lying = run_embedded(plan_of(days=50, liars=1, attack=attack, attack_from=0.0), lambda tally: None)
    assert lying.methods["cloud_trimmed"]["rmse"] is not None
    assert honest.methods["cloud_trimmed"]["rmse"] is not None
    assert lying.methods["cloud_trimmed"]["rmse"] < 1.15 * honest.methods["cloud_trimmed"]["rmse"]
    assert lying.liars == [s for s in lying.stations if s in lying.liars]
    if attack == "same-value":
        assert lying.methods["cloud_untrimmed"]["rmse"] > 2 * lying.methods["cloud_trimmed"]["rmse"]


def test_too_many_liars_for_the_cut_are_refused_a_quorum_rather_than_believed() -> None:
    plan = plan_of(stations=("BEL", "BIR", "DUB", "MAL"), days=40)
    log = MemoryLog()
    run_embedded(plan, lambda tally: None, log=log)
    statuses = {f.status for f in records(log, "streamgp", "forecasts", Forecast)}
    assert statuses == {"no_quorum"}


def test_a_late_station_gains_from_the_others_from_its_first_question() -> None:
    plan = plan_of(days=170, late={"MAL": -283_996_800_000 + 60 * DAY_MS})
    result = run_embedded(plan, lambda tally: None)
    first = result.late["MAL"]
    assert first["cloud_trimmed"]["rmse"] is not None
    assert first["cloud_trimmed"]["rmse"] < first["local"]["rmse"]  # type: ignore[operator]
    assert first["chosen"]["rmse"] < first["local"]["rmse"]  # type: ignore[operator]
    assert first["chosen"]["nlpd"] < first["local"]["nlpd"]  # type: ignore[operator]  # its band is no wishful one


def test_every_lead_is_corrected_by_errors_of_its_own_in_whatever_order_records_come() -> None:
    plan, log = plan_of(days=42, settings=quick_settings(horizons=(1, 3))), MemoryLog()
    result = run_embedded(plan, lambda tally: None, log=log)
    told = numbers(log, plan.settings.prefix)
    assert numbers(run_slowly(plan, seed=5), plan.settings.prefix) == told
    queries = records(log, "streamgp", "queries", Query)
    leads = Counter(q.target_ms - q.time_ms for q in queries if q.innovation is not None)
    assert leads == {DAY_MS: 6 * 32, 3 * DAY_MS: 6 * 30}
    forecasts = [f for f in records(log, "streamgp", "forecasts", Forecast) if _day(f) > 36]
    assert len(forecasts) == 2 * 6 * 5
    answers = records(log, "streamgp", "predictions", Prediction)
    own: dict[tuple[str, str | None], tuple[float, ...]] = {(p.query_id, p.agent): p.variance for p in answers}
    assert all(f.network_mean is not None for f in forecasts)
    # Twenty errors of each lead have been learned: its variance is what they let expect, not what the asker said.
    assert all(f.network_variance != own[f.query_id, f.station] for f in forecasts)
    assert result.methods["network"]["rmse"] is not None


def test_a_network_without_the_layer_chooses_as_the_paper_does() -> None:
    settings = msgspec.structs.replace(quick_settings(), network=NetworkSection(enabled=False))
    log = MemoryLog()
    result = run_embedded(plan_of(days=40, settings=settings), lambda tally: None, log=log)
    assert "network" not in result.methods
    assert result.methods["chosen"]["rmse"] is not None
    choices = {f.choice for f in records(log, "streamgp", "station-forecasts", StationForecast)}
    assert choices == {"eq8"}
