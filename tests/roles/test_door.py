"""The door: what is no reading, or cannot be true, is refused by name; honest data pass."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.datasets import observations
from streamgp.errors import CheckpointError, SettingsError
from streamgp.roles.door import Accepted, Door, DoorSettings, Refused
from streamgp.wire.records import Observation
from tests.data import DATA, needs

MIN, HOUR, DAY = 60_000, 3_600_000, 86_400_000
T0 = int(datetime(2024, 3, 1, 10, tzinfo=timezone.utc).timestamp() * 1000)


def obs(time_ms: Any, y: Any, *, station: str = "A", **more: Any) -> Observation:
    return Observation(station=station, time_ms=time_ms, y=y, **more)


def reasons(door: Door, records: list[Observation], now_ms: int = T0 + 10 * DAY) -> list[str | None]:
    outcomes = [door.check(record, now_ms) for record in records]
    return [outcome.text if isinstance(outcome, Refused) else None for outcome in outcomes]


def accepted(door: Door, record: Observation, now_ms: int = T0 + 10 * DAY) -> Observation:
    outcome = door.check(record, now_ms)
    assert isinstance(outcome, Accepted), outcome
    return outcome.observation


@pytest.mark.parametrize("name", ["irish-wind", "de-pm10"])
def test_honest_sets_that_ship_pass_whole(name: str) -> None:
    door = Door()
    n = sum(isinstance(door.check(record, T0), Accepted) for record in observations(name))
    assert door.total() == Counter(accepted=n)
    assert n > 70_000


@pytest.mark.data
@needs("beijing_air_quality.parquet")
@pytest.mark.parametrize("target", ["PM2.5", "TEMP,O3,WSPM"])
def test_beijing_passes_whole(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMGP_DATA", str(DATA))
    door = Door(DoorSettings(outputs=target.count(",") + 1))
    for record in observations("beijing-air", target=target, limit=60_000):
        door.check(record, T0)
    assert door.total() == Counter(accepted=60_000)


def test_a_record_that_passes_untouched_is_the_same_object() -> None:
    record = obs(T0, 1.0, x={"a": 1.0, "b": None})
    assert accepted(Door(), record) is record


def test_sentinels_flags_and_true_extremes() -> None:
    """C04, R68."""
    values = np.random.default_rng(0).normal(20.0, 1.0, size=99).tolist()
    rows = [(value, 1.0) for value in values]
    rows[40:40] = [(-9999.0, 1.0), (-999.0, 1.0), (0.0, -1.0), (-25.0, 1.0)]
    door = Door(DoorSettings(sentinels=(-9999.0, -999.0), flag="valid", shift_ranges=None))
    kept = [
        outcome.observation.y
        for i, (y, valid) in enumerate(rows)
        if isinstance(outcome := door.check(obs(T0 + i * MIN, y, x={"valid": valid}), T0 + DAY), Accepted)
    ]
    assert door.counts["A"] == Counter({"accepted": 100, "sentinel": 2, "invalid flag": 1})
    assert -25.0 in kept
    kept.remove(-25.0)
    assert abs(statistics.mean(kept) - 20) < 0.2
    assert abs(statistics.stdev(kept) - 1) < 0.2


def test_sentinels_of_one_station_are_counted_there_and_bind_nobody_else() -> None:
    """R69: also after single precision, and in x."""
    door = Door(DoorSettings(station_sentinels={"A": (999.9, 1999.9)}))
    through_float32 = float(np.float32(999.9))
    assert reasons(door, [obs(T0, 999.9), obs(T0 + 1, 1999.9), obs(T0 + 2, through_float32)]) == [
        "sentinel 999.9",
        "sentinel 1999.9",
        "sentinel 999.9",
    ]
    assert reasons(door, [obs(T0, 999.9, station="B")]) == [None]
    got = accepted(door, obs(T0 + 3, 5.0, x={"p": 1999.9, "q": 1.0, "r": None}))
    assert got.x == {"p": None, "q": 1.0, "r": None}
    assert door.counts["A"] == Counter({"sentinel": 3, "accepted": 1, "x.p": 1})


@pytest.mark.parametrize(
    ("record", "reason", "field"),
    [
        (obs(T0, math.nan), "not finite", "y"),
        (obs(T0, -math.inf), "not finite", "y"),
        (obs(T0, 10**400), "not finite", "y"),
        (obs(T0, True), "wrong type", "y"),
        (obs(T0, "5"), "wrong type", "y"),
        (obs(T0, None), "wrong type", "y"),
        (obs(T0, (1.0, 2.0)), "wrong dimension", "y"),
        (obs(T0, 1.0, x={"a": math.nan}), "not finite", "x.a"),
        (obs(T0, 1.0, x={"a": "1"}), "wrong type", "x.a"),
        (obs(T0, 101.0), "out of range", "y"),
        (obs(45_147_364_669_817, 1.0), "implausible time", "time_ms"),
        (obs(-(10**15), 1.0), "implausible time", "time_ms"),
        (obs(float(T0), 1.0), "wrong type", "time_ms"),
    ],
)
def test_each_fault_has_its_name_and_place(record: Observation, reason: str, field: str) -> None:
    outcome = Door(DoorSettings(y_range=(0.0, 100.0))).check(record, T0)
    assert isinstance(outcome, Refused)
    assert (outcome.reason, outcome.field) == (reason, field)


@pytest.mark.parametrize("y", [7, np.float32(7), np.int64(7), np.float64(7)])
def test_numbers_of_other_types_become_floats(y: object) -> None:
    """R46."""
    got = accepted(Door(), obs(T0, y)).y
    assert type(got) is float
    assert got == 7.0


def test_an_impossible_x_is_missing_and_leaves_the_reading() -> None:
    door = Door(DoorSettings(x_ranges={"humidity": (0.0, 100.0)}))
    assert accepted(door, obs(T0, 1.0, x={"humidity": 130.0, "other": 130.0})).x == {
        "humidity": None,
        "other": 130.0,
    }


def test_of_several_outputs_the_good_ones_pass() -> None:
    door = Door(DoorSettings(outputs=3, y_range=(-50.0, 50.0)))
    assert accepted(door, obs(T0, (1.0, -9999.0, 99.0))).y == (1.0, None, None)
    assert reasons(
        door, [obs(T0 + 1, (None, None, -9999.0)), obs(T0 + 2, (None, None, None)), obs(T0 + 3, (1.0, 2.0))]
    ) == ["sentinel -9999", "missing", "wrong dimension 2 for 3"]
    assert reasons(door, [obs(T0 + 4, (1.0, math.nan, 2.0)), obs(T0 + 5, 1.0)]) == [
        "not finite nan",
        "wrong dimension 1 for 3",
    ]


def test_a_clock_ahead_is_quarantined_alone_and_let_in_again() -> None:
    """C08, R28: lateness bound 1 min; B is a day ahead at 10:02, right again at 10:03."""
    door = Door(DoorSettings(max_late_s=60.0))
    for minute in range(11):
        now = T0 + minute * MIN
        assert isinstance(door.check(obs(now, 20.0 + minute), now), Accepted)
        if minute == 2:
            ahead = door.check(obs(now + DAY, 5.0, station="B"), now)
            assert isinstance(ahead, Refused)
            assert (ahead.reason, ahead.text) == ("clock ahead", "clock ahead by 24 h")
        if minute == 3:
            assert isinstance(door.check(obs(now, 5.0, station="B"), now), Accepted)
    assert door.counts["A"] == Counter(accepted=11)
    assert door.counts["B"] == Counter({"clock ahead": 1, "accepted": 1})


def test_history_has_no_clock_to_be_behind() -> None:
    assert reasons(Door(), [obs(-283_996_800_000, 1.0)], now_ms=T0) == [None]


def test_one_leap_ahead_in_history_silences_the_station_for_three_records_only() -> None:
    """R28, where no clock can tell: a replayed row is stamped a month late, the rest goes on."""
    door = Door()
    times = [*range(0, 20 * HOUR, HOUR), 30 * DAY, *range(20 * HOUR, 26 * HOUR, HOUR)]
    got = reasons(door, [obs(T0 + t, float(i)) for i, t in enumerate(times)], now_ms=T0 + 400 * DAY)
    assert got[:21] == [None] * 21
    assert [text and text.split(" by ")[0] for text in got[21:]] == ["late", "late", None, None, None, None]


def test_a_late_row_changes_nothing() -> None:
    """R21: one row 30 days late among good ones."""
    door, twin = Door(), Door()
    good = [obs(T0 + i * HOUR, 20.0 + (i * 7) % 5) for i in range(50)]
    late = obs(T0 - 30 * DAY, 99.0)
    assert reasons(twin, good) == [None] * 50
    assert reasons(door, [*good[:30], late, *good[30:]])[30] == "late by 31 d"
    mine, other = door.state()["stations"]["A"], twin.state()["stations"]["A"]
    assert mine["levels"] == other["levels"]
    assert mine["arrivals"]["newest_ms"] == other["arrivals"]["newest_ms"]
    assert door.counts["A"] == Counter({"accepted": 50, "late": 1})


def test_duplicates_are_refused_also_within_the_lateness_bound() -> None:
    door = Door(DoorSettings(max_late_s=600.0))
    times = [0, 1, 2, 1, 2, 5, 3, 3, 4, 15, 2]
    got = reasons(door, [obs(T0 + t * MIN, float(i)) for i, t in enumerate(times)])
    assert got == [
        None,
        None,
        None,
        "duplicate",
        "duplicate",
        None,
        None,
        "duplicate",
        None,
        None,
        "late by 13 min",
    ]


def test_a_burst_stamped_at_delivery_is_not_learned_as_simultaneous() -> None:
    """R77: five-minute readings, an hour of silence, then twelve in one second stamped with their arrival."""
    door = Door()
    for i in range(20):
        assert isinstance(door.check(obs(T0 + 5 * i * MIN, 20.0 + i % 3), T0 + 5 * i * MIN), Accepted)
    back = T0 + 20 * 5 * MIN + HOUR
    got = [door.check(obs(back + 80 * i, 20.0 + i % 3), back + 80 * i) for i in range(12)]
    assert [type(outcome) for outcome in got] == [Accepted] + [Refused] * 11
    assert door.counts["A"]["arrival-timed"] == 11
    # The same backlog with the times of measurement passes whole, however fast it is delivered.
    right = Door()
    for i in range(20):
        right.check(obs(T0 + 5 * i * MIN, 20.0 + i % 3), T0 + 5 * i * MIN)
    assert reasons(right, [obs(T0 + (100 + 5 * i) * MIN, 20.0 + i % 3) for i in range(12)], now_ms=back) == [None] * 12


def _eighteen() -> list[float]:
    return np.random.default_rng(11).normal(18.0, 0.5, size=50).tolist()


def test_a_change_of_unit_that_is_told_is_converted() -> None:
    """C11 (a), R75."""
    door = Door()
    for i, y in enumerate(_eighteen()):
        accepted(door, obs(T0 + i * MIN, y, unit="°C"))
    got = [accepted(door, obs(T0 + (50 + i) * MIN, y, unit="F")) for i, y in enumerate((64.4, 64.6, 64.3))]
    assert [round(o.y, 1) for o in got if isinstance(o.y, float)] == [18.0, 18.1, 17.9]
    assert {o.unit for o in got} == {"C"}
    assert reasons(door, [obs(T0 + HOUR, 1.0, unit="furlong"), obs(T0 + HOUR, 5.0, unit="m/s")]) == [
        "unknown unit furlong for C",
        "unknown unit m/s for C",
    ]


def test_a_change_of_unit_without_a_word_is_not_learned() -> None:
    """C11 (b), R75: alarm at the first reading; believed when confirmed, or when it stays."""
    records = [obs(T0 + i * MIN, y) for i, y in enumerate(_eighteen())]
    shifted = [obs(T0 + (50 + i) * MIN, 64.4 + 0.1 * (i % 3)) for i in range(40)]
    door = Door()
    assert reasons(door, records) == [None] * 50
    assert {text[:16] for text in reasons(door, shifted[:5]) if text} == {"level/unit shift"}
    assert door.counts["A"]["level/unit shift"] == 5
    door.confirm("A")
    assert reasons(door, shifted[5:]) == [None] * 35
    waiting = Door()
    reasons(waiting, records)
    got = [text is None for text in reasons(waiting, shifted)]
    assert got == [False] * 24 + [True] * 16


def test_spikes_do_not_become_a_level_and_return_is_believed() -> None:
    door = Door()
    reasons(door, [obs(T0 + i * MIN, y) for i, y in enumerate(_eighteen())])
    mixed = [obs(T0 + (50 + i) * MIN, 64.4 if i % 2 else 18.2 + 0.01 * i) for i in range(100)]
    got = [text is None for text in reasons(door, mixed)]
    assert got == [i % 2 == 0 for i in range(100)]


def test_a_stuck_sensor_is_refused_after_its_run_and_zeros_are_not_stuck() -> None:
    door = Door(DoorSettings(max_equal_run=10))
    values = [1.0, *[7.5] * 15, 8.0, *[7.5] * 3, *[0.0] * 50]
    got = [text and text.split()[0] for text in reasons(door, [obs(T0 + i * MIN, y) for i, y in enumerate(values)])]
    assert got == [None] * 11 + ["stuck"] * 5 + [None] * 54


def test_strangers_cannot_fill_the_memory() -> None:
    door = Door(DoorSettings(max_stations=3))
    for i in range(50):
        door.check(obs(T0, 1.0, station=f"s{i}"), T0)
    assert door.total() == Counter({"accepted": 3, "too many stations": 47})
    assert len(door.counts) == 4
    mine = Door(DoorSettings(stations=("A",)))
    assert reasons(mine, [obs(T0, 1.0, station="B"), obs(T0, 1.0)]) == ["foreign station B", None]


def test_a_door_goes_on_from_its_state() -> None:
    rng = np.random.default_rng(5)
    settings = DoorSettings(max_late_s=180.0, max_equal_run=5, shift_after=5)
    records = [
        obs(T0 + int(t) * MIN, float(y), station=str(s), unit="C")
        for t, y, s in zip(
            np.arange(400) + rng.integers(-5, 3, 400),
            np.where(rng.random(400) < 0.05, 500.0, rng.integers(18, 22, 400)),
            rng.choice(["A", "B"], 400),
            strict=True,
        )
    ]
    whole = Door(settings)
    expected = [whole.check(record, T0 + DAY) for record in records]
    first = Door(settings)
    got = [first.check(record, T0 + DAY) for record in records[:217]]
    carried = json.loads(json.dumps(first.state(), allow_nan=False))
    second = Door.from_state(carried, settings)
    got += [second.check(record, T0 + DAY) for record in records[217:]]
    assert got == expected
    assert second.state() == whole.state()
    assert len(whole.total()) >= 4
    with pytest.raises(CheckpointError, match="version"):
        Door.from_state({**carried, "v": 2}, settings)
    with pytest.raises(CheckpointError, match="outputs"):
        Door.from_state(carried, DoorSettings(outputs=2))


@given(
    origin=st.sampled_from([0, 1_704_067_200_000, -283_996_800_000]),
    steps=st.lists(st.integers(1, 40 * DAY), min_size=1, max_size=60),
    late_s=st.sampled_from([0.0, 60.0, 86_400.0]),
)
def test_in_order_data_are_never_late_whatever_the_origin(origin: int, steps: list[int], late_s: float) -> None:
    """R24: origin 1970, 2024 or 1961 gives the same outcomes; nothing in order is dropped."""
    door = Door(DoorSettings(max_late_s=late_s))
    times = (origin + np.cumsum(steps)).tolist()
    kept = [t for t in times if t < 4_000_000_000_000]
    assert reasons(door, [obs(t, float(i)) for i, t in enumerate(kept)], now_ms=4_100_000_000_000) == [None] * len(kept)


@given(
    times=st.lists(st.integers(0, 50), min_size=1, max_size=80),
    values=st.lists(st.floats(-60, 60), min_size=80, max_size=80),
    late_min=st.integers(0, 10),
)
def test_nothing_is_accepted_twice_or_beyond_the_bound(times: list[int], values: list[float], late_min: int) -> None:
    door = Door(DoorSettings(max_late_s=60.0 * late_min, step_back_after=0))
    passed: list[int] = []
    for t, y in zip(times, values, strict=False):
        if isinstance(door.check(obs(T0 + t * MIN, y), T0 + DAY), Accepted):
            assert t not in passed
            assert not passed or t >= max(passed) - late_min
            passed.append(t)
    assert passed[0] == times[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"y_range": (5.0, 5.0)},
        {"x_ranges": {"a": (1.0, 0.0)}},
        {"outputs": 0},
        {"max_late_s": -1.0},
        {"max_equal_run": 0},
        {"shift_ranges": 0.0},
    ],
)
def test_settings_that_contradict_themselves_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        DoorSettings(**wrong)
