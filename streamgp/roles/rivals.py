"""A station's own record of two forecasts of the same thing: which has been nearer to the truth lately."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, final

from streamgp.roles.plain import restoring

VERSION = 1
#: weight that a comparison keeps with every new one, and how many in all are too few
KEEP, LEAST = 0.996, 30
#: the most that one squared error counts
LARGEST = 25.0
#: readings and undecided comparisons remembered
REMEMBERED = 8192


@final
class Rivals:
    """Discounted squared errors of a challenger and of what it would replace, by lead time, as of an event time.

    What is known at an event time does not depend on whether the reading or the forecasts came first.

    Examples
    --------
    >>> rivals = Rivals()
    >>> for t in range(40):
    ...     rivals.noted(t, t + 1, usual=1.0, challenger=0.5, scale=1.0)
    ...     rivals.learned(t, 0.0)
    >>> rivals.challenger_is_better(20, 21), rivals.challenger_is_better(39, 40)
    (False, True)
    """

    def __init__(self) -> None:
        self._truths: OrderedDict[int, float] = OrderedDict()
        self._waiting: OrderedDict[tuple[int, int], tuple[float, float, float]] = OrderedDict()
        self._sums: dict[int, tuple[float, float, float]] = {}  # lead -> how many, squared errors of both

    def learned(self, time_ms: int, y: float) -> None:
        """A reading came."""
        self._truths[time_ms] = y
        if len(self._truths) > REMEMBERED:
            self._truths.popitem(last=False)

    def noted(self, time_ms: int, target_ms: int, *, usual: float, challenger: float, scale: float) -> None:
        """Both forecasts that were made at ``time_ms`` for ``target_ms``; errors are counted in units of ``scale``."""
        self._waiting[target_ms, target_ms - time_ms] = (usual, challenger, scale)
        if len(self._waiting) > REMEMBERED:
            self._waiting.popitem(last=False)

    def challenger_is_better(self, time_ms: int, target_ms: int) -> bool:
        """Whether the challenger has been no worse on this lead, by the readings up to ``time_ms``; False at first."""
        self._settle(time_ms)
        count, usual, challenger = self._sums.get(target_ms - time_ms, (0.0, 0.0, 0.0))
        return count >= LEAST and challenger <= usual

    def _settle(self, time_ms: int) -> None:
        due = sorted(key for key in self._waiting if key[0] <= time_ms)
        for target_ms, lead_ms in due:
            usual, challenger, scale = self._waiting.pop((target_ms, lead_ms))
            y = self._truths.get(target_ms)
            if y is None:  # no reading came at that time
                continue
            count, a, b = self._sums.get(lead_ms, (0.0, 0.0, 0.0))
            a, b = (KEEP * sum_ + _loss((said - y) / scale) for sum_, said in ((a, usual), (b, challenger)))
            self._sums[lead_ms] = (count + 1.0, a, b)
        while self._truths and next(iter(self._truths)) < time_ms:
            self._truths.popitem(last=False)

    def state(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "v": VERSION,
            "truths": [[t, y] for t, y in self._truths.items()],
            "waiting": [[*key, *said] for key, said in self._waiting.items()],
            "sums": [[lead, *sums] for lead, sums in self._sums.items()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        with restoring("rivals", state, VERSION):
            self._truths = OrderedDict((t, y) for t, y in state["truths"])
            self._waiting = OrderedDict(((t, lead), (a, b, c)) for t, lead, a, b, c in state["waiting"])
            self._sums = {lead: (count, a, b) for lead, count, a, b in state["sums"]}


def _loss(error: float) -> float:
    """Squared error; one absurd forecast or reading must not decide for long."""
    return min(error * error, LARGEST)
