"""What a station learns with is the estimator, to the bit, in what it answers and in what it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from streamgp.errors import CheckpointError
from streamgp.models.checks import state_bytes, stream
from streamgp.models.contract import State
from streamgp.models.local import EstimatorModel
from streamgp.models.nearest import NearestNeighborGP
from streamgp.models.nearest_stream import NearestParameters, NearestStream

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "seeded": {"random_state": 7, "n_neighbors": 5, "max_points": 60},
    "fixed": {"optimizer": None, "noise_variance": 0.0},
    "kernel": {"kernel": RBF(0.5) + WhiteKernel(0.05), "n_neighbors": 4},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_it_answers_and_keeps_what_the_estimator_does(name: str) -> None:
    """Learned row by row with merging, as an agent does; a twin of either goes on the same."""
    Z, y = stream(3, 90, seed=4)
    one = EstimatorModel(NearestNeighborGP(**VARIANTS[name]))
    two = EstimatorModel(NearestStream(NearestParameters(**VARIANTS[name])))
    _same(one, two, Z)
    for i in range(70):
        one.learn(Z[i : i + 1], y[i : i + 1])
        two.learn(Z[i : i + 1], y[i : i + 1])
    _same(one, two, Z)
    twin = EstimatorModel.from_state(one.state())
    for model in (one, two, twin):
        model.learn(Z[70:], y[70:])
    _same(one, two, Z)
    _same(one, twin, Z)
    estimator = NearestNeighborGP.from_state(two.state()["inner"])
    assert estimator.belief(Z).mean.tobytes() == two.predict(Z).mean.tobytes()
    assert estimator.predict(Z).shape == (90,)


def _same(one: EstimatorModel, two: EstimatorModel, Z: Any) -> None:
    a, b = one.predict(Z), two.predict(Z)
    for part in ("mean", "variance", "noise_variance"):
        assert getattr(a, part).tobytes() == getattr(b, part).tobytes()
    assert _plain(one.state()) == _plain(two.state())
    assert state_bytes(one.state()) == state_bytes(two.state())


def _plain(state: State) -> dict[str, Any]:
    return {
        k: _plain(v) if isinstance(v, dict) else (v.dtype.str, v.tobytes()) if isinstance(v, np.ndarray) else v
        for k, v in state.items()
    }


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be at least 1"),
        ({"n_neighbors": True}, "n_neighbors must be a whole number"),
        ({"max_points": 0}, "max_points must be"),
        ({"noise_variance": float("nan")}, "noise_variance must be a finite number"),
        ({"optimizer": "adam"}, "optimizer must be"),
    ],
)
def test_parameters_that_cannot_be_are_named(wrong: dict[str, Any], says: str) -> None:
    model = NearestStream(NearestParameters(**wrong))
    with pytest.raises(ValueError, match=says):
        model.learn_rows(np.zeros((1, 1)), np.zeros(1))


def test_a_share_that_cannot_be_and_a_damaged_state_are_refused() -> None:
    model = NearestStream(NearestParameters())
    with pytest.raises(ValueError, match="share"):
        model.merge_rows(1.0)
    with pytest.raises(CheckpointError, match="damaged"):
        NearestStream.from_state({**model.state(), "merge": 2.0})
