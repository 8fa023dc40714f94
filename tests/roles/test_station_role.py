"""The agent as a process step: what it learns, refuses, retries, answers and publishes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.constant import ConstantModel
from streamgp.models.features import FeatureSettings
from streamgp.models.station import StationModel
from streamgp.roles.agent import Agent
from streamgp.roles.door import Door
from streamgp.roles.promises import IDLE_AFTER_S, PROMISE_EVERY_S
from streamgp.roles.settings import AgentSettings, ModelSettings, Settings
from streamgp.roles.station import AgentRole
from streamgp.roles.wiring import agent_role
from streamgp.wire.codec import decode, encode
from streamgp.wire.deadletter import read_dead_letter
from streamgp.wire.log import Message, Outgoing
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

DAY = 86_400_000
NOW_MS = 1_790_000_000_000


class Fragile:
    """A constant model that fails on some y as often as told."""

    def __init__(self, fails: dict[float, int]) -> None:
        self._inner = ConstantModel()
        self._fails = fails

    @property
    def learned(self) -> int:
        return self._inner.learned

    def learn(self, Z: Array, y: Array) -> None:
        for value in y.round(6).tolist():
            if self._fails.get(value, 0) > 0:
                self._fails[value] -= 1
                raise RuntimeError("no luck")
        self._inner.learn(Z, y)

    def predict(self, Z: Array) -> Gaussian:
        return self._inner.predict(Z)


class Infinite:
    """A model made to yield an infinite variance."""

    learned = 3

    def learn(self, Z: Array, y: Array) -> None:
        pass

    def predict(self, Z: Array) -> Gaussian:
        m = len(Z)
        return Gaussian(np.zeros(m), np.full(m, np.inf), np.ones(m))


def role_of(make: Callable[[bool], object] | None = None, *, warm_up: int = 3, **agent: object) -> AgentRole:
    settings = Settings(agent=AgentSettings(settle_s=0.0, **agent))  # type: ignore[arg-type]
    model = StationModel(
        FeatureSettings(lags=(1,), averages=(), calendar=()),
        make=make or (lambda fit: ConstantModel()),  # type: ignore[arg-type]
        load=ConstantModel.from_state,
        warm_up=warm_up,
        step_ms=DAY,
    )
    role = AgentRole(Agent("A", model, settings.agent), settings, Door(settings.door_settings()))
    role.start(0.0)
    return role


class Feeder:
    """Gives a role messages with the offsets that a log would."""

    def __init__(self, role: AgentRole) -> None:
        self.role = role
        self.out: list[Outgoing] = []
        self._next: dict[str, int] = {}

    def send(self, suffix: str, record: Record | bytes, *, key: str = "A", now_s: float = 0.0) -> None:
        offset = self._next[suffix] = self._next.get(suffix, -1) + 1
        value = record if isinstance(record, bytes) else encode(record)
        self.role.feed([Message(f"streamgp.{suffix}", 0, offset, key, value, NOW_MS)], now_s)
        self.settle(now_s)

    def settle(self, now_s: float) -> None:
        self.role.feed([], now_s)
        self.out += self.role.drain(now_s)

    def days(self, *values: float, start: int = 0) -> None:
        for i, y in enumerate(values, start):
            self.send("observations", Observation(station="A", time_ms=i * DAY, y=y))

    def published(self, suffix: str, kind: type[Record]) -> list[Record]:
        return [decode(o.value, kind) for o in self.out if o.topic == f"streamgp.{suffix}"]


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


@pytest.mark.parametrize(
    ("points", "scale", "reason"),
    [
        (((0.1, 0.2),), None, "rows of 1 columns expected"),
        ((), None, "no points"),
        (((0.1,),), Scale(0.0, 0.0), "scale.std must be positive"),
        (((0.1,),), Scale(0.0, -1.0), "scale.std must be positive"),
    ],
)
def test_a_question_that_makes_no_sense_gets_an_answer_that_says_so(
    points: tuple[tuple[float, ...], ...], scale: Scale | None, reason: str
) -> None:
    feeder = Feeder(role_of())
    feeder.days(1.0, 2.0, 3.0)
    ask = Query(id="x", time_ms=0, target_ms=1, points=points, scale=scale)
    feeder.send("queries", ask, key="x")
    assert feeder.published("predictions", Prediction)[-1].abstained == reason


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


def test_records_that_cannot_be_used_become_dead_letters_with_their_origin() -> None:
    """C13, C43, C19: nothing is learned from them, all others are."""
    feeder = Feeder(role_of())
    feeder.days(1.0)
    bad = [
        (b'{"v":1,"station":"A","time_ms":86400000,"y":NaN}', "y", "not a finite number"),
        (b'{"v":1,"station":"A","time_ms":86400000,"y":1e400}', "y", "Number out of range"),
        (b"\x80\x04K\x01.", "", "unknown format"),
        (b'{"v":1,"station":"A","time_ms":86400000}', "y", "missing"),
        (b'{"v":7,"station":"A"}', "v", "unknown schema version"),
        (encode(Observation(station="B", time_ms=DAY, y=1.0)), "station", "the key says"),
        (encode(Observation(station="A", time_ms=0, y=1.0)), "time_ms", "duplicate"),
        (encode(Observation(station="A", time_ms=NOW_MS + 30 * DAY, y=1.0)), "time_ms", "clock ahead"),
    ]
    for value, _, _ in bad:
        feeder.send("observations", value)
    feeder.days(2.0, start=1)
    letters = [o for o in feeder.out if o.topic == "streamgp.dead-letter"]
    read = [read_dead_letter(Message(o.topic, 0, i, o.key, o.value, 0, o.headers)) for i, o in enumerate(letters)]
    assert [(r.value, r.offset) for r in read] == [(value, i) for i, (value, _, _) in enumerate(bad, 1)]
    for letter, (_, field, reason) in zip(read, bad, strict=True):
        assert letter.field == field
        assert reason in letter.reason
    assert feeder.role.counts["learned"] == 2
    assert feeder.role.handled == 10


def test_a_record_that_fails_is_tried_again_in_order_and_then_a_dead_letter(caplog: pytest.LogCaptureFixture) -> None:
    """C20, R26, R27: 4 tries over 1.4 s, nothing overtaken, no commit beyond what is neither learned nor refused.

    Fewer than ten lines of log, though it was tried eight times.
    """
    y = np.arange(10.0)
    mean, std = y[:3].mean(), y[:3].std()
    fails = {round((5 - mean) / std, 6): 2, round((8 - mean) / std, 6): 99}
    feeder = Feeder(role_of(lambda fit: Fragile(fails)))
    feeder.days(*y.tolist())
    at = ("streamgp.observations", 0)
    now, last = 0.0, -1
    while feeder.role.handled < 10:
        assert feeder.role.done()[at] == feeder.role.handled
        assert feeder.role.agent.last_ms == last or feeder.role.agent.last_ms is not None
        wake = feeder.role.wake_s(now)
        assert wake is not None
        now += max(wake, 1e-6)
        feeder.settle(now)
    assert now == pytest.approx(0.2 + 0.4 + 0.2 + 0.4 + 0.8, abs=1e-3)
    assert feeder.role.counts["learned"] == 9
    assert feeder.role.done()[at] == 10
    (letter,) = [o for o in feeder.out if o.topic == "streamgp.dead-letter"]
    assert decode(letter.value, Observation).y == 8.0
    told = read_dead_letter(Message(letter.topic, 0, 0, letter.key, letter.value, 0, letter.headers))
    assert (told.reason, told.field, told.offset) == ("not learned: no luck", "y", 8)
    assert [q.time_ms // DAY for q in feeder.published("queries", Query)] == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    assert feeder.role.counts["learning retried"] == 5
    assert 1 <= len(caplog.records) < 5


class Ending:
    """A model that ends the iteration of whoever calls it."""

    def __init__(self) -> None:
        self._inner = ConstantModel()

    @property
    def learned(self) -> int:
        return self._inner.learned

    def learn(self, Z: Array, y: Array) -> None:
        if any(value > 50 for value in y.tolist()):
            raise StopIteration
        self._inner.learn(Z, y)

    def predict(self, Z: Array) -> Gaussian:
        return self._inner.predict(Z)


def test_nothing_behind_a_record_that_ends_an_iteration_is_lost() -> None:
    """R09: of five records in one batch the second is rubbish; of the next five a model raises StopIteration on one."""
    feeder = Feeder(role_of(lambda fit: Ending()))
    feeder.days(1.0, 2.0, 3.0)
    made = [encode(Observation(station="A", time_ms=d * DAY, y=float(d % 4))) for d in range(3, 8)]
    made[1] = b"\x80\x04K\x01."
    feeder.role.feed([Message("streamgp.observations", 0, 3 + i, "A", v, NOW_MS) for i, v in enumerate(made)], 0.0)
    feeder.settle(0.0)
    assert feeder.role.counts["learned"] == 3 + 4
    assert [o.topic for o in feeder.out].count("streamgp.dead-letter") == 1
    days = range(8, 13)
    rows = [Observation(station="A", time_ms=d * DAY, y=1e3 if d == 9 else float(d % 4)) for d in days]
    batch = [Message("streamgp.observations", 0, 8 + i, "A", encode(o), NOW_MS) for i, o in enumerate(rows)]
    feeder.role.feed(batch, 0.0)
    for second in range(10):
        feeder.settle(0.2 * second)
    assert feeder.role.counts["learned"] == 3 + 4 + 4
    assert feeder.role.handled == 13


def test_a_belief_that_is_not_finite_is_withheld() -> None:
    """C13: the forecast topic never carries an infinity."""
    feeder = Feeder(role_of(lambda fit: Infinite()))
    feeder.days(1.0, 2.0, 3.0, 4.0)
    answers = feeder.published("predictions", Prediction)
    assert {a.abstained for a in answers[2:]} == {"not finite"}
    assert all(a.mean == () for a in answers[2:])


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


def test_promises_tell_what_is_to_come() -> None:
    feeder = Feeder(role_of())
    feeder.days(1.0, 2.0)
    feeder.settle(1.0)
    promises = feeder.published("progress", Progress)
    assert promises[-1] == Progress(station="A", time_ms=DAY + 1, state="idle")
    assert [q for p in promises for q in p.queries] == ["A:0:1", f"A:{DAY}:1"]
    assert feeder.role.stop(2.0)[0].topic == "streamgp.progress"


def test_what_is_learned_at_once_is_promised_at_once() -> None:
    """The last station to read its row must not keep the others waiting until it counts as idle."""
    feeder = Feeder(role_of())
    feeder.days(1.0)
    assert feeder.published("progress", Progress)[-1].time_ms == 1
    feeder.send("progress", Progress(station="B", time_ms=5, state="idle"), key="B")
    assert feeder.role.wake_s(0.0) == pytest.approx(IDLE_AFTER_S)  # another's word that it is idle starts no new wait


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


def test_a_station_that_never_pauses_promises_all_the_same() -> None:
    """R42: the questions that it has still to promise about are bounded, though its input is never empty."""
    role = role_of(warm_up=3)
    role.start(0.0)
    promised: list[Progress] = []
    for i in range(600):
        value = encode(Observation(station="A", time_ms=i * DAY, y=float(i % 7)))
        role.feed([Message("streamgp.observations", 0, i, "A", value, NOW_MS)], 0.01 * i)
        out = role.drain(0.01 * i)
        promised += [decode(o.value, Progress) for o in out if o.topic == "streamgp.progress"]
        assert len(role.state()["asked"]) <= 128
    named = [q for p in promised for q in p.queries]
    assert len(named) == len(set(named)) > 400
    assert [p.state for p in promised[1:]] == ["busy"] * (len(promised) - 1)
    last = promised[-1]
    assert last.time_ms is not None
    assert all(int(q.split(":")[1]) < last.time_ms for q in last.queries)


def test_a_question_from_beyond_all_numbers_is_abstained_from_and_stops_nobody() -> None:
    """C13, R58: one hostile point of 1e308 among good ones, with more places learned than one tree's tail holds."""
    settings = Settings(agent=AgentSettings(settle_s=0.0), model=ModelSettings(warm_up=8, n_neighbors=4))
    role = agent_role(settings, "A")
    role.start(0.0)
    for i in range(300):
        value = encode(Observation(station="A", time_ms=i * DAY, y=float((i * i) % 17)))
        role.feed([Message("streamgp.observations", 0, i, "A", value, NOW_MS)], 0.0)
        role.drain(0.0)
    width = role.agent.model.width
    for k, far in enumerate((0.5, 1e308, -1e200)):
        query = Query(id=f"B:{k}", station="B", time_ms=DAY, target_ms=2 * DAY, points=((far,) * width,))
        role.feed([Message("streamgp.queries", 0, k, query.id, encode(query), NOW_MS)], 1.0)
    told = [decode(o.value, Prediction) for o in role.drain(1.0) if o.topic == "streamgp.predictions"]
    assert [(p.query_id, p.abstained or None, len(p.mean)) for p in told] == [
        ("B:0", None, 1),
        ("B:1", "not finite", 0),
        ("B:2", "not finite", 0),
    ]


def test_a_backlog_is_promised_about_now_and_then_and_at_its_end() -> None:
    """Each promise is a request to the broker; the last one comes within its time though no input does."""
    role = role_of(warm_up=3, horizons=())
    role.start(0.0)
    promised: list[tuple[float, int | None]] = []
    for i in range(40):
        days = range(500 * i, 500 * (i + 1))
        values = [encode(Observation(station="A", time_ms=t * DAY, y=float(t % 7))) for t in days]
        now_s = 0.01 * i
        role.feed(
            [Message("streamgp.observations", 0, t, "A", v, NOW_MS) for t, v in zip(days, values, strict=True)], now_s
        )
        while True:
            promised += [(now_s, decode(o.value, Progress).time_ms) for o in role.drain(now_s)]
            if role.wake_s(now_s) != 0.0:
                break
    assert role.handled == 20_000
    assert 3 <= len(promised) <= 8
    wake_s = role.wake_s(0.39)
    assert wake_s is not None
    assert wake_s <= PROMISE_EVERY_S
    (last,) = role.drain(0.39 + wake_s)
    assert decode(last.value, Progress).time_ms == 19_999 * DAY + 1


def test_a_twin_from_the_middle_of_a_backlog_promises_at_the_same_times() -> None:
    """A journal's calls give the same outputs, so what paces them is part of the state."""
    role = role_of(warm_up=3, horizons=())
    role.start(0.0)
    values = [encode(Observation(station="A", time_ms=t * DAY, y=float(t % 7))) for t in range(3_000)]
    messages = [Message("streamgp.observations", 0, t, "A", v, NOW_MS) for t, v in enumerate(values)]
    role.feed(messages[:2_000], 0.0)
    role.drain(0.0)
    twin = role_of(warm_up=3, horizons=())
    twin.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(role.state(), enc_hook=np.ndarray.tolist)))
    for now_s in (0.01, 0.02, 0.05, 0.3, 0.31, 0.6):
        for each in (role, twin):
            each.feed(messages[2_000:2_500] if now_s == 0.02 else [], now_s)
        assert role.drain(now_s) == twin.drain(now_s)
        assert role.wake_s(now_s) == twin.wake_s(now_s)
    assert role.handled == twin.handled > 300
