"""What an agent promises about its questions to come, and when."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from streamgp.roles.promises import IDLE_AFTER_S, PROMISE_EVERY_S
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Message
from streamgp.wire.records import (
    Observation,
    Progress,
)
from tests.roles.stations import DAY, NOW_MS, Feeder, role_of


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
