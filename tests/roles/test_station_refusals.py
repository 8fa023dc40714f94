"""What an agent does with what it cannot use: dead letters, other tries, abstentions."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.constant import ConstantModel
from streamgp.roles.settings import AgentSettings, ModelSettings, Settings
from streamgp.roles.wiring import agent_role
from streamgp.wire.codec import decode, encode
from streamgp.wire.deadletter import read_dead_letter
from streamgp.wire.log import Message
from streamgp.wire.records import (
    Observation,
    Prediction,
    Query,
    Scale,
)
from tests.roles.stations import DAY, NOW_MS, Feeder, Fragile, Infinite, role_of


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
