"""Numbers that often mean "not measured", found far outside of everything else in their column."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import final

#: codes that loggers and archives write for a missing value
CODES = frozenset(
    sign * code
    for sign in (-1.0, 1.0)
    for code in (99.0, 99.9, 99.99, 999.0, 999.9, 999.99, 9999.0, 9999.9, 9999.99, 99999.0, 999999.0, 32767.0, 32768.0)
)


@final
class Suspects:
    """Counts the codes in each column, and the range of all else there; nothing is left out.

    Examples
    --------
    >>> suspects = Suspects()
    >>> for value in (20.0, -999.0, 21.0, -999.0, 19.5):
    ...     suspects.note("temp", value)
    >>> suspects.told()
    ['temp is -999 in 2 rows, and 19.5 to 21 in all others: if that means missing, say --sentinel=-999']
    """

    def __init__(self) -> None:
        self._codes: defaultdict[str, Counter[float]] = defaultdict(Counter)
        self._ranges: dict[str, tuple[float, float]] = {}

    def note(self, column: str, value: float) -> None:
        """A value that is sent."""
        if value in CODES:
            self._codes[column][value] += 1
            return
        low, high = self._ranges.get(column, (math.inf, -math.inf))
        if not low <= value <= high:
            self._ranges[column] = (min(low, value), max(high, value))

    def told(self) -> list[str]:
        """A line for each code that lies further outside the range of the others than that range is wide."""
        lines = []
        for column, codes in self._codes.items():
            low, high = self._ranges.get(column, (0.0, 0.0))
            for code, count in sorted(codes.items()):
                if column in self._ranges and max(low - code, code - high) > high - low:
                    rows = "1 row" if count == 1 else f"{count} rows"
                    lines.append(
                        f"{column} is {code:g} in {rows}, and {low:g} to {high:g} in all others: if that means "
                        f"missing, say --sentinel={code:g}"
                    )
        return lines
