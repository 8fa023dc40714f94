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

#: the fields of a state, in order
_FORM = ("changes", "held", "held_hi", "held_lo", "hi", "last", "lo", "run")


@dataclass(frozen=True)
class LevelRules:
    """``max_equal_run`` and ``shift_ranges`` may be None: that check is off."""

    max_equal_run: int | None
    shift_ranges: float | None
    shift_after: int
    shift_accept: int


@final
class Level:
    """Range and run length of one output; O(1) a reading, memory of ``shift_accept`` times at most.

    What is refused changes neither the range nor the run of what was believed. Shifted readings are held apart, each
    time once, so that one that comes again is judged anew and confirms nothing.

    Examples
    --------
    >>> level, rules = Level(), LevelRules(max_equal_run=3, shift_ranges=6.0, shift_after=4, shift_accept=9)
    >>> values = (18.0, 18.2, 17.9, 18.1, 18.3, 64.4, 18.1, 18.1, 18.1, 18.1)
    >>> [level.judge(value, rules, time_ms=i) for i, value in enumerate(values)]
    [None, None, None, None, None, 'level/unit shift', None, None, None, 'stuck']
    """

    __slots__ = ("changes", "held", "held_hi", "held_last", "held_lo", "held_ms", "held_run", "hi", "last", "lo", "run")

    def __init__(self) -> None:
        self.last = float("nan")
        self.run = 0  # believed readings in a row that equal the last
        self.changes = 0  # believed readings unlike the one before them
        self.lo, self.hi = float("inf"), float("-inf")
        self.held = 0  # shifted readings in a row
        self.held_lo, self.held_hi = float("inf"), float("-inf")
        self.held_last, self.held_run = float("nan"), 0  # of the shifted ones
        self.held_ms: set[int] = set()  # their times

    def judge(self, value: float, rules: LevelRules, *, time_ms: int) -> str | None:
        """Why the reading is not believed, or None: then it is taken in."""
        equal, most = value == self.last, rules.max_equal_run
        # A run of zeros is rain that does not fall or wind that does not blow.
        if equal and most is not None and self.run >= most and value != 0.0:
            return STUCK
        if not self.lo <= value <= self.hi:
            if self._shifted(value, rules):
                return self._hold(value, rules, time_ms)
            self.lo, self.hi = min(self.lo, value), max(self.hi, value)
        if equal:
            self.run += 1
        else:
            self.run, self.last = 1, value
            self.changes += 1
        if self.held:
            self._let_go()
        return None

    def confirm(self) -> None:
        """Believe the level of the readings that are held: it becomes the range seen so far."""
        if self.held:
            self.lo, self.hi, self.changes = self.held_lo, self.held_hi, 0
            self.last, self.run = self.held_last, self.held_run
            self._let_go()

    def state(self) -> list[Any]:
        """All fields, infinities and NaN as text; what only held readings have is there only while some are held."""
        plain = [_plain(getattr(self, name)) for name in _FORM]
        return [*plain, _plain(self.held_last), self.held_run, sorted(self.held_ms)] if self.held_ms else plain

    @classmethod
    def from_state(cls, state: list[Any]) -> Self:
        level = cls()
        names = _FORM if len(state) == len(_FORM) else (*_FORM, "held_last", "held_run", "held_ms")
        for name, value in zip(names, state, strict=True):
            setattr(level, name, float(value) if isinstance(value, str) else value)
        level.held_ms = set(level.held_ms)
        return level

    def _shifted(self, value: float, rules: LevelRules) -> bool:
        spread = self.hi - self.lo
        if rules.shift_ranges is None or not spread > 0 or not self.changes > rules.shift_after:
            return False
        beyond = self.lo - value if value < self.lo else value - self.hi
        return beyond > rules.shift_ranges * spread

    def _hold(self, value: float, rules: LevelRules, time_ms: int) -> str | None:
        """Hold a shifted reading apart, with its own run of equal ones; believed once there are enough in a row."""
        if time_ms in self.held_ms:
            return SHIFT
        run = self.held_run + 1 if value == self.held_last else 1
        if rules.max_equal_run is not None and run > rules.max_equal_run and value != 0.0:
            return STUCK
        if self.held == 0:
            self.held_lo = self.held_hi = value
        self.held += 1
        self.held_ms.add(time_ms)
        self.held_last, self.held_run = value, run
        self.held_lo, self.held_hi = min(self.held_lo, value), max(self.held_hi, value)
        if self.held <= rules.shift_accept:
            return SHIFT
        self.confirm()
        return None

    def _let_go(self) -> None:
        self.held, self.held_last, self.held_run = 0, float("nan"), 0
        self.held_ms.clear()


def _plain(value: float) -> float | str:
    return value if value - value == 0 else str(value)
