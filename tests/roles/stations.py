"""An agent's role that is fed by hand, and models that fail as they are told."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.constant import ConstantModel
from streamgp.models.features import FeatureSettings
from streamgp.models.station import StationModel
from streamgp.roles.agent import Agent
from streamgp.roles.door import Door
from streamgp.roles.settings import AgentSettings, Settings
from streamgp.roles.station import AgentRole
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Message, Outgoing
from streamgp.wire.records import (
    Observation,
    Record,
)

DAY = 86_400_000


NOW_MS = 1_790_000_000_000


class Fragile:
    """A constant model that fails on some y as often as told."""

    def __init__(self, fails: dict[float, int]) -> None:
        self._inner = ConstantModel()
        self._fails = fails

    @property
    def learned(self) -> int:
        return self._inner.learned

    def learn(self, Z: Array, y: Array) -> None:
        for value in y.round(6).tolist():
            if self._fails.get(value, 0) > 0:
                self._fails[value] -= 1
                raise RuntimeError("no luck")
        self._inner.learn(Z, y)

    def predict(self, Z: Array) -> Gaussian:
        return self._inner.predict(Z)


class Infinite:
    """A model made to yield an infinite variance."""

    learned = 3

    def learn(self, Z: Array, y: Array) -> None:
        pass

    def predict(self, Z: Array) -> Gaussian:
        m = len(Z)
        return Gaussian(np.zeros(m), np.full(m, np.inf), np.ones(m))


def role_of(make: Callable[[bool], object] | None = None, *, warm_up: int = 3, **agent: object) -> AgentRole:
    settings = Settings(agent=AgentSettings(settle_s=0.0, **agent))  # type: ignore[arg-type]  # keys of many types
    model = StationModel(
        FeatureSettings(lags=(1,), averages=(), calendar=()),
        make=make or (lambda fit: ConstantModel()),  # type: ignore[arg-type]  # broken models too
        load=ConstantModel.from_state,
        warm_up=warm_up,
        step_ms=DAY,
    )
    role = AgentRole(Agent("A", model, settings.agent), settings, Door(settings.door_settings()))
    role.start(0.0)
    return role


class Feeder:
    """Gives a role messages with the offsets that a log would."""

    def __init__(self, role: AgentRole) -> None:
        self.role = role
        self.out: list[Outgoing] = []
        self._next: dict[str, int] = {}

    def send(self, suffix: str, record: Record | bytes, *, key: str = "A", now_s: float = 0.0) -> None:
        offset = self._next[suffix] = self._next.get(suffix, -1) + 1
        value = record if isinstance(record, bytes) else encode(record)
        self.role.feed([Message(f"streamgp.{suffix}", 0, offset, key, value, NOW_MS)], now_s)
        self.settle(now_s)

    def settle(self, now_s: float) -> None:
        self.role.feed([], now_s)
        self.out += self.role.drain(now_s)

    def days(self, *values: float, start: int = 0) -> None:
        for i, y in enumerate(values, start):
            self.send("observations", Observation(station="A", time_ms=i * DAY, y=y))

    def published(self, suffix: str, kind: type[Record]) -> list[Record]:
        return [decode(o.value, kind) for o in self.out if o.topic == f"streamgp.{suffix}"]
