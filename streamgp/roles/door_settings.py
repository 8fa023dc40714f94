"""What may pass the door of an agent: one frozen value, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamgp.errors import SettingsError

#: 1900-01-01 and 2100-01-01
_EARLIEST_MS, _LATEST_MS = -2_208_988_800_000, 4_102_444_800_000


@dataclass(frozen=True)
class DoorSettings:
    """What may pass.

    Parameters
    ----------
    outputs
        Length of y; 1 is a plain number.
    stations
        Whose observations may pass; empty: anybody's.
    sentinels, station_sentinels
        Numbers that mean "no reading", everywhere and by station.
    y_range, x_ranges
        Smallest and largest possible value of y and, by name, of x, in the station's unit. An x outside becomes
        missing.
    unit
        Unit of y. Without it the first unit that a station names is its unit. Other units are converted.
    flag, valid_flags
        Name of the x that says whether the reading is valid, and the values that say yes.
    earliest_ms, latest_ms
        Times outside are implausible.
    max_ahead_s
        How far a time may be ahead of the clock. None: not looked at. How far behind does not matter, so that
        history can be replayed.
    max_late_s
        How far behind the station's newest observation a record is still accepted.
    step_back_after
        After so many late records in a row that go on from before a leap ahead, the leap is taken for wrong.
        0: never.
    burst_factor
        Records stamped within 2 s of arrival that follow the last so many times sooner than usual are
        ``arrival-timed``. None: not looked at.
    max_equal_run
        Equal non-zero readings in a row that are believed. None: any number.
    shift_ranges, shift_after, shift_accept
        A reading more than ``shift_ranges`` times the range seen so far outside that range is a
        ``level/unit shift``, once ``shift_after`` changes were seen; after ``shift_accept`` of them in a row, or
        :meth:`Door.confirm`, the new level is believed. ``shift_ranges`` None: not looked at.
    max_stations
        Most stations remembered; further ones are refused.
    """

    outputs: int = 1
    stations: tuple[str, ...] = ()
    sentinels: tuple[float, ...] = (-999.0, -9999.0, -99999.0, -999999.0)
    station_sentinels: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    y_range: tuple[float, float] | None = None
    x_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    unit: str | None = None
    flag: str | None = None
    valid_flags: tuple[float, ...] = (1.0,)
    earliest_ms: int = _EARLIEST_MS
    latest_ms: int = _LATEST_MS
    max_ahead_s: float | None = 300.0
    max_late_s: float = 0.0
    step_back_after: int = 3
    burst_factor: float | None = 20.0
    max_equal_run: int | None = 120
    shift_ranges: float | None = 6.0
    shift_after: int = 30
    shift_accept: int = 24
    max_stations: int = 10_000

    def __post_init__(self) -> None:
        for name, (low, high) in {"y_range": self.y_range or (0, 1), **self.x_ranges}.items():
            if not low < high:
                raise SettingsError(f"{name}: {low} is not below {high}")
        at_least = {"outputs": 1, "max_stations": 1, "max_late_s": 0, "step_back_after": 0, "shift_after": 2}
        for name, least in at_least.items():
            if not getattr(self, name) >= least:  # a NaN is not
                raise SettingsError(f"{name} must be at least {least}")
        for name in ("max_ahead_s", "burst_factor", "max_equal_run", "shift_ranges"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SettingsError(f"{name} must be positive, or None for off")
