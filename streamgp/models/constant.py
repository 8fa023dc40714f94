"""A model that believes the same everywhere: what a pipeline costs without any model work."""

from __future__ import annotations

from typing import final

import numpy as np
from river import stats
from typing_extensions import Self

from streamgp.errors import CheckpointError
from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.contract import State

VERSION = 1


@final
class ConstantModel:
    """A local model whose latent function is one unknown constant with prior N(0, prior_variance).

    Its answer is the exact posterior of that constant: the plainest local model there is.

    Parameters
    ----------
    noise_variance, prior_variance
        In squared units of y, positive.

    Examples
    --------
    >>> import numpy as np
    >>> model = ConstantModel(noise_variance=1.0, prior_variance=1.0)
    >>> model.learn(np.zeros((3, 2)), np.array([2.0, 4.0, 6.0]))
    >>> model.predict(np.ones((1, 2))).mean
    array([3.])
    """

    def __init__(self, noise_variance: float = 1.0, prior_variance: float = 1.0) -> None:
        if not (noise_variance > 0 and prior_variance > 0):
            raise ValueError("noise_variance and prior_variance must be positive")
        self._noise = float(noise_variance)
        self._prior = float(prior_variance)
        self._mean = stats.Mean()

    @property
    def learned(self) -> int:
        return int(self._mean.n)

    def learn(self, Z: Array, y: Array) -> None:
        if len(Z) != len(y):
            raise ValueError(f"Z {np.shape(Z)} and y {np.shape(y)} differ in rows")
        for value in y.tolist():
            self._mean.update(value)

    def predict(self, Z: Array) -> Gaussian:
        m = len(Z)
        gain = self._mean.n * self._prior / (self._mean.n * self._prior + self._noise)
        variance = self._prior * (1.0 - gain)
        return Gaussian(np.full(m, gain * self._mean.get()), np.full(m, variance), np.full(m, self._noise))

    def state(self) -> State:
        return {
            "version": VERSION,
            "count": self._mean.n,
            "mean": self._mean.get(),
            "noise_variance": self._noise,
            "prior_variance": self._prior,
        }

    @classmethod
    def from_state(cls, state: State) -> Self:
        if state.get("version") != VERSION:
            raise CheckpointError(f"constant model: version {state.get('version')!r}, this release reads {VERSION}")
        try:
            new = cls(float(state["noise_variance"]), float(state["prior_variance"]))
            new._mean.n, new._mean._mean = float(state["count"]), float(state["mean"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"constant model: damaged state ({error})") from error
        return new
