"""What a demo run is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamgp.errors import SettingsError
from streamgp.roles.settings import Settings
from streamgp.wire.records import Observation


@dataclass(frozen=True, slots=True)
class Plan:
    """A network and what happens in it.

    Parameters
    ----------
    dataset
        Name that is shown; the observations are given apart.
    observations
        In event-time order.
    settings
        Of every role; ``stations`` is filled in from the observations.
    liars
        How many stations lie.
    attack
        Kind of lie.
    attack_from
        Share of the period after the warm-up at which the lying begins.
    late
        Station -> event time before which it has no observations.
    seed
        Of the choice of liars and of their lies.
    """

    dataset: str
    observations: Sequence[Observation]
    settings: Settings
    liars: int = 2
    attack: str = "same-value"
    attack_from: float = 0.1
    late: dict[str, int] = field(default_factory=dict)
    seed: int = 0
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.observations:
            raise SettingsError("no observations: is the period inside the data set?")
        unknown = sorted(set(self.late) - set(self.stations))
        if unknown:
            raise SettingsError(f"late: no station {', '.join(unknown)}; there are {', '.join(self.stations)}")
        never = sorted(set(self.late) - {o.station for o in self.sent()})
        if never:
            raise SettingsError(f"late: no observation of {', '.join(never)} from then on")
        if not 0 <= self.liars <= len(self.stations):
            raise SettingsError(f"liars must be between 0 and {len(self.stations)}, got {self.liars}")

    @property
    def stations(self) -> tuple[str, ...]:
        """All stations by name."""
        return tuple(sorted({o.station for o in self.observations}))

    def liar_names(self) -> frozenset[str]:
        """The stations that lie: drawn by the seed among those that are not late."""
        honest = [s for s in self.stations if s not in self.late]
        if self.liars > len(honest):
            raise SettingsError(f"{self.liars} liars among {len(honest)} stations that are there from the start")
        drawn = np.random.default_rng(self.seed).choice(len(honest), size=self.liars, replace=False)
        return frozenset(honest[i] for i in drawn)

    def attack_from_ms(self) -> int:
        """Event time at which the lying begins."""
        first, last = self.observations[0].time_ms, self.observations[-1].time_ms
        times = sorted({o.time_ms for o in self.observations})
        warm = times[min(self.settings.model.warm_up, len(times) - 1)]
        return warm + int(self.attack_from * (last - max(first, warm)))

    def sent(self) -> list[Observation]:
        """The observations that stations really make: late ones have none before their time."""
        return [o for o in self.observations if o.time_ms >= self.late.get(o.station, o.time_ms)]
