"""What the settings make of a station: the same beliefs in whatever unit its readings come."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from streamgp.errors import SettingsError
from streamgp.roles.local_models import load_model, make_model
from streamgp.roles.settings import AgentSettings, ModelKind, ModelSettings, Settings
from streamgp.roles.wiring import station_model

HOUR = 3_600_000


@pytest.mark.parametrize("kind", ["nearest", "cpoe"])
def test_forecasts_follow_the_units_of_the_readings(kind: ModelKind) -> None:
    """C29, R50: y and 1000 y + 5, tuning on: the mean maps the same way, the standard deviation a thousandfold."""
    rng = np.random.default_rng(3)
    y = np.sin(np.arange(160) / 7.0) + 0.2 * rng.normal(size=160)
    settings = Settings(model=ModelSettings(kind=kind, warm_up=60), agent=AgentSettings(step_ms=HOUR))
    beliefs = []
    for scale, shift in ((1.0, 0.0), (1000.0, 5.0)):
        station = station_model(settings)
        for i, value in enumerate((scale * y + shift).tolist()):
            station.observe(i * HOUR, {}, value)
        asked = station.ask(160 * HOUR)
        assert asked is not None
        row, mean, std = asked
        beliefs.append(station.answer(row[None]).rescaled(shift=mean, scale=std))
    one, other = beliefs
    assert other.mean[0] == pytest.approx(1000.0 * one.mean[0] + 5.0, rel=1e-3)
    assert np.sqrt(other.total[0]) == pytest.approx(1000.0 * np.sqrt(one.total[0]), rel=1e-3)


@pytest.mark.parametrize("kind", ["nearest", "cpoe"])
@pytest.mark.parametrize("value", [0.0, 12.5, 0.1])
def test_a_constant_reading_is_forecast_as_it_is(kind: ModelKind, value: float) -> None:
    """Past the warm-up, tuning on; a dry gauge, and one whose mean is not its value in binary."""
    settings = Settings(model=ModelSettings(kind=kind, warm_up=60), agent=AgentSettings(step_ms=HOUR))
    station = station_model(settings)
    for i in range(100):
        station.observe(i * HOUR, {}, value)
    asked = station.ask(100 * HOUR)
    assert asked is not None
    row, mean, std = asked
    belief = station.answer(row[None]).rescaled(shift=mean, scale=std)
    assert belief.mean[0] == pytest.approx(value, abs=1e-9)
    assert np.isfinite(belief.total[0])


@pytest.mark.parametrize("kind", get_args(ModelKind))
def test_a_state_of_another_kind_is_refused_by_the_names_of_both(kind: ModelKind) -> None:
    model = make_model(ModelSettings(kind=kind), fit=False)
    rng = np.random.default_rng(0)
    model.learn(rng.normal(size=(30, 2)), rng.normal(size=30))
    for other in get_args(ModelKind):
        if other == kind:
            assert load_model(kind, model.state()).learned == 30
            continue
        with pytest.raises(SettingsError, match=f"model.kind is {other}, .* of kind {kind}.*--fresh"):
            load_model(other, model.state())
