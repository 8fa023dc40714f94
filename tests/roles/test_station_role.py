"""The agent as a process step: what it learns, answers, chooses and publishes."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from streamgp.wire.codec import encode
from streamgp.wire.log import Message
from streamgp.wire.records import (
    Forecast,
    Observation,
    Prediction,
    Progress,
    Query,
    Record,
    Scale,
    StationForecast,
)
from tests.roles.stations import DAY, NOW_MS, Feeder, role_of


def test_each_observation_is_learned_and_the_next_step_asked_about() -> None:
    feeder = Feeder(role_of())
    feeder.days(1.0, 2.0, 3.0, 4.0)
    queries = feeder.published("queries", Query)
    assert [(q.id, q.time_ms, q.target_ms) for q in queries] == [
        (f"A:{d * DAY}:1", d * DAY, (d + 1) * DAY) for d in range(4)
    ]
    assert queries[-1].points == (((4.0 - 2.0) / np.std([1, 2, 3]),),)
    assert queries[-1].scale == Scale(2.0, float(np.std([1, 2, 3])))
    answers = feeder.published("predictions", Prediction)
    assert [a.query_id for a in answers] == [q.id for q in queries]
    assert feeder.role.counts["learned"] == 4


def test_the_innovation_is_the_standardised_error_of_the_last_own_forecast() -> None:
    feeder = Feeder(role_of())
    feeder.days(1.0, 2.0, 3.0, 4.0, 8.0)
    before, last = feeder.published("queries", Query)[-2:]
    told = feeder.published("predictions", Prediction)[-2]
    assert told.query_id == before.id
    spread = np.sqrt(told.variance[0] + told.noise_variance[0])
    assert last.innovation == pytest.approx((8.0 - told.mean[0]) / spread)


def test_every_lead_carries_the_error_of_its_own_forecast() -> None:
    """What three steps ahead was wrong by is known three steps later; a gap is no error."""
    feeder = Feeder(role_of(horizons=(1, 3)))
    feeder.days(1.0, 2.0, 3.0, 4.0, 8.0, 5.0, 7.0, 9.0, 3.0, 4.0)
    queries = feeder.published("queries", Query)
    answers = {a.query_id: a for a in feeder.published("predictions", Prediction)}
    for lead in (1, 3):
        told = {q.time_ms: q for q in queries if q.target_ms - q.time_ms == lead * DAY}
        for time_ms, q in told.items():
            before = told.get(time_ms - lead * DAY)
            if before is None:
                assert q.innovation is None
                continue
            own = answers[before.id]
            error = ([1.0, 2.0, 3.0, 4.0, 8.0, 5.0, 7.0, 9.0, 3.0, 4.0][time_ms // DAY] - own.mean[0]) / np.sqrt(
                own.variance[0] + own.noise_variance[0]
            )
            assert q.innovation == pytest.approx(np.clip(error, -8.0, 8.0))
        assert sum(q.innovation is not None for q in told.values()) > 3
    feeder.days(6.0, start=11)
    short, long = [q for q in feeder.published("queries", Query) if q.time_ms == 11 * DAY]
    assert short.innovation is None  # nothing was read on the tenth
    assert long.innovation is not None


def test_other_stations_get_an_answer_in_their_own_units_once_the_warm_up_is_over() -> None:
    feeder = Feeder(role_of())
    feeder.days(1.0, 2.0)
    ask = Query(id="B:1", station="B", time_ms=DAY, target_ms=2 * DAY, points=((0.3,),), scale=Scale(100.0, 10.0))
    feeder.send("queries", ask, key="B:1")
    feeder.send("progress", Progress(station="B", time_ms=9 * DAY, queries=("B:1",)), key="B")
    (early,) = [a for a in feeder.published("predictions", Prediction) if a.query_id == "B:1"]
    assert (early.mean, early.abstained) == ((), "warming up")
    feeder.days(3.0, 4.0, start=2)
    feeder.send("queries", Query(**{**_fields(ask), "id": "B:2", "time_ms": 3 * DAY}), key="B:2")
    (late,) = [a for a in feeder.published("predictions", Prediction) if a.query_id == "B:2"]
    belief = feeder.role.agent.model.answer(np.array([[0.3]]))
    assert late.mean == pytest.approx((100.0 + 10.0 * belief.mean[0],))
    assert late.variance == pytest.approx((100.0 * belief.variance[0],))


def _fields(record: Record) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def forecast(query_id: str, **other: object) -> Forecast:
    fields = {
        "query_id": query_id,
        "station": "A",
        "time_ms": 3 * DAY,
        "target_ms": 4 * DAY,
        "noise_variance": (0.5,),
        "kept": (7,),
        "trimmed": ("B",),
        "missing": (),
        "status": "ok",
        **other,
    }
    return Forecast(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("better", [True, False])
def test_the_station_takes_the_better_of_the_two_by_variance(better: bool) -> None:
    """(8): the cloud where its latent variance is the smaller one."""
    feeder = Feeder(role_of())
    feeder.days(1.0, 2.0, 3.0, 4.0)
    local = feeder.published("predictions", Prediction)[-1]
    cloud = forecast(local.query_id, mean=(2.25,), variance=(local.variance[0] * (0.5 if better else 2.0),))
    feeder.send("forecasts", cloud, key=cloud.query_id)
    (out,) = feeder.published("station-forecasts", StationForecast)
    assert out.source == (("cloud",) if better else ("local",))
    assert out.mean == ((2.25,) if better else local.mean)
    assert out.noise_variance == local.noise_variance  # the noise of y is the station's own
    assert (out.local_mean, out.trimmed, out.kept) == (local.mean, ("B",), (7,))
    feeder.send("forecasts", cloud, key=cloud.query_id)
    assert len(feeder.published("station-forecasts", StationForecast)) == 1


def test_without_a_quorum_or_a_cloud_the_station_forecasts_alone() -> None:
    feeder = Feeder(role_of(forecast_wait_s=5.0))
    feeder.days(1.0, 2.0, 3.0, 4.0)
    *_, third, fourth = feeder.published("predictions", Prediction)
    none = forecast(third.query_id, mean=None, variance=None, noise_variance=None, status="no_quorum")
    feeder.send("forecasts", none, key=none.query_id)
    feeder.settle(4.9)
    assert feeder.role.wake_s(4.9) == pytest.approx(0.1)
    feeder.settle(5.0)
    out = {f.query_id: f for f in feeder.published("station-forecasts", StationForecast)}
    assert out[third.query_id].mean == third.mean
    assert out[fourth.query_id].mean == fourth.mean
    assert {f.source for f in out.values()} == {("local",)}
    assert feeder.role.resting


def test_records_and_queries_read_twice_count_once() -> None:
    """R22: the same records again after a rebalance."""
    role = role_of()
    feeder = Feeder(role)
    feeder.days(1.0, 2.0, 3.0)
    ask = Query(id="B:1", station="B", time_ms=0, target_ms=DAY, points=((0.3,),))
    feeder.send("queries", ask, key="B:1")
    feeder.send("queries", ask, key="B:1")
    again = Message("streamgp.observations", 0, 1, "A", encode(Observation(station="A", time_ms=DAY, y=9.0)), NOW_MS)
    role.feed([again], 0.0)
    feeder.settle(0.0)
    assert role.counts["learned"] == 3
    assert role.counts["read twice"] == 1
    assert role.counts["query twice"] == 1
    assert len([a for a in feeder.published("predictions", Prediction) if a.query_id == "B:1"]) == 1


def test_own_rows_alone_reach_the_model() -> None:
    """Records of other stations in the same partition are passed over."""
    feeder = Feeder(role_of())
    feeder.send("observations", Observation(station="B", time_ms=0, y=5.0), key="B")
    feeder.days(1.0)
    assert feeder.role.counts == {"learned": 1, "answered": 1}


def test_what_a_station_remembers_does_not_grow_with_what_it_has_read() -> None:
    """Nor with what it refused: each of these reasons quotes another text."""
    feeder = Feeder(role_of(warm_up=20))
    sizes = []
    for day in range(1_200):
        feeder.days(float(day % 7), start=day)
        feeder.send("observations", b'{"v":"%d","station":"A"}' % day)
        feeder.send("forecasts", forecast(f"A:{day * DAY}:1", mean=(1.0,), variance=(0.5,)), key=f"A:{day * DAY}:1")
        feeder.settle(float(day))  # idle for a while: its questions are promised about
        if day in (400, 1_199):
            sizes.append(len(msgspec.msgpack.encode({k: v for k, v in feeder.role.state().items() if k != "agent"})))
    assert feeder.role.counts["learned"] == 1_200
    assert sizes[1] < 1.1 * sizes[0]
    assert len(feeder.role.counts) < 250
    assert feeder.role.resting
