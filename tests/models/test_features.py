"""Rows of lags, averages, calendar and x; the running scale."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamgp.errors import CheckpointError, SettingsError
from streamgp.models.features import DAY_MS, FeatureMap, FeatureSettings
from streamgp.models.scaling import RunningScale
from tests.tolerances import REORDERED


def filled(settings: FeatureSettings, values: list[float]) -> FeatureMap:
    features = FeatureMap(settings)
    for day, y in enumerate(values):
        features.observe(day * settings.cadence_ms, {}, y)
    return features


def test_a_row_is_lags_averages_and_the_phase_of_the_target() -> None:
    settings = FeatureSettings(lags=(1, 3), averages=(4,), calendar=("year", "week"))
    features = filled(settings, [1.0, 2.0, 4.0, 9.0])
    row = features.row(4 * DAY_MS, shift=2.0, scale=0.5)
    assert row is not None
    assert features.columns == ("lag1", "lag3", "mean4", "year_sin", "year_cos", "week_sin", "week_cos")
    year, week = math.tau * 4 / 365.2425, math.tau * 4 / 7
    expected = [14.0, 0.0, 4.0, math.sin(year), math.cos(year), math.sin(week), math.cos(week)]
    np.testing.assert_allclose(row, expected, atol=REORDERED)


def test_no_row_before_the_lags_are_full() -> None:
    settings = FeatureSettings(lags=(1, 2), averages=(3,))
    assert filled(settings, [1.0, 2.0]).row(2 * DAY_MS) is None
    assert filled(settings, [1.0, 2.0, 3.0]).row(3 * DAY_MS) is not None


def test_a_missing_day_is_bridged_and_a_long_gap_empties_the_lags() -> None:
    settings = FeatureSettings(lags=(1, 2), averages=(), calendar=(), max_gap=2)
    features = filled(settings, [5.0, 6.0])
    np.testing.assert_array_equal(features.row(3 * DAY_MS), [6.0, 6.0])  # day 2 has not come
    assert features.row(5 * DAY_MS) is None
    features.observe(3 * DAY_MS, {}, 8.0)
    np.testing.assert_array_equal(features.row(4 * DAY_MS), [8.0, 6.0])
    features.observe(9 * DAY_MS, {}, 1.0)
    assert features.row(10 * DAY_MS) is None
    features.observe(10 * DAY_MS, {}, 2.0)
    np.testing.assert_array_equal(features.row(11 * DAY_MS), [2.0, 1.0])


def test_asking_changes_nothing() -> None:
    features = filled(FeatureSettings(lags=(1, 2), averages=()), [5.0, 6.0, 7.0])
    before = features.state()
    features.row(6 * DAY_MS, {"rain": 1.0})
    assert str(before) == str(features.state())


def test_x_is_standardised_by_name_and_a_missing_one_has_its_last_value() -> None:
    settings = FeatureSettings(lags=(1,), averages=(), calendar=(), x=("rain", "sun"))
    features = FeatureMap(settings)
    for day, rain in enumerate((1.0, None, 3.0, math.nan)):
        features.observe(day * DAY_MS, {"other": 7.0, "rain": rain}, 0.0)
    np.testing.assert_allclose(features.row(4 * DAY_MS), [0.0, 1.0, 0.0])
    np.testing.assert_allclose(features.row(4 * DAY_MS, {"rain": 2.0, "sun": None}), [0.0, 0.0, 0.0])


def test_a_refused_reading_changes_nothing() -> None:
    features = filled(FeatureSettings(lags=(1,), averages=()), [5.0])
    before = str(features.state())
    for time_ms, y in ((DAY_MS, math.nan), (DAY_MS, math.inf), (0, 1.0), (-1, 1.0)):
        with pytest.raises(ValueError, match=r"finite|follow"):
            features.observe(time_ms, {}, y)
    assert str(features.state()) == before


def test_calendar_follows_the_cadence() -> None:
    assert FeatureSettings(cadence_ms=DAY_MS).periods == ("year",)
    assert FeatureSettings(cadence_ms=3_600_000).periods == ("day", "year")


@pytest.mark.parametrize(
    "wrong",
    [
        {"lags": (0,)},
        {"lags": (1, 1)},
        {"averages": (0,)},
        {"calendar": ("moon",)},
        {"cadence_ms": 0},
        {"max_gap": -1},
        {"lags": (), "averages": (), "calendar": ()},
        {"x": ("lag1",)},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        FeatureSettings(**wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_state_goes_round_and_on() -> None:
    settings = FeatureSettings(lags=(1, 2), averages=(3,), x=("rain",))
    features = filled(settings, [0.1, 0.2, 0.7])
    features.observe(3 * DAY_MS, {"rain": 0.3}, 1.1)
    twin = FeatureMap.from_state(features.state())
    for each in (features, twin):
        each.observe(4 * DAY_MS, {"rain": 0.9}, -0.4)
    a, b = features.row(5 * DAY_MS, shift=0.3, scale=1.7), twin.row(5 * DAY_MS, shift=0.3, scale=1.7)
    np.testing.assert_array_equal(a, b)
    with pytest.raises(CheckpointError, match="version 99"):
        FeatureMap.from_state({**features.state(), "version": 99})
    with pytest.raises(CheckpointError, match="damaged"):
        FeatureMap.from_state({**features.state(), "values": ["x"]})


@pytest.mark.parametrize("values", [[3.0] * 5, [1e9 + 1e-3 * i for i in range(50)], [1e-9 * i for i in range(9)]])
def test_scale_of_constants_and_of_very_large_and_small_values(values: list[float]) -> None:
    scale = RunningScale()
    for y in values:
        scale.update(y)
    z = np.array([scale.standardise(y) for y in values])
    assert abs(z.mean()) < 1e-9
    assert len(set(values)) == 1 or z.std() == pytest.approx(1.0, abs=1e-6)
    assert scale.restore(scale.standardise(values[-1])) == pytest.approx(values[-1], rel=1e-15)
    twin = RunningScale.from_state(scale.state())
    for each in (scale, twin):
        each.update(2 * values[-1])
    assert (twin.mean, twin.std, twin.count) == (scale.mean, scale.std, scale.count)


def test_scale_refuses_what_has_no_place() -> None:
    scale = RunningScale()
    assert (scale.mean, scale.std) == (0.0, 1.0)
    for bad in (math.nan, math.inf, -math.inf, 1e200):
        with pytest.raises(ValueError, match="finite"):
            scale.update(bad)
    assert scale.count == 0
    with pytest.raises(CheckpointError, match="version"):
        RunningScale.from_state({})
    with pytest.raises(CheckpointError, match="damaged"):
        RunningScale.from_state({"version": 1, "count": 1})


@pytest.mark.parametrize("wild", [1e200, -1e150, math.inf, math.nan])
def test_an_input_that_has_no_square_counts_as_not_given(wild: float) -> None:
    """Nothing is half learned, and the last known value stands in."""
    features = FeatureMap(FeatureSettings(lags=(1,), averages=(), calendar=(), x=("rain",)))
    for day, rain in enumerate((1.0, 3.0)):
        features.observe(day * DAY_MS, {"rain": rain}, 5.0)
    features.observe(2 * DAY_MS, {"rain": wild}, 6.0)
    np.testing.assert_array_equal(features.row(3 * DAY_MS, {"rain": wild}), [6.0, 1.0])
