"""One output's level: noise and drift alarm nobody, a change of unit does, once, and until it is believed."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.roles.door import DoorSettings
from streamgp.roles.levels import SHIFT, Level, LevelRules

S = DoorSettings()
RULES = LevelRules(S.max_equal_run, S.shift_ranges, S.shift_after, S.shift_accept)


def alarms(values: np.ndarray) -> list[int]:
    level = Level()
    return [i for i, value in enumerate(values.tolist()) if level.judge(value, RULES, time_ms=i) is not None]


@pytest.mark.parametrize("seed", range(3))
def test_stable_noise_and_a_step_within_its_range_alarm_nobody(seed: int) -> None:
    """R40: 20,000 readings of N(0, 1), with a step of 2 sigma in the middle and without: such steps are the model's."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(20_000)
    assert alarms(noise) == []
    assert alarms(noise + 2.0 * (np.arange(20_000) >= 10_000)) == []


def test_a_change_of_unit_alarms_at_once_and_no_more_once_it_is_believed() -> None:
    """R40, C11: one run of alarms, from its first reading on; after ``shift_accept`` of them it is the level."""
    rng = np.random.default_rng(0)
    celsius = 18.0 + 0.5 * rng.standard_normal(20_000)
    values = np.where(np.arange(20_000) < 10_000, celsius, 32.0 + 1.8 * celsius)
    found = alarms(values)
    assert found == list(range(10_000, 10_000 + RULES.shift_accept))
    assert Level().judge(values[0], RULES, time_ms=0) != SHIFT
