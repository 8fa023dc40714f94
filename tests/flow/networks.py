"""Small networks for the flow tests: real wind, few stations, short warm-ups."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from producers.datasets import observations
from streamgp.demo.plan import Plan
from streamgp.roles.settings import AgentSettings, CloudSettings, ModelSettings, Settings
from streamgp.wire.codec import decode
from streamgp.wire.log import Log, Subscription
from streamgp.wire.records import Forecast, Observation, Record, StationForecast

SIX = ("BEL", "BIR", "CLA", "DUB", "MAL", "VAL")
DAY_MS = 86_400_000
R = TypeVar("R", bound=Record)


def wind(stations: tuple[str, ...], days: int) -> tuple[Observation, ...]:
    return tuple(observations("irish-wind", stations=stations, limit=days * len(stations)))


def quick_settings(**agent: object) -> Settings:
    return Settings(
        model=ModelSettings(warm_up=30, n_neighbors=8),
        agent=AgentSettings(**{"settle_s": 2.0, **agent}),  # type: ignore[arg-type]
        cloud=CloudSettings(beta=1 / 6),
    )


def plan_of(stations: tuple[str, ...] = SIX, days: int = 60, **given: object) -> Plan:
    settings = given.pop("settings", quick_settings())
    return Plan("irish-wind", wind(stations, days), settings, **{"liars": 0, **given})  # type: ignore[arg-type]


def records(log: Log, prefix: str, suffix: str, kind: type[R]) -> list[R]:
    """All records of a topic."""
    reader, out = log.reader([Subscription(f"{prefix}.{suffix}")]), []
    ends = reader.ends()
    while any(reader.stats.positions.get(p, 0) < end for p, end in ends.items()):
        out += [decode(m.value, kind) for m in reader.poll(1.0)]
    reader.close()
    return out


def numbers(log: Log, prefix: str) -> dict[str, dict[str, bytes]]:
    """Query id -> forecast, by topic, as bytes: equal means equal to the last bit. Who was waited for is left out."""
    told: dict[str, dict[str, bytes]] = {}
    for suffix, kind in (("forecasts", Forecast), ("station-forecasts", StationForecast)):
        all_records = records(log, prefix, suffix, kind)
        told[suffix] = {r.query_id: msgspec.json.encode(r) for r in all_records}  # type: ignore[attr-defined]  # both kinds have one
        assert len(told[suffix]) == len(all_records), f"{suffix}: a query was answered twice"
    return told
