"""The nearest-neighbour GP as a station's local model passes the battery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from streamgp.errors import CheckpointError
from streamgp.models.checks import check_bounded_memory, check_local_model
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
