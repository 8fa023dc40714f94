"""What the door refused was not seen: it is judged anew when it comes again, and moves no clock."""

from __future__ import annotations

import json

import pytest

from streamgp.roles.door import Door, DoorSettings, Refused
from streamgp.wire.records import Observation

MIN, HOUR, DAY = 60_000, 3_600_000, 86_400_000
T0 = 1_709_287_200_000
#: 40 readings of 18.0 to 18.9: enough to know the level
USUAL = [18.0 + 0.1 * (i % 10) for i in range(40)]


def obs(minute: float, y: float | tuple[float, ...]) -> Observation:
    return Observation(station="A", time_ms=T0 + round(minute * MIN), y=y)


def reasons(door: Door, records: list[Observation], *, now_ms: int = T0 + 10 * DAY) -> list[str | None]:
    outcomes = [door.check(record, now_ms) for record in records]
    return [outcome.reason if isinstance(outcome, Refused) else None for outcome in outcomes]


def mended(door: Door, settings: DoorSettings) -> Door:
    """The door after a restart with other settings, from a snapshot that went through text."""
    return Door.from_state(json.loads(json.dumps(door.state(), allow_nan=False)), settings)


def usual(settings: DoorSettings | None = None) -> Door:
    door = Door(settings)
    assert reasons(door, [obs(i, y) for i, y in enumerate(USUAL)]) == [None] * 40
    return door


@pytest.mark.parametrize("late_s", [0.0, 600.0])
def test_a_shift_that_was_refused_is_learned_once_the_setting_is_mended(late_s: float) -> None:
    shifted = [obs(40, 500.0), obs(41, 501.0)]
    door = usual(DoorSettings(max_late_s=late_s))
    assert reasons(door, shifted) == ["level/unit shift"] * 2
    door = mended(door, DoorSettings(max_late_s=late_s, shift_ranges=100_000.0))
    again = "duplicate" if late_s else "late"
    assert reasons(door, [*shifted, *shifted]) == [None, None, again, "duplicate"]
    assert door.counts["A"]["accepted"] == 42


def test_rows_that_were_stuck_are_learned_once_the_setting_is_mended_and_no_more_than_it_says() -> None:
    equal = [obs(i, 7.0) for i in range(6)]
    door = Door(DoorSettings(max_equal_run=3))
    assert reasons(door, equal) == [None] * 3 + ["stuck"] * 3
    assert reasons(mended(door, DoorSettings()), equal[3:]) == [None] * 3
    assert reasons(mended(door, DoorSettings(max_equal_run=5)), equal[3:]) == [None, None, "stuck"]
    assert reasons(door, equal[3:]) == ["stuck"] * 3
    assert reasons(door, [obs(9, 8.0)]) == [None]


def test_behind_newer_readings_what_was_refused_is_late_unless_the_bound_lets_it_in() -> None:
    door = usual()
    assert reasons(door, [obs(40, 500.0), obs(41, 18.3)]) == ["level/unit shift", None]
    wide = DoorSettings(shift_ranges=None, max_late_s=600.0)
    assert reasons(mended(door, DoorSettings(shift_ranges=None)), [obs(40, 500.0)]) == ["late"]
    assert reasons(mended(door, wide), [obs(40, 500.0), obs(40, 500.0)]) == [None, "duplicate"]


def test_a_shifted_reading_sent_again_and_again_confirms_nothing() -> None:
    door = usual(DoorSettings(shift_accept=3))
    assert set(reasons(door, [obs(40, 500.0)] * 50)) == {"level/unit shift"}
    later = [obs(41 + i, 500.0 + i) for i in range(4)]
    assert reasons(door, later) == ["level/unit shift", "level/unit shift", None, None]


def test_a_fault_value_that_repeats_is_stuck_and_never_a_level() -> None:
    door = usual(DoorSettings(max_equal_run=10))
    assert reasons(door, [obs(40 + i, 500.0) for i in range(60)]) == ["level/unit shift"] * 10 + ["stuck"] * 50


def test_rows_refused_for_their_values_leave_the_rules_of_the_clock() -> None:
    """A backlog stamped at delivery, and late rows behind a day of refused ones, are judged as ever."""
    door = usual()
    burst = [obs(99 + i / 1000, 500.0 + i) for i in range(6)]
    got = [reasons(door, [o], now_ms=o.time_ms)[0] for o in burst]
    assert got == ["level/unit shift"] + ["arrival-timed"] * 5
    stuck = Door(DoorSettings(max_equal_run=3))
    reasons(stuck, [obs(i, float(i)) for i in range(20)])
    assert set(reasons(stuck, [obs(20 + i, 5.0) for i in range(1_000)])[3:]) == {"stuck"}
    assert reasons(stuck, [obs(1_020, 9.0)]) == [None]
    assert reasons(stuck, [obs(500 + i, float(i)) for i in range(5)]) == ["late"] * 5


def test_a_leap_whose_value_is_refused_silences_nobody() -> None:
    door = usual()
    assert reasons(door, [obs(5 * 1440, 500.0)]) == ["level/unit shift"]
    assert reasons(door, [obs(40 + i, y) for i, y in enumerate(USUAL)]) == [None] * 40


def test_of_several_outputs_a_row_is_seen_once_one_is_believed() -> None:
    door = Door(DoorSettings(outputs=2))
    reasons(door, [obs(i, (y, y)) for i, y in enumerate(USUAL)])
    half, none = obs(40, (500.0, 18.1)), obs(41, (500.0, 600.0))
    assert reasons(door, [half, none, half, none]) == [None, "level/unit shift", "duplicate", "level/unit shift"]
    wide = DoorSettings(outputs=2, shift_ranges=None)
    assert reasons(mended(door, wide), [none, none]) == [None, "duplicate"]


def test_a_state_from_before_refused_rows_were_noted_is_read() -> None:
    door = usual()
    reasons(door, [obs(40, 500.0)])
    old = json.loads(json.dumps(door.state()))
    saved = old["stations"]["A"]
    saved["levels"] = [level[:8] for level in saved["levels"]]
    assert saved["arrivals"].pop("noted_ms") == T0 + 40 * MIN
    assert reasons(Door.from_state(old), [obs(40, 500.0), obs(41, 18.0)]) == ["level/unit shift", None]
