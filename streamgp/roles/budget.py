"""How much of a backlog one drain works on: about a tenth of a second, whatever a step costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from typing_extensions import Self

FIRST, FEWEST, MOST = 16, 4, 512
#: a round that took less is made longer, one that took more is cut to what would have taken about so long
SHORT_S, LONG_S, AIM_S = 0.06, 0.2, 0.1


@final
class Budget:
    """A number of steps that follows what they cost, by the caller's clock; results do not depend on it.

    Fast models are not held up by reading and telling between few steps, and slow ones leave room for a stop in time.
    The steps to come may be a thousand times dearer than those before (a model's first full rows): hence few at first,
    and never many more than one look at the input brings.

    Examples
    --------
    >>> budget = Budget()
    >>> budget.batches(0.0)
    16
    >>> budget.spent(0.0)
    >>> budget.batches(0.01)
    32
    >>> budget.spent(0.01)
    >>> budget.batches(0.41)
    8
    """

    def __init__(self) -> None:
        self._batches = FIRST
        self._spent_at_s: float | None = None

    def batches(self, now_s: float) -> int:
        """Steps for the drain that begins now."""
        if self._spent_at_s is not None:
            took_s, self._spent_at_s = now_s - self._spent_at_s, None
            if took_s < SHORT_S:
                self._batches = min(MOST, 2 * self._batches)
            elif took_s > LONG_S:
                self._batches = max(FEWEST, int(self._batches * AIM_S / took_s))
        return self._batches

    def spent(self, now_s: float) -> None:
        """The drain that began now used all its steps, and there may be more to do."""
        self._spent_at_s = now_s

    def state(self) -> list[Any]:
        """Plain values."""
        return [self._batches, self._spent_at_s]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Self:
        """The twin that ``state`` describes."""
        new = cls()
        new._batches, new._spent_at_s = state
        return new
