"""The hierarchical GP as a station's local model: the battery, the batch's equal, and on a training's global layer."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.errors import CheckpointError
from streamgp.gp.hierarchy.blocks import Layout
from streamgp.gp.hierarchy.data import client_data
from streamgp.gp.hierarchy.layers import design
from streamgp.gp.hierarchy.shared_step import SharedState, first_state
from streamgp.gp.hierarchy.total import total_bound
from streamgp.models.checks import check_bounded_memory, check_local_model, stream
from streamgp.models.features import FeatureSettings
from streamgp.models.hgp.fit import Plan
from streamgp.models.hgp.globals import GlobalModel
from streamgp.models.hgp.jointly import fit_jointly
from streamgp.models.hgp.posterior import client_posterior
from streamgp.models.hgp.start import Units
from streamgp.models.hierarchical_model import HierarchicalModel
from streamgp.models.station import StationModel

LAYOUT = Layout(1, 1, 1, 1)
UNITS = Units(np.zeros(2), np.full(2, 6.0), 1.0)


def curve(Z: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(2.0 * Z[:, 0]) + Z[:, 1])


@pytest.fixture(scope="module")
def trained() -> GlobalModel:
    """The global layer of three stations that share a curve and differ by a shift."""
    rng = np.random.default_rng(0)
    plan = Plan(LAYOUT, "structured", 20, 8, 8, 1, 60)
    data = []
    for shift in (0.3, 0.0, -0.3):
        Z = rng.uniform(-2.0, 2.0, (80, 2))
        y = curve(Z) + shift + 0.1 * rng.standard_normal(80)
        data.append(client_data(UNITS.inputs(Z), y[:, None]))
    found = fit_jointly(data, plan, rng)
    q = total_bound(data, found.shared, found.owns, LAYOUT, factors="structured", gradient=False).q
    fresh = first_state(found.shared, LAYOUT)
    state = SharedState(fresh.block, q.mean, np.linalg.inv(q.cov), fresh.first, fresh.second, 15)
    return GlobalModel("r", 15, LAYOUT, "structured", 8, 5, UNITS, state)


def test_the_battery() -> None:
    """R37, R55, C44: batches, purity, replay and snapshots, with a fit in the stream, or with a forgetting."""
    check_local_model(lambda: HierarchicalModel(n_global=4, n_local=2), rows=51)
    check_local_model(lambda: HierarchicalModel(n_global=8, n_local=4, max_points=100, fit=False), rows=104)


def test_memory_is_bounded() -> None:
    """R42: more observations than ``max_points`` take no more room."""
    check_bounded_memory(lambda: HierarchicalModel(n_global=8, n_local=4, max_points=100, fit=False), bound=100)


def test_the_battery_holds_on_a_global_layer(trained: GlobalModel) -> None:
    def make() -> HierarchicalModel:
        model = HierarchicalModel(fit=False)
        assert model.adopt(trained)
        return model

    check_local_model(make, rows=40)


def test_row_by_row_is_the_posterior_of_the_batch(trained: GlobalModel) -> None:
    """R41: the sums of single rows give the belief that a client's fit gives on all of them at once."""
    Z, y = stream(2, 90, 1)
    model = HierarchicalModel(fit=False)
    model.adopt(trained)
    for i in range(90):
        model.learn(Z[i : i + 1], y[i : i + 1])
    own, shared = model.state()["own"], trained.state.block
    d = design(client_data(UNITS.inputs(Z), y[:, None]), shared, own, LAYOUT)
    twin = client_posterior(d, trained.state.q, shared=shared, own=own, layout=LAYOUT, factors="structured")
    mean, cov = twin.predict(UNITS.inputs(Z), latent=True)
    belief = model.predict(Z)
    np.testing.assert_allclose(belief.mean, mean[:, 0], atol=1e-8)
    np.testing.assert_allclose(belief.variance, cov[:, 0, 0], atol=1e-8)


def test_a_station_with_few_rows_forecasts_with_what_the_others_know(trained: GlobalModel) -> None:
    rng = np.random.default_rng(3)
    Z = rng.uniform(-2.0, 2.0, (12, 2))
    y = curve(Z) + 0.2 + 0.1 * rng.standard_normal(12)
    test = rng.uniform(-2.0, 2.0, (200, 2))
    alone, helped = HierarchicalModel(), HierarchicalModel()
    assert helped.adopt(trained)
    errors = []
    for model in (alone, helped):
        model.learn(Z, y)
        errors.append(float(np.sqrt(np.mean((model.predict(test).mean - curve(test) - 0.2) ** 2))))
    assert errors[1] < 0.2 < errors[0]
    assert (alone.follows, helped.follows) == (None, ("r", 15))


def test_a_layer_of_other_rows_changes_nothing(trained: GlobalModel) -> None:
    Z, y = stream(3, 20, 0)
    model = HierarchicalModel()
    model.learn(Z, y)
    before = model.predict(Z)
    assert not model.adopt(trained)
    np.testing.assert_array_equal(model.predict(Z).mean, before.mean)
    with pytest.raises(ValueError, match="columns"):
        model.learn(Z[:, :2], y)
    several = GlobalModel("r", 1, Layout(2, 1, 1, 1), "joint", 8, 5, UNITS, trained.state)
    with pytest.raises(ValueError, match="2"):
        model.adopt(several)


def test_a_station_keeps_the_layer_over_warm_up_and_restart(trained: GlobalModel) -> None:
    """A layer that comes in the warm-up is there after it; a snapshot holds it, whenever it is made."""
    features = FeatureSettings(lags=(1, 2), averages=(), calendar=())

    def fresh() -> StationModel:
        return StationModel(
            features,
            make=lambda fit: HierarchicalModel(fit=fit, max_points=100),
            load=HierarchicalModel.from_state,
            warm_up=60,
            step_ms=1000,
        )

    station = fresh()
    assert station.adopt(trained)
    for t in range(70):
        station.observe(1000 * t, {}, float(np.sin(0.3 * t)))
        if t in (30, 66):
            twin = fresh()
            twin.restore(station.state())
            row = station.ask(1000 * (t + 1))
            assert row is not None
            for name in ("mean", "variance"):
                np.testing.assert_array_equal(
                    getattr(twin.answer(row[0][None]), name), getattr(station.answer(row[0][None]), name)
                )
            station = twin
    assert station.state()["model"]["global"]["run"] == "r"


def test_damaged_and_foreign_states_are_refused() -> None:
    """C46: another version, and a state whose arrays do not fit each other."""
    model = HierarchicalModel(n_global=4, n_local=4)
    model.learn(*stream(2, 10, 0))
    state = model.state()
    F, c = state["sums"]
    for wrong, says in (
        ({**state, "version": 9}, "version 9"),
        ({**state, "sums": [F[:-1], c]}, "damaged"),
        ({k: v for k, v in state.items() if k != "own"}, "damaged"),
    ):
        with pytest.raises(CheckpointError, match=says):
            HierarchicalModel.from_state(wrong)
    with pytest.raises(ValueError, match="max_points"):
        HierarchicalModel(max_points=10)
    with pytest.raises(ValueError, match="finite"):
        model.learn(np.full((1, 2), np.nan), np.zeros(1))
