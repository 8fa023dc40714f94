"""The cloud's forecast: small groups get no number, unusable answers are refused by name."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from streamgp.fusion.trimmed import trimmed_poe
from streamgp.roles.cloud import CloudRole
from streamgp.roles.fusing import Answers
from streamgp.roles.fusing import fuse as fuse_answers
from streamgp.roles.settings import CloudSettings, Settings
from streamgp.roles.window import Closed
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Message
from streamgp.wire.records import Forecast, Prediction, Progress, Query, Record

SETTINGS = CloudSettings(beta=1 / 6)


def fuse(closed: Closed, settings: CloudSettings) -> Forecast:
    answers = Answers.of(closed.answers, m=len(closed.query.points))
    return fuse_answers(closed, answers, settings, beta=settings.beta)


def query(m: int = 2) -> Query:
    return Query(id="A:0:1", station="A", time_ms=0, target_ms=1, points=((0.0,),) * m)


def answer(agent: str, mean: tuple[float, ...], variance: tuple[float, ...], **other: object) -> Prediction:
    noise = (0.1,) * len(mean)
    fields = {"query_id": "A:0:1", "time_ms": 0, "noise_variance": noise, "learned": 5, **other}
    return Prediction(agent=agent, mean=mean, variance=variance, **fields)  # type: ignore[arg-type]


def closed(*answers: Prediction, m: int = 2, missing: tuple[str, ...] = ()) -> Closed:
    return Closed(query(m), {a.agent: a for a in answers}, missing)


def group(n: int, seed: int = 0) -> list[Prediction]:
    rng = np.random.default_rng(seed)
    means, variances = rng.normal(size=(n, 2)), rng.uniform(0.5, 1.5, size=(n, 2))
    return [
        answer(f"S{i:02d}", tuple(mu.tolist()), tuple(v.tolist()))
        for i, (mu, v) in enumerate(zip(means, variances, strict=True))
    ]


@pytest.mark.parametrize(("n", "cure"), [(3, "0, which cuts nobody"), (7, "at most 0.142"), (8, "at most 0.125")])
def test_a_quorum_that_can_never_be_is_told_with_its_cure(n: int, cure: str, caplog: pytest.LogCaptureFixture) -> None:
    """All have answered and it is not enough: waiting does not help, a smaller cut does."""
    assert fuse(closed(*group(n)), SETTINGS).status == "no_quorum"
    (line,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert f"no quorum though all {n} agents answered" in line
    assert f"beta must be {cure}" in line
    beta = 0.0 if n == 3 else float(cure.split()[-1])
    assert fuse(closed(*group(n)), CloudSettings(beta=beta)).status != "no_quorum"
    caplog.clear()
    fuse(closed(*group(n), missing=("Z",)), SETTINGS)
    fuse(closed(), SETTINGS)
    fuse(closed(*group(n)), CloudSettings(beta=1 / 6, min_answers=9))
    assert not [r for r in caplog.records if r.levelname == "WARNING"]


def test_the_forecast_is_the_trimmed_product_of_the_answers() -> None:
    answers = group(12)
    forecast = fuse(closed(*answers), SETTINGS)
    expected = trimmed_poe([a.mean for a in answers], [a.variance for a in answers], 2)
    assert forecast.mean == tuple(expected.mean.tolist())
    assert forecast.variance == tuple(expected.variance.tolist())
    assert forecast.kept == tuple(expected.counts.tolist())
    assert (forecast.status, forecast.n_trim, forecast.answers) == ("ok", 2, 12)
    assert set(forecast.trimmed) == {a.agent for a, k in zip(answers, expected.kept, strict=True) if not k.all()}


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_too_few_answers_give_no_number(n: int) -> None:
    forecast = fuse(closed(*group(n), missing=("Z",)), SETTINGS)
    assert forecast.status == "no_quorum"
    assert forecast.mean is None
    assert forecast.kept == (0, 0)
    assert forecast.missing == ("Z",)


def test_without_trimming_one_answer_is_that_answer() -> None:
    only = answer("S", (1.0, 2.0), (0.5, 0.25))
    forecast = fuse(closed(only), CloudSettings(beta=0.0))
    assert (forecast.mean, forecast.variance) == (only.mean, only.variance)


@pytest.mark.parametrize(
    "liar",
    [
        answer("liar", (1.0,), (1.0,)),
        answer("liar", (1.0, 2.0), (1.0, 0.0)),
        answer("liar", (1.0, 2.0), (1.0, -1.0)),
        answer("liar", (1.0, 2.0), (1.0, 1e-300)),
        answer("liar", (1.0, 1e300), (1.0, 1.0)),
        answer("liar", (1.0, 2.0), (1.0, 1.0), noise_variance=(0.1, -0.1)),
        answer("liar", (1.0, 2.0), (1.0, 1.0), noise_variance=(0.1,)),
    ],
)
def test_unusable_answers_are_refused_by_name_before_anything_is_sorted(liar: Prediction) -> None:
    """C37: the attacker is excluded and the rest is fused as if it were not there."""
    answers = group(5)
    forecast = fuse(closed(*answers, liar), SETTINGS)
    honest = fuse(closed(*answers), SETTINGS)
    assert forecast.refused == ("liar",)
    assert (forecast.mean, forecast.variance, forecast.answers) == (honest.mean, honest.variance, 5)


def test_five_agents_of_which_one_sends_what_cannot_be_used() -> None:
    """C37: the fusion of the other four has the mean 1.0125."""
    means = {"a": 1.00, "b": 1.10, "c": 0.90, "d": 1.05}
    answers = [answer(name, (mean,), (0.04,)) for name, mean in means.items()]
    forecast = fuse(closed(*answers, answer("liar", (5.0,), (-1.0,)), m=1), CloudSettings(beta=0.0))
    assert forecast.mean == pytest.approx((1.0125,))


def test_an_agent_that_abstains_is_neither_missing_nor_refused() -> None:
    answers = group(5)
    silent = answer("new", (), (), noise_variance=(), abstained="warming up")
    forecast = fuse(closed(*answers, silent), SETTINGS)
    assert (forecast.refused, forecast.missing, forecast.answers) == ((), (), 5)


def role_with(*agents: str) -> CloudRole:
    return CloudRole(Settings(stations=agents))


def message(suffix: str, record: Record | bytes, offset: int = 0) -> Message:
    value = record if isinstance(record, bytes) else encode(record)
    return Message(f"streamgp.{suffix}", 0, offset, "key", value)


def test_the_role_turns_queries_and_answers_into_one_forecast_whatever_comes_first() -> None:
    answers = group(5)
    names = [a.agent for a in answers]
    forecasts = []
    for order in (0, 1):
        role = role_with(*names)
        parts = [message("queries", query()), *(message("predictions", a, i) for i, a in enumerate(answers))]
        for i, part in enumerate(parts[:: -1 if order else 1]):
            role.feed([msgspec.structs.replace(part, offset=i)], 0.0)
        role.feed([message("predictions", answers[0], 99)], 0.0)  # sent twice
        (out,) = role.drain(0.0)
        forecasts.append(decode(out.value, Forecast))
    assert forecasts[0] == forecasts[1]
    assert forecasts[0].status == "ok"


def test_rubbish_is_a_dead_letter_with_its_reason_and_stops_nothing() -> None:
    """C43, C13: a pickle and a NaN on the topics are refused, the next answer counts."""
    role = role_with("S")
    bad = [b"\x80\x04K\x01.", b'{"v":1,"query_id":"q","agent":"S","time_ms":0,"mean":[NaN]}', b'{"v":9}']
    role.feed([message("predictions", b, i) for i, b in enumerate(bad)], 0.0)
    letters = role.drain(0.0)
    assert [o.topic for o in letters] == ["streamgp.dead-letter"] * 3
    assert [o.value for o in letters] == bad
    reasons = [dict(o.headers)["reason"].decode() for o in letters]
    assert reasons[0].startswith("unknown format")
    assert reasons[2].startswith("unknown schema version")


def test_a_hello_of_a_known_agent_makes_it_waited_for_again_and_a_promise_does_not() -> None:
    role = CloudRole(Settings(stations=("S", "T"), cloud=CloudSettings(deadline_s=1.0, patience=1, beta=0.0)))
    role.feed([message("queries", query())], 0.0)
    role.feed([message("predictions", answer("S", (0.0, 0.0), (1.0, 1.0)))], 0.0)
    assert role.drain(0.5) == []
    role.feed([], 1.0)
    assert decode(role.drain(1.0)[0].value, Forecast).missing == ("T",)
    role.feed([message("progress", Progress(station="T", time_ms=5), 0)], 2.0)
    assert role.windows.expected() == {"S"}
    role.feed([message("progress", Progress(station="T", time_ms=None), 1)], 2.0)
    assert role.windows.expected() == {"S", "T"}
