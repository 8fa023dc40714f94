"""What one output of a station has read so far, and whether the next reading can be the same sensor.

Two faults look like numbers: a sensor that is stuck, and one whose unit or level changed without a word.
A reading is held against the *range* seen so far: on real records (12 wind, 70 PM10, 12 x 11 air quality, 16
weather series) no honest reading lay further outside than 3.6 times that range, while degrees Fahrenheit in
place of Celsius lie 20 times outside for a quiet sensor. river's drift detectors answer another question: with
their defaults ADWIN, PageHinkley and KSWIN alarm 26 to 76 times on 8,000 honest hours or days of the same
stations, because such series wander, and ADWIN needs 13 readings to see the change of unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from typing_extensions import Self

STUCK = "stuck"
SHIFT = "level/unit shift"


@dataclass(frozen=True)
class LevelRules:
    """``max_equal_run`` and ``shift_ranges`` may be None: that check is off."""

    max_equal_run: int | None
    shift_ranges: float | None
    shift_after: int
    shift_accept: int


@final
class Level:
    """Range and run length of one output; O(1) a reading, O(1) memory.

    Examples
    --------
    >>> level, rules = Level(), LevelRules(max_equal_run=3, shift_ranges=6.0, shift_after=4, shift_accept=9)
    >>> [level.judge(value, rules) for value in (18.0, 18.2, 17.9, 18.1, 18.3, 64.4, 18.1, 18.1, 18.1, 18.1)]
    [None, None, None, None, None, 'level/unit shift', None, None, None, 'stuck']
    """

    __slots__ = ("changes", "held", "held_hi", "held_lo", "hi", "last", "lo", "run")

    def __init__(self) -> None:
        self.last = float("nan")
        self.run = 0  # readings in a row that equal the last
        self.changes = 0  # readings unlike the one before them
        self.lo, self.hi = float("inf"), float("-inf")
        self.held = 0  # shifted readings in a row
        self.held_lo, self.held_hi = float("inf"), float("-inf")

    def judge(self, value: float, rules: LevelRules) -> str | None:
        """Why the reading is not believed, or None; it is taken into account either way."""
        if value == self.last:
            self.run += 1
            # A run of zeros is rain that does not fall or wind that does not blow.
            if rules.max_equal_run is not None and self.run > rules.max_equal_run and value != 0.0:
                return STUCK
        else:
            self.run = 1
            self.changes += 1
            self.last = value
        if self.lo <= value <= self.hi:
            self.held = 0
            return None
        return self._outside(value, rules)

    def confirm(self) -> None:
        """Believe the level of the readings that are held: it becomes the range seen so far."""
        if self.held:
            self.lo, self.hi, self.held, self.changes = self.held_lo, self.held_hi, 0, 0

    def state(self) -> list[Any]:
        """All fields, in the order of ``__slots__``; infinities and NaN as text."""
        return [_plain(getattr(self, name)) for name in self.__slots__]

    @classmethod
    def from_state(cls, state: list[Any]) -> Self:
        level = cls()
        for name, value in zip(cls.__slots__, state, strict=True):
            setattr(level, name, float(value) if isinstance(value, str) else value)
        return level

    def _outside(self, value: float, rules: LevelRules) -> str | None:
        spread = self.hi - self.lo
        if rules.shift_ranges is not None and spread > 0 and self.changes > rules.shift_after:
            beyond = self.lo - value if value < self.lo else value - self.hi
            if beyond > rules.shift_ranges * spread:
                return self._hold(value, rules)
        self.lo, self.hi, self.held = min(self.lo, value), max(self.hi, value), 0
        return None

    def _hold(self, value: float, rules: LevelRules) -> str | None:
        if self.held == 0:
            self.held_lo = self.held_hi = value
        self.held += 1
        self.held_lo, self.held_hi = min(self.held_lo, value), max(self.held_hi, value)
        if self.held <= rules.shift_accept:
            return SHIFT
        self.confirm()
        return None


def _plain(value: float) -> float | str:
    return value if value - value == 0 else str(value)
