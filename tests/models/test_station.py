"""A station without any network: warm-up, scale, rows, and a state that goes on to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.errors import CheckpointError
from streamgp.models.constant import ConstantModel
from streamgp.models.features import FeatureMap, FeatureSettings
from streamgp.models.station import StationModel

HOUR = 3_600_000


class Recorder:
    """A constant model that remembers what it was taught."""

    def __init__(self, fit: bool) -> None:
        self.fit = fit
        self.rows: list[tuple[list[float], float]] = []
        self._inner = ConstantModel()

    @property
    def learned(self) -> int:
        return self._inner.learned

    def learn(self, Z, y):  # type: ignore[no-untyped-def]  # the protocol's own signature
        self.rows += [(z.tolist(), v) for z, v in zip(Z, y.tolist(), strict=True)]
        self._inner.learn(Z, y)

    def predict(self, Z):  # type: ignore[no-untyped-def]  # as above
        return self._inner.predict(Z)


def station_of(made: list[Recorder], **given: object) -> StationModel:
    def make(fit: bool) -> Recorder:
        made.append(Recorder(fit))
        return made[-1]

    features = FeatureSettings(lags=(1, 2), averages=(3,), calendar=("day",), x=("rain",))
    return StationModel(features, make=make, load=ConstantModel.from_state, **given)  # type: ignore[arg-type]


def series(n: int, seed: int = 5) -> list[tuple[int, dict[str, float | None], float]]:
    rng = np.random.default_rng(seed)
    return [(i * HOUR, {"rain": float(r)}, float(y)) for i, (r, y) in enumerate(rng.normal(20, 3, size=(n, 2)))]


def test_after_the_warm_up_the_model_was_taught_the_standardised_rows_once() -> None:
    made: list[Recorder] = []
    station, readings = station_of(made, warm_up=20), series(30)
    for reading in readings:
        station.observe(*reading)
    (taught,) = [m for m in made if m.fit]
    early = np.array([y for _, _, y in readings[:20]])
    shift, scale = early.mean(), early.std()
    assert station.scale == (shift, scale)
    features, expected = FeatureMap(FeatureSettings(
        lags=(1, 2), averages=(3,), calendar=("day",), x=("rain",), cadence_ms=HOUR
    )), []  # fmt: skip
    for time_ms, x, y in readings:
        row = features.row(time_ms, x, shift=shift, scale=scale)
        if row is not None:
            expected.append((row.tolist(), (y - shift) / scale))
        features.observe(time_ms, x, y)
    assert taught.rows == expected
    assert station.learned == len(expected) == 27


def test_before_any_reading_there_is_a_prior_and_no_row() -> None:
    station = station_of([])
    assert station.ask(0) is None
    assert station.step_ms is None
    assert station.learned == 0
    assert station.answer(np.zeros((2, station.width))).mean.tolist() == [0.0, 0.0]


def test_the_cadence_is_the_most_common_difference() -> None:
    station = station_of([], warm_up=50)
    for time_ms in (0, 3 * HOUR, 4 * HOUR, 5 * HOUR, 9 * HOUR, 10 * HOUR):
        station.observe(time_ms, {}, 1.0)
    assert station.step_ms == HOUR
    assert station_of([], step_ms=123).step_ms == 123


@pytest.mark.parametrize("when", [5, 25], ids=["in the warm-up", "after it"])
def test_a_reading_that_cannot_be_learned_changes_nothing(when: int) -> None:
    station, readings = station_of([], warm_up=20), series(30)
    for reading in readings[:when]:
        station.observe(*reading)
    before = station.learned, station.last_ms, station.scale
    with pytest.raises(ValueError, match="finite"):
        station.observe(when * HOUR, {}, float("nan"))
    with pytest.raises(ValueError, match="does not follow"):
        station.observe(0, {}, 1.0)
    assert (station.learned, station.last_ms, station.scale) == before


@pytest.mark.parametrize("when", [0, 1, 7, 19, 20, 26])
def test_a_twin_made_from_the_state_goes_on_to_the_bit(when: int) -> None:
    def fresh() -> StationModel:
        features = FeatureSettings(lags=(1, 2), averages=(3,), calendar=("day",), x=("rain",))
        return StationModel(features, make=lambda fit: ConstantModel(), load=ConstantModel.from_state, warm_up=20)

    one, readings = fresh(), series(40)
    for reading in readings[:when]:
        one.observe(*reading)
    two = fresh()
    two.restore(one.state())
    for reading in readings[when:]:
        one.observe(*reading)
        two.observe(*reading)
        asked = one.ask(reading[0] + HOUR), two.ask(reading[0] + HOUR)
        assert (asked[0] is None) == (asked[1] is None)
        if asked[0] is not None and asked[1] is not None:
            assert asked[0][0].tolist() == asked[1][0].tolist()
            answers = one.answer(asked[0][0][None]), two.answer(asked[1][0][None])
            assert answers[0].mean.tolist() == answers[1].mean.tolist()
            assert answers[0].variance.tolist() == answers[1].variance.tolist()
    assert one.scale == two.scale


def test_a_state_of_another_version_or_station_is_refused_by_name() -> None:
    station = station_of([])
    state = station.state()
    with pytest.raises(CheckpointError, match="version 99"):
        station.restore({**state, "version": 99})
    with pytest.raises(CheckpointError, match="damaged"):
        station.restore({"version": 1})
    other = StationModel(FeatureSettings(), make=lambda fit: ConstantModel(), load=ConstantModel.from_state)
    with pytest.raises(CheckpointError, match="rows"):
        station.restore(other.state())


@pytest.mark.parametrize("value", [5.0, 0.0, 1e9])
def test_a_constant_series_has_scale_one(value: float) -> None:
    station = station_of([], warm_up=5)
    for i in range(8):
        station.observe(i * HOUR, {}, value)
    assert station.scale == (value, 1.0)
