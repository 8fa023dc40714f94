"""The scale of a station's values: running mean and standard deviation, as river computes them."""

from __future__ import annotations

import math
from typing import final

from river import stats
from typing_extensions import Self

from streamgp.errors import CheckpointError
from streamgp.models.contract import State

VERSION = 1
# A spread below this share of the mean is what rounding makes of a constant.
_CONSTANT = 1e-12
#: values from here on have squares that are no numbers
LARGEST = 1e150


@final
class RunningScale:
    """Mean and standard deviation (population form) of all values so far.

    A constant, or a single value, has the standard deviation 1: standardised it is 0 and stays finite.

    Examples
    --------
    >>> scale = RunningScale()
    >>> for y in (1.0, 2.0, 3.0, 6.0):
    ...     scale.update(y)
    >>> scale.mean, round(scale.std, 4)
    (3.0, 1.8708)
    >>> scale.restore(scale.standardise(6.0))
    6.0
    """

    __slots__ = ("_origin", "_var")

    def __init__(self) -> None:
        # Everything is counted from the first value, so that a small spread far from zero keeps its digits.
        self._origin = 0.0
        self._var = stats.Var(ddof=0)

    def update(self, value: float) -> None:
        """Take in a value.

        Raises
        ------
        ValueError
            If it is not finite, or so large that its square is not; nothing has changed then.
        """
        if not abs(value) < LARGEST:
            raise ValueError(f"a value must be finite and below {LARGEST:g}, got {value}")
        if self._var.n == 0:
            self._origin = float(value)
        self._var.update(value - self._origin)

    @property
    def count(self) -> int:
        return int(self._var.n)

    @property
    def mean(self) -> float:
        return self._origin + float(self._var.mean.get())

    @property
    def std(self) -> float:
        """Standard deviation, or 1 where there is none."""
        std = math.sqrt(max(self._var.get(), 0.0))
        return std if std > _CONSTANT * abs(self.mean) else 1.0

    def standardise(self, value: float) -> float:
        return ((value - self._origin) - float(self._var.mean.get())) / self.std

    def restore(self, value: float) -> float:
        return self._origin + (float(self._var.mean.get()) + self.std * value)

    def state(self) -> State:
        """All of it, as numbers."""
        return {
            "version": VERSION,
            "origin": self._origin,
            "count": self._var.mean.n,
            "mean": self._var.mean.get(),
            "squares": self._var._S,
        }

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The twin that ``state`` describes, to the bit.

        Raises
        ------
        CheckpointError
            If the state is of another version, or damaged.
        """
        if state.get("version") != VERSION:
            raise CheckpointError(f"scale: version {state.get('version')!r}, this release reads {VERSION}")
        new = cls()
        try:
            new._origin = float(state["origin"])
            new._var.mean.n = float(state["count"])
            new._var.mean._mean = float(state["mean"])
            new._var._S = float(state["squares"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"scale: damaged state ({error})") from error
        return new
