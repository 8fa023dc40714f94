"""Settings that a kept state decides: where the two differ, each is told, because what it shaped is learned already.

All others are taken at every start: a role is made of the settings and then given its state.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from streamgp.fusion.asked import known_places
from streamgp.roles.local_models import kept_values, wanted_values
from streamgp.roles.settings import NetworkSection, Settings
from streamgp.roles.units import canonical

log = logging.getLogger("streamgp.kept")


class Difference(NamedTuple):
    """A setting, its value, and the value that the kept state goes on with.

    Examples
    --------
    >>> print(Difference("model.n_neighbors", 5, 32))
    model.n_neighbors = 5 is not taken: the kept state has 32; --fresh begins anew with it
    """

    key: str
    wanted: object
    kept: object

    def __str__(self) -> str:
        wanted, kept = ("none" if v is None else v for v in (self.wanted, self.kept))
        return f"{self.key} = {wanted} is not taken: the kept state has {kept}; --fresh begins anew with it"


def tell(who: str, differences: Iterator[Difference]) -> None:
    """One ``WARNING`` a setting."""
    for difference in differences:
        log.warning("%s: %s", who, difference)


def of_agent(settings: Settings, state: Mapping[str, Any]) -> Iterator[Difference]:
    """What an agent's state, found to be whole, decides otherwise than the settings.

    During the warm-up nothing: its readings are kept as they came, and the model is made of the settings at its end.
    """
    yield from of_door(settings, state["door"])
    station = state["agent"]["model"]
    if station["early"] is not None:
        return
    step_ms = settings.agent.step_ms
    if step_ms not in (None, station["cadence_ms"]):
        yield Difference("agent.step_ms", step_ms, station["cadence_ms"])
    wanted = wanted_values(settings.model)
    for key, kept in kept_values(settings.model.kind, station["model"]).items():
        if wanted[key] != kept:
            yield Difference(f"model.{key}", wanted[key], kept)


def of_door(settings: Settings, state: Mapping[str, Any]) -> Iterator[Difference]:
    """The unit in which a station's readings were learned."""
    unit = settings.door_settings().unit
    if unit is None:
        return
    kept = {known["unit"] for known in state["stations"].values()} - {None, canonical(unit)}
    for other in sorted(kept):
        yield Difference("door.unit", unit, other)


def of_network(settings: NetworkSection, layer: Mapping[str, Any]) -> Iterator[Difference]:
    """What the state of the cloud's network layer decides otherwise; places are those of the first hearing."""
    if not settings.enabled:
        return
    for key, kept in (("sources", "n_sources"), ("candidates", "n_candidates")):
        if getattr(settings, key) != layer["settings"][kept]:
            yield Difference(f"network.{key}", getattr(settings, key), layer["settings"][kept])
    places, before = _finite(settings.places), _finite(layer["coordinates"])
    for name in sorted(layer["stations"]):
        if places.get(name) != before.get(name):
            yield Difference(f"network.places.{name}", places.get(name), before.get(name))


def _finite(places: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Without the unknown ones: NaN is not even equal to itself."""
    return {name: at for name, at in known_places(places).items() if all(map(math.isfinite, at))}
