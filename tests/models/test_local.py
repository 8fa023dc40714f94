"""The nearest-neighbour GP as a station's local model passes the battery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from streamgp.errors import CheckpointError
from streamgp.models.checks import check_bounded_memory, check_local_model
from streamgp.models.experts import CPoERegressor
from streamgp.models.local import EstimatorModel
from streamgp.models.nearest import NearestNeighborGP

VARIANTS: dict[str, dict[str, Any]] = {
    "fixed": {"optimizer": None},
    "one_neighbour": {"n_neighbors": 1, "random_state": 0},
    "window": {"optimizer": None, "max_points": 40, "n_neighbors": 8},
    "kernel": {"kernel": RBF(0.5) + WhiteKernel(0.05), "n_neighbors": 12, "max_points": 40},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_battery(name: str) -> None:
    """C44, C46, R37, R55: batches, purity, replay and snapshots."""
    check_local_model(lambda: EstimatorModel(NearestNeighborGP(**VARIANTS[name])), rows=56, exact=True)


def test_memory_is_bounded() -> None:
    """R42: more observations than ``max_points`` take no more room."""
    check_bounded_memory(
        lambda: EstimatorModel(NearestNeighborGP(max_points=300, n_neighbors=8, optimizer=None)), bound=300
    )
    with pytest.raises(AssertionError, match="grew"):
        check_bounded_memory(lambda: EstimatorModel(NearestNeighborGP(optimizer=None)), bound=300)


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    model = EstimatorModel(NearestNeighborGP())
    for Z, y in (
        (np.zeros(3), np.zeros(3)),
        (np.zeros((3, 1)), np.zeros(2)),
        (np.full((1, 1), np.nan), np.zeros(1)),
        (np.zeros((1, 1)), np.array([np.inf])),
    ):
        with pytest.raises(ValueError, match=r"must be"):
            model.learn(Z, y)
    with pytest.raises(ValueError, match="must be"):
        model.predict(np.zeros(3))
    model.learn(np.zeros((0, 1)), np.zeros(0))
    assert model.learned == 0


def test_snapshots_of_another_kind_are_refused_by_name() -> None:
    """C46: unknown and newer formats."""
    model = EstimatorModel(NearestNeighborGP(n_neighbors=3))
    model.learn(np.arange(8.0)[:, None], np.arange(8.0))
    state = model.state()
    inner = state["inner"]
    for wrong, says in (
        ({**state, "version": 2}, "version 2"),
        ({**state, "estimator": "os.system"}, "unknown estimator 'os.system'"),
        ({**state, "inner": {**inner, "version": 2}}, "newer version 2"),
        ({**state, "inner": {**inner, "version": 0}}, "unknown version 0"),
        ({**state, "inner": {**inner, "model_theta": "x"}}, "damaged"),
        ({**state, "inner": {k: v for k, v in inner.items() if k != "model_places_rows"}}, "damaged"),
    ):
        with pytest.raises(CheckpointError, match=says):
            EstimatorModel.from_state(wrong)

    class Foreign:
        def state(self) -> dict[str, Any]:
            return {}

    with pytest.raises(CheckpointError, match="no snapshot can name"):
        EstimatorModel(Foreign()).state()  # type: ignore[arg-type]  # wrong on purpose


EXPERTS: dict[str, dict[str, Any]] = {
    "fixed": {"optimizer": None, "correlation": 3},
    "learned": {},
    "sparse": {"optimizer": None, "sparsity": 0.5},
}


@pytest.mark.parametrize("name", EXPERTS)
def test_correlated_experts_pass_the_battery(name: str) -> None:
    """C44, C46, R37, R55: with a limit of experts the numbers do not depend on what was asked, to the bit."""
    check_local_model(
        lambda: EstimatorModel(CPoERegressor(expert_size=12, max_experts=4, random_state=0, **EXPERTS[name])), rows=72
    )


def test_memory_of_correlated_experts_is_bounded() -> None:
    """R42: experts beyond ``max_experts`` are marginalised."""
    settings: dict[str, Any] = {"expert_size": 16, "optimizer": None, "random_state": 0}
    check_bounded_memory(lambda: EstimatorModel(CPoERegressor(max_experts=4, **settings)), bound=64)
    with pytest.raises(AssertionError, match="grew"):
        check_bounded_memory(lambda: EstimatorModel(CPoERegressor(**settings)), bound=64)


def test_noise_alone_does_not_end_without_a_signal_or_in_one_column() -> None:
    """A hundred noisy rows: length-scales stay within a factor of the data's own, the noise is found."""
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((150, 5))
    model = EstimatorModel(CPoERegressor(expert_size=64, max_experts=4, random_state=0))
    model.learn(Z, 0.3 * Z[:, 0] + rng.standard_normal(150))
    theta = model.estimator.kernel_.theta  # type: ignore[attr-defined]  # a CPoERegressor
    assert np.abs(theta[1:] - np.log(4 * np.sqrt(5))).max() < 4.0
    assert 0.5 < model.predict(Z[:1]).noise_variance[0] < 1.6
