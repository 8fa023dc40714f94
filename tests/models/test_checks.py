"""The battery finds what it looks for: models that break one promise each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamgp.errors import CheckpointError
from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.checks import check_bounded_memory, check_local_model, state_bytes
from streamgp.models.constant import ConstantModel


class Wrapped:
    """A constant model with something wrong in it."""

    def __init__(self) -> None:
        self.inner = ConstantModel()

    @property
    def learned(self) -> int:
        return self.inner.learned

    def learn(self, Z: Array, y: Array) -> None:
        self.inner.learn(Z, y)

    def predict(self, Z: Array) -> Gaussian:
        return self.inner.predict(Z)

    def state(self) -> dict[str, Any]:
        return self.inner.state()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Any:
        new = cls()
        new.inner = ConstantModel.from_state(state)
        return new


class LearnsWhenAsked(Wrapped):
    def predict(self, Z: Array) -> Gaussian:
        answer = self.inner.predict(Z)
        self.inner.learn(Z, np.zeros(len(Z)))
        return answer


class ForgetsBatches(Wrapped):
    def learn(self, Z: Array, y: Array) -> None:
        self.inner.learn(Z[-1:], y[-1:])


class ForgetsOnReload(Wrapped):
    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Any:
        return cls()


class NoPrior(Wrapped):
    def predict(self, Z: Array) -> Gaussian:
        answer = self.inner.predict(Z)
        return answer if self.learned else Gaussian(answer.mean * np.nan, answer.variance, answer.noise_variance)


class ChangesInputs(Wrapped):
    def learn(self, Z: Array, y: Array) -> None:
        self.inner.learn(Z, y)
        y -= y.mean()


class ObjectsInState(Wrapped):
    def state(self) -> dict[str, Any]:
        return {**self.inner.state(), "self": self}


class Hoards(Wrapped):
    """Keeps every sample where the state does not show it."""

    def __init__(self) -> None:
        super().__init__()
        self.samples: list[Array] = []

    def learn(self, Z: Array, y: Array) -> None:
        super().learn(Z, y)
        self.samples.append(Z.copy())


def test_the_constant_model_passes() -> None:
    check_local_model(ConstantModel, exact=True)
    check_bounded_memory(ConstantModel, bound=50)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (LearnsWhenAsked, "counts|asked|differs"),
        (ForgetsBatches, "learned at once"),
        (ForgetsOnReload, "twin"),
        (NoPrior, "not finite"),
        (ChangesInputs, "in place"),
        (ObjectsInState, "state holds"),
    ],
)
def test_a_broken_promise_is_found(broken: Callable[[], Any], says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_local_model(broken)


def test_a_hoarder_is_found() -> None:
    with pytest.raises(AssertionError, match="object grew"):
        check_bounded_memory(Hoards, bound=200)


def test_constant_model_is_the_posterior_of_one_constant() -> None:
    model = ConstantModel(noise_variance=0.5, prior_variance=2.0)
    y = np.array([1.0, 2.0, 4.0])
    model.learn(np.zeros((3, 1)), y)
    answer = model.predict(np.zeros((2, 1)))
    precision = 1 / 2.0 + 3 / 0.5
    np.testing.assert_allclose(answer.variance, 1 / precision)
    np.testing.assert_allclose(answer.mean, y.sum() / 0.5 / precision)
    assert state_bytes(model.state()) < 200
    with pytest.raises(CheckpointError, match="version"):
        ConstantModel.from_state({**model.state(), "version": 2})
    with pytest.raises(ValueError, match="positive"):
        ConstantModel(noise_variance=0.0)
    with pytest.raises(ValueError, match="differ in rows"):
        model.learn(np.zeros((2, 1)), y)
