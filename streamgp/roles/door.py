"""The door of an agent: every observation is checked on the way in, and what is refused says why.

Pure: no clock, no log, no randomness. The caller brings the time and carries refusals to the dead letter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, final

import msgspec
from typing_extensions import Self

from streamgp.errors import CheckpointError, KeptSettingsError
from streamgp.roles.arrivals import LATE, ArrivalRules, Arrivals
from streamgp.roles.door_settings import DoorSettings
from streamgp.roles.levels import Level, LevelRules
from streamgp.roles.plain import REMEDY
from streamgp.roles.readings import Refused, X, Y, clean_x, clean_y, sentinel_set
from streamgp.roles.units import canonical, converter
from streamgp.wire.records import Observation

__all__ = ["Accepted", "Door", "DoorSettings", "Refused"]

#: (a, b) of a value that needs no conversion
_AS_IT_IS = (1.0, 0.0)


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The observation as it is to be learned: converted, with sentinels and impossible values as missing."""

    observation: Observation


class _Station:
    """What the door remembers of one station."""

    __slots__ = ("arrivals", "counts", "levels", "sentinels", "unit")

    def __init__(self, settings: DoorSettings, station: str, counts: Counter[str]) -> None:
        self.counts = counts
        self.arrivals = Arrivals()
        self.levels = [Level() for _ in range(settings.outputs)]
        self.unit = settings.unit and canonical(settings.unit)
        self.sentinels = sentinel_set((*settings.sentinels, *settings.station_sentinels.get(station, ())))


@final
class Door:
    """Checks observations one by one; O(1) a record and O(1) memory a station.

    ``counts`` tells by station how many were accepted, refused by reason, and how many single values were made
    missing (``x.NAME`` or ``y``).

    Examples
    --------
    >>> door = Door()
    >>> door.check(Observation(station="A", time_ms=0, y=20.5), now_ms=0).observation.y
    20.5
    >>> door.check(Observation(station="A", time_ms=60_000, y=-9999.0), now_ms=60_000)
    Refused(reason='sentinel', field='y', detail='-9999')
    >>> door.check(Observation(station="A", time_ms=86_400_000, y=20.5), now_ms=0).text
    'clock ahead by 24 h'
    """

    def __init__(self, settings: DoorSettings | None = None) -> None:
        self.settings = settings or DoorSettings()
        s = self.settings
        self._arrival_rules = ArrivalRules(round(s.max_late_s * 1000), s.step_back_after, s.burst_factor)
        self._level_rules = LevelRules(s.max_equal_run, s.shift_ranges, s.shift_after, s.shift_accept)
        self._ahead_ms = math.inf if s.max_ahead_s is None else s.max_ahead_s * 1000.0
        self._plain = s.outputs == 1 and s.y_range is None
        self._known = frozenset(s.stations)
        self._stations: dict[str, _Station] = {}
        self.counts: dict[str, Counter[str]] = {}

    def check(self, obs: Observation, now_ms: int) -> Accepted | Refused:
        """Let the observation pass or say why not.

        Parameters
        ----------
        obs
            As it was decoded; not changed.
        now_ms
            The time of the clock, against which a station's clock is ahead or not.
        """
        known = self._stations.get(obs.station)
        if known is None:
            admitted = self._admit(obs.station)
            if isinstance(admitted, Refused):
                return self._count(obs.station, admitted)
            known = admitted
        outcome = self._check(obs, known, now_ms)
        if type(outcome) is Refused:
            return self._count(obs.station, outcome)
        known.counts["accepted"] += 1
        return outcome

    def confirm(self, station: str) -> None:
        """Believe the level that a station's shifted readings have: an operator looked."""
        if (known := self._stations.get(station)) is not None:
            for level in known.levels:
                level.confirm()

    def total(self) -> Counter[str]:
        """Counts over all stations."""
        return sum(self.counts.values(), Counter())

    def state(self) -> dict[str, Any]:
        """All that a twin needs to judge the next record as this door would: plain numbers, text and lists."""
        stations = {
            name: {
                "unit": known.unit,
                "arrivals": known.arrivals.state(),
                "levels": [level.state() for level in known.levels],
            }
            for name, known in self._stations.items()
        }
        return {
            "v": 1,
            "stations": stations,
            "counts": {name: dict(counts) for name, counts in self.counts.items()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], settings: DoorSettings | None = None) -> Self:
        """The door that ``state`` describes, under these settings.

        Raises
        ------
        CheckpointError
            If the state is of another version.
        KeptSettingsError
            If it is of another number of outputs.
        """
        if state.get("v") != 1:
            raise CheckpointError(f"door state of version {state.get('v')!r}, this release reads 1")
        door = cls(settings)
        for name, saved in state["stations"].items():
            if len(saved["levels"]) != door.settings.outputs:
                raise KeptSettingsError(
                    f"door.outputs = {door.settings.outputs} (the kept state has {len(saved['levels'])}): {REMEDY}"
                )
            known = _Station(door.settings, name, Counter(state["counts"].get(name, {})))
            known.unit = saved["unit"] or known.unit
            known.arrivals = Arrivals.from_state(saved["arrivals"])
            known.levels = [Level.from_state(level) for level in saved["levels"]]
            door._stations[name] = known
        door.counts = {name: Counter(counts) for name, counts in state["counts"].items()}
        door.counts.update((name, known.counts) for name, known in door._stations.items())
        return door

    def _admit(self, station: str) -> _Station | Refused:
        """A station that was not seen before, if it may come in."""
        if not isinstance(station, str) or not station:
            return Refused("wrong type", "station")
        if self._known and station not in self._known:
            return Refused("foreign station", "station", station[:80])
        if len(self._stations) >= self.settings.max_stations:
            return Refused("too many stations", "station", station[:80])
        counts = self.counts[station] = Counter()
        self._stations[station] = _Station(self.settings, station, counts)
        return self._stations[station]

    def _count(self, station: str, refused: Refused) -> Refused:
        # Names that were not let in share one counter, so that a flood of them takes no memory.
        self.counts.setdefault(station if station in self._stations else "", Counter())[refused.reason] += 1
        return refused

    def _check(self, obs: Observation, known: _Station, now_ms: int) -> Accepted | Refused:
        """Stateless checks first: a record refused by them leaves no trace in the station's memory.

        Nor is one refused for its value seen: it moves no newest time and is no duplicate when it comes again.
        """
        time_ms, y, x = obs.time_ms, obs.y, obs.x
        if type(time_ms) is not int:
            return Refused("wrong type", "time_ms", type(time_ms).__name__)
        settings = self.settings
        if not settings.earliest_ms <= time_ms <= settings.latest_ms:
            return Refused("implausible time", "time_ms", str(time_ms))
        if time_ms - now_ms > self._ahead_ms:
            return Refused("clock ahead", "time_ms", f"by {_span(time_ms - now_ms)}")
        if settings.flag is not None and x.get(settings.flag) not in settings.valid_flags:
            return Refused("invalid flag", f"x.{settings.flag}", str(x.get(settings.flag, "absent")))
        way, unit = _AS_IT_IS, obs.unit
        if unit is not msgspec.UNSET and known.unit is not None:
            if (found := converter(unit, known.unit)) is None:
                return Refused("unknown unit", "unit", f"{unit[:40]} for {known.unit}")
            way = found
        cleaned: Y | Refused
        if self._plain and type(y) is float and way is _AS_IT_IS and y - y == 0.0 and y not in known.sentinels:
            cleaned = y  # what clean_y would say, on the hot path
        else:
            cleaned = clean_y(y, outputs=settings.outputs, sentinels=known.sentinels, bounds=settings.y_range, way=way)
            if isinstance(cleaned, Refused):
                return cleaned
        inputs: X = x
        if x:
            found_x = clean_x(x, sentinels=known.sentinels, ranges=settings.x_ranges)
            if isinstance(found_x, Refused):
                return found_x
            inputs = found_x
        why = known.arrivals.judge(time_ms, now_ms=now_ms, rules=self._arrival_rules)
        if why is not None:
            return Refused(why, "time_ms", f"by {_span(known.arrivals.lag_ms(time_ms))}" if why == LATE else "")
        believed: Y | Refused = cleaned
        if type(cleaned) is float:
            if (why := known.levels[0].judge(cleaned, self._level_rules, time_ms=time_ms)) is not None:
                believed = Refused(why, "y", f"{cleaned:g}")
        else:
            believed = self._judge(cleaned, known, time_ms)
        if isinstance(believed, Refused):
            known.arrivals.note(time_ms)
            return believed
        known.arrivals.take(time_ms, self._arrival_rules)
        if believed is y and inputs is x and unit is msgspec.UNSET:
            return Accepted(obs)
        if known.unit is None and unit is not msgspec.UNSET:
            known.unit = canonical(unit)
        if inputs is not x:
            known.counts.update(f"x.{name}" for name in x if inputs[name] is None and x[name] is not None)
        return Accepted(msgspec.structs.replace(obs, x=inputs, y=believed, unit=known.unit or msgspec.UNSET))

    def _judge(self, y: Y, known: _Station, time_ms: int) -> Y | Refused:
        """What of several outputs is the same sensor as before."""
        rules, levels = self._level_rules, known.levels
        assert isinstance(y, tuple)
        reasons = [
            None if value is None else level.judge(value, rules, time_ms=time_ms)
            for value, level in zip(y, levels, strict=True)
        ]
        if not any(reasons):
            return y
        values = tuple(None if why else value for value, why in zip(y, reasons, strict=True))
        if all(value is None for value in values):
            return Refused(next(why for why in reasons if why), "y")
        known.counts["y"] += sum(1 for why in reasons if why)
        return values


def _span(ms: int) -> str:
    """A span of time in the unit that a person would use."""
    seconds = ms / 1000.0
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
