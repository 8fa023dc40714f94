"""The network layer under inputs that nobody should send: answers that make sense, or errors that say what is wrong."""

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamgp.errors import SettingsError
from streamgp.fusion.network import Asked, Correction, NetworkLayer
from streamgp.fusion.network_settings import NetworkSettings

STEP = 3_600_000
NAMES = ("a", "b", "c")


def asked(name: str, t: int, innovation: float | None = None, *, steps: int = 1) -> Asked:
    return Asked(name, (t + steps) * STEP, 1.0, 0.75, 0.25, innovation, 0.0, 1.0)


def said(T: int, n: int = 3, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(T, n))


def run(layer: NetworkLayer, e: np.ndarray, *, start: int = 0, names: Sequence[str] = NAMES) -> list[Correction]:
    answers: list[Correction] = []
    for t in range(start, start + len(e)):
        row = [asked(name, t, float(v)) for name, v in zip(names, e[t - start], strict=True)]
        answers = layer.step(t * STEP, row)
    return answers


def sane(c: Correction) -> None:
    assert np.isfinite([c.mean, c.shift]).all()
    assert 0.0 < c.ratio < np.inf
    assert c.variance > 0.0
    assert sum(c.weights) == pytest.approx(1.0)
    assert min(c.weights) >= 0.0


@pytest.mark.parametrize("sources", [0, 1])
@pytest.mark.parametrize("names", [("a",), NAMES])
def test_one_station_or_one_source_or_none(sources: int, names: tuple[str, ...]) -> None:
    """Also a network of one, which has nobody to listen to, and one without places for candidates."""
    layer = NetworkLayer(NetworkSettings(n_sources=sources, n_candidates=sources, refresh=5))
    for c in run(layer, said(60, len(names)), names=names):
        sane(c)
        assert c.silent == c.dropped == ()
    assert len(layer.influences(horizon_ms=STEP)) == (len(names) * sources if len(names) > 1 else 0)


@pytest.mark.parametrize("value", [0.0, 5.0, -1e300])
def test_errors_that_never_vary(value: float) -> None:
    for c in run(NetworkLayer(), np.full((80, 3), value)):
        sane(c)
        assert abs(c.shift) <= 5.0


def test_stations_of_which_nothing_was_ever_heard() -> None:
    """Queries without errors leave forecasts alone; horizons nobody asked for have no influences."""
    layer = NetworkLayer()
    for t in range(50):
        for c in layer.step(t * STEP, [asked(name, t) for name in NAMES]):
            assert (c.mean, c.variance, c.ratio) == (1.0, 0.75, 1.0)
            assert set(c.silent) == set(NAMES) - {c.station}
    assert layer.influences(horizon_ms=17) == []
    assert layer.dropped() == {}
    assert layer.step(50 * STEP, []) == []
    layer.hear(51 * STEP, [], horizon_ms=STEP)


def test_a_name_never_seen_and_a_year_of_silence() -> None:
    layer = NetworkLayer(NetworkSettings(refresh=5))
    run(layer, said(80))
    (new,) = layer.step(80 * STEP, [asked("d", 80, 0.5)])
    assert (new.mean, new.ratio) == (1.0, 1.0)
    (late,) = layer.step(9000 * STEP, [asked("a", 9000)])
    sane(late)
    assert late.silent == ("b", "c", "d")


def test_time_that_goes_backwards() -> None:
    """A step from long ago gets an answer from what was known then, or is left alone; the next goes on."""
    layer = NetworkLayer(NetworkSettings(refresh=5))
    run(layer, said(100))
    for t in (50, 3, 98):
        for c in layer.step(t * STEP, [asked(name, t, 1.0) for name in NAMES]):
            sane(c)
    for c in run(layer, said(5, seed=1), start=100):
        sane(c)
        assert c.silent == ()


def test_the_same_step_twice_is_the_same_step_once() -> None:
    once, twice = NetworkLayer(NetworkSettings(refresh=5)), NetworkLayer(NetworkSettings(refresh=5))
    for t, e in enumerate(said(70)):
        row = [asked(name, t, float(v)) for name, v in zip(NAMES, e, strict=True)]
        first = once.step(t * STEP, row)
        assert twice.step(t * STEP, row + row) == first * 2
        assert twice.step(t * STEP, row) == first
        assert [twice.correct(t * STEP, a) for a in row] == first


def test_two_horizons_do_not_disturb_each_other() -> None:
    """The one-step answers are those of a layer that knows no other horizon, to the bit."""
    short, both = NetworkLayer(NetworkSettings(refresh=5)), NetworkLayer(NetworkSettings(refresh=5))
    for t, e in enumerate(said(60)):
        row = [asked(name, t, float(v)) for name, v in zip(NAMES, e, strict=True)]
        far = [asked(name, t, 0.3, steps=3) for name in NAMES]
        assert both.step(t * STEP, far + row)[3:] == short.step(t * STEP, row)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"station": None}, "station's name"), ({"station": 3}, "station's name"), ({"target_ms": 1.5}, "target_ms"),
        ({"target_ms": "x"}, "target_ms"), ({"mean": None}, "mean of 'a'"), ({"mean": "1"}, "mean of 'a'"),
        ({"variance": [1.0]}, "variance of 'a'"), ({"innovation": "0.5"}, "innovation of 'a'"),
        ({"fused_mean": ()}, "fused_mean of 'a'"),
    ],
)  # fmt: skip
def test_wrong_types_are_told_by_name(change: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        replace(asked("a", 0), **change)


def test_wrong_calls_are_told_and_change_nothing() -> None:
    layer, calm = NetworkLayer(), NetworkLayer()
    run(layer, said(30))
    run(calm, said(30))
    wrong: list[tuple[type[Exception], Any]] = [
        (TypeError, lambda: layer.step(1.5, [asked("a", 0)])),
        (TypeError, lambda: layer.step(float("nan"), [])),
        (ValueError, lambda: layer.step(2**70, [])),
        (ValueError, lambda: Asked("a", 2**70, 0.0, 1.0, 1.0)),
        (TypeError, lambda: layer.hear(0, [("a", "x")], horizon_ms=STEP)),
        (TypeError, lambda: layer.hear(0, [(None, 1.0)], horizon_ms=STEP)),
        (TypeError, lambda: layer.observe("a", 0, 1.0, horizon_ms=0.5)),
        (TypeError, lambda: NetworkLayer({"n_sources": 3})),
        (ValueError, lambda: NetworkLayer(coordinates={"a": (1.0, 2.0, 3.0)})),
        (ValueError, lambda: NetworkLayer(coordinates={"a": "xy"})),
        (ValueError, lambda: NetworkLayer(coordinates={"a": (200.0, 2.0)})),
    ]
    for kind, call in wrong:
        with pytest.raises(kind):
            call()
    layer.observe("a", 29 * STEP, 1.0, horizon_ms=-STEP)  # no horizon: nobody's
    assert run(layer, said(10, seed=1), start=30) == run(calm, said(10, seed=1), start=30)


def test_numbers_that_are_none_count_as_unknown() -> None:
    """Levels, spreads and products that are NaN, infinite or zero change no answer into one that is none."""
    layer = NetworkLayer(NetworkSettings(refresh=5))
    for t, e in enumerate(said(60)):
        for k, c in enumerate(
            layer.step(
                t * STEP,
                [
                    replace(asked("a", t, float(e[0])), fused_mean=np.nan, level=np.inf, spread=0.0),
                    replace(asked("b", t, float(e[1])), fused_mean=-np.inf, level=np.nan),
                    replace(asked("c", t, float(e[2])), fused_mean=1e300, spread=1e-300),
                ],
            )
        ):
            sane(c)
            assert c.station == NAMES[k]


def test_a_state_survives_json() -> None:
    """As text and back it answers the same to the bit; what waits for its time is in it."""
    layer = NetworkLayer(NetworkSettings(refresh=5), coordinates={"a": (50.0, 8.0)})
    run(layer, said(50))
    layer.observe("a", 51 * STEP, 2.0, horizon_ms=STEP)
    layer.observe("d", 52 * STEP, None, horizon_ms=STEP)
    text = json.dumps(layer.state(), default=lambda array: array.tolist())
    twin = NetworkLayer.from_state(json.loads(text))
    assert json.dumps(twin.state(), default=lambda array: array.tolist()) == text
    assert run(twin, said(20, seed=1), start=50) == run(layer, said(20, seed=1), start=50)


@pytest.mark.parametrize("part", [*NetworkLayer().state(), "rows", "twice", "all"])
def test_damaged_states_are_refused(part: str) -> None:
    layer = NetworkLayer()
    run(layer, said(3))
    state = copy.deepcopy(layer.state())
    assert NetworkLayer.from_state(state).stations == list(NAMES)
    damaged: list[Any] = {
        "rows": [{**state, "stations": ["a", "b"]}],
        "twice": [{**state, "stations": ["a", "b", "b"]}],
        "all": [None, {}, [], "state"],
    }.get(part, [{k: v for k, v in state.items() if k != part}, {**state, part: "junk"}])
    for one in damaged:
        with pytest.raises(ValueError, match=r"damaged|version"):
            NetworkLayer.from_state(one)


@pytest.mark.parametrize(
    "wrong",
    [{"n_sources": 1.5}, {"n_sources": True}, {"n_candidates": "a"}, {"refresh": 1.5}, {"warm_up": np.inf},
     {"clip": np.nan}, {"clip": np.inf}, {"forgetting": 0.9}, {"ridge": (np.nan,)}, {"ridge": (np.inf,)},
     {"handicap": np.nan}, {"budget": -0.1}, {"budget": np.inf}],
)  # fmt: skip
def test_settings_of_a_wrong_kind_are_refused(wrong: dict) -> None:
    with pytest.raises(SettingsError):
        NetworkSettings(**wrong)


def test_numbers_that_no_float_holds_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="mean of 'A' is larger"):
        Asked("A", 2, 10**400, 1.0, 1.0)
    with pytest.raises(ValueError, match="innovation of 'A' is larger"):
        Asked("A", 2, 1.0, 1.0, 1.0, innovation=-(10**400))


@pytest.mark.parametrize(
    "wrong", [{"clip": "5"}, {"forgetting": ("a",)}, {"ridge": (None,)}, {"budget": None}, {"clip": True}]
)
def test_settings_that_are_no_numbers_are_wrong_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="must be a number"):
        NetworkSettings(**wrong)


def test_a_forecast_with_a_negative_part_is_handed_back() -> None:
    (said,) = NetworkLayer().step(1, [Asked("A", 2, 1.0, -1.0, 2.0)])
    assert (said.mean, said.variance, said.ratio) == (1.0, -1.0, 1.0)
