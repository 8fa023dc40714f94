"""Scores: right numbers, each forecast once, whatever arrives last."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from streamgp.roles.scorer import ScorerRole, score
from streamgp.roles.settings import Settings
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Message, Outgoing
from streamgp.wire.records import Forecast, Observation, Query, Record, Scale, Score, StationForecast

DAY = 86_400_000
NOW_MS = 1_700_000_000_000


def test_scores_equal_their_definitions() -> None:
    for mean, variance, noise, y in [(0.0, 1.0, 0.0, 0.3), (5.0, 0.2, 0.3, 3.0), (-2.0, 4.0, 1.0, 4.5)]:
        error, nlpd, crps, covered = score(mean, variance, noise, y)
        std = math.sqrt(variance + noise)
        law = norm(mean, std)
        below = quad(lambda t, law=law: law.cdf(t) ** 2, mean - 12 * std, y)[0]
        above = quad(lambda t, law=law: (1 - law.cdf(t)) ** 2, y, mean + 12 * std)[0]
        assert error == mean - y
        assert nlpd == pytest.approx(-law.logpdf(y))
        assert crps == pytest.approx(below + above, rel=1e-6)
        assert covered == (law.ppf(0.05) <= y <= law.ppf(0.95))


def test_the_band_covers_what_it_says() -> None:
    rng = np.random.default_rng(3)
    hits = [score(0.0, 0.5, 0.5, y)[3] for y in rng.normal(size=4000)]
    assert np.mean(hits) == pytest.approx(0.9, abs=0.02)


def message(suffix: str, record: Record, offset: int) -> Message:
    station = getattr(record, "station", "A")
    return Message(f"streamgp.{suffix}", 0, offset, station, encode(record), NOW_MS)


def walk() -> list[Message]:
    """Five days of one station; on day 3 it asks about day 4 and everybody answers."""
    parts: list[tuple[str, Record]] = [
        ("observations", Observation(station="A", time_ms=d * DAY, y=float(y))) for d, y in enumerate((3, 5, 4, 6))
    ]
    parts.append(
        (
            "queries",
            Query(id="A:3", station="A", time_ms=3 * DAY, target_ms=4 * DAY, points=((0.0,),), scale=Scale(4.0, 2.0)),
        )
    )
    common = {"query_id": "A:3", "station": "A", "time_ms": 3 * DAY, "target_ms": 4 * DAY, "kept": (5,)}
    names = {"trimmed": (), "missing": (), "status": "ok"}
    parts.append(
        (
            "forecasts",
            Forecast(
                **common, **names, mean=(5.5,), variance=(0.5,), noise_variance=(0.5,),
                untrimmed_mean=(50.0,), untrimmed_variance=(0.4,), untrimmed_noise_variance=(0.5,),
                network_mean=(6.8,), network_variance=(0.3,), network_noise_variance=(0.4,),
            ),
        )
    )  # fmt: skip
    parts.append(
        (
            "station-forecasts",
            StationForecast(
                **common, **names, mean=(5.5,), variance=(0.5,), noise_variance=(0.6,), source=("cloud",),
                local_mean=(6.5,), local_variance=(0.9,), local_noise_variance=(0.6,),
            ),
        )
    )  # fmt: skip
    parts.append(("observations", Observation(station="A", time_ms=4 * DAY, y=7.0)))
    return [message(suffix, record, i) for i, (suffix, record) in enumerate(parts)]


def scores_of(out: list[Outgoing]) -> dict[str, Score]:
    scores = [decode(o.value, Score) for o in out if o.topic == "streamgp.scores"]
    assert len({s.method for s in scores}) == len(scores), "a method was scored twice"
    return {s.method: s for s in scores}


def test_every_method_is_scored_against_the_truth() -> None:
    role = ScorerRole(Settings())
    role.feed(walk(), 0.0)
    scores = scores_of(role.drain(0.0))
    assert {m: s.mean for m, s in scores.items()} == {
        "persistence": 6.0,
        "local": 6.5,
        "cloud_untrimmed": 50.0,
        "cloud_trimmed": 5.5,
        "network": 6.8,
        "chosen": 5.5,
    }
    assert all(s.y == 7.0 and s.scale == 2.0 for s in scores.values())
    assert scores["persistence"].variance == pytest.approx(np.var([2, -1, 2], ddof=1))


def test_scores_do_not_depend_on_the_order_of_arrival() -> None:
    """R39: each forecast is held against its own truth, whichever comes last."""
    messages = walk()
    history, rest = messages[:4], messages[4:]
    role = ScorerRole(Settings())
    role.feed(messages, 0.0)
    expected = scores_of(role.drain(0.0))
    for order in itertools.permutations(rest):
        role = ScorerRole(Settings())
        role.feed(history, 0.0)
        for i, m in enumerate(order):
            role.feed([Message(m.topic, 1, i, m.key, m.value, NOW_MS)], 0.0)
        assert scores_of(role.drain(0.0)) == expected


def test_records_read_twice_are_scored_once() -> None:
    role = ScorerRole(Settings())
    role.feed(walk(), 0.0)
    again = [Message(m.topic, m.partition, m.offset + 100, m.key, m.value, NOW_MS) for m in walk()]
    role.feed(again, 0.0)
    scores_of(role.drain(0.0))


def test_memory_is_bounded_when_truth_never_comes() -> None:
    settings = Settings()
    role = ScorerRole(settings)
    for i in range(3 * settings.scorer.keep):
        ask = Query(id=f"A:{i}", station="A", time_ms=i, target_ms=10**9 + i, points=((0.0,),))
        role.feed([message("queries", ask, i)], 0.0)
    role.feed([message("observations", Observation(station="A", time_ms=1, y=1.0), 0)], 0.0)
    pending = sum(len(v) for v in role._station("A").pending.values())
    assert pending <= 3 * settings.scorer.keep
    assert len(role._by_query) <= settings.scorer.keep


def test_what_the_agent_refuses_is_no_truth() -> None:
    """C08, R28: one time in the future must not make every later truth a late one; a sentinel is no reading."""
    role, messages = ScorerRole(Settings()), walk()
    ahead = Observation(station="A", time_ms=NOW_MS + 30 * DAY, y=10.0)
    sentinel = Observation(station="A", time_ms=1, y=-999.0)
    bad = [
        Message("streamgp.observations", 1, at, "A", encode(record), NOW_MS)
        for at, record in enumerate((ahead, sentinel))
    ]
    role.feed([messages[0], *bad, *messages[1:]], 0.0)
    spoilt = [m.value for m in role.drain(0.0)]
    twin = ScorerRole(Settings())
    twin.feed(walk(), 0.0)
    assert spoilt == [m.value for m in twin.drain(0.0)]
    assert spoilt
    assert role.counts["no truth: clock ahead"] == 1
    assert role.counts["no truth: sentinel"] == 1
    again = ScorerRole(Settings())
    again.restore(role.state())
    assert again.state() == role.state()
