"""What the benchmarks of reliability share: observations, and roles kept over a log."""

from __future__ import annotations

import math

from streamgp.roles.identity import make_gate
from streamgp.roles.kept import Kept, KeptRole, Place
from streamgp.roles.settings import Settings
from streamgp.roles.stores import make_store
from streamgp.roles.wiring import subscriptions
from streamgp.wire.clock import SystemClock
from streamgp.wire.codec import encode
from streamgp.wire.log import Log, Outgoing, Subscription
from streamgp.wire.records import Observation

HOUR = 3_600_000


def rows(settings: Settings, stations: tuple[str, ...], count: int) -> list[Outgoing]:
    """Hourly readings of each station: a wave, and what looks like noise."""
    return [
        Outgoing(
            settings.topic("observations"),
            s,
            encode(Observation(station=s, time_ms=t * HOUR, y=math.sin(0.3 * t + i) + 0.1 * ((7 * t + 3 * i) % 5))),
        )
        for t in range(count)
        for i, s in enumerate(stations)
    ]


def reads_of(name: str, settings: Settings) -> tuple[Subscription, ...]:
    """What the role of a name like ``agent.Dublin`` reads."""
    kind, _, station = name.partition(".")
    return tuple(subscriptions(kind, settings, station=station or None))  # type: ignore[arg-type]  # one of its kinds


def kept(log: Log, role: KeptRole, name: str, settings: Settings, state: str) -> Kept:
    """A role as its process would run it; ``state`` is a folder, or ``topic``."""
    at_once = frozenset({settings.topic("queries"), settings.topic("progress")})
    place = Place(name, settings.prefix, reads_of(name, settings), at_once)
    clock = SystemClock()
    return Kept(
        role,
        place,
        log=log,
        store=make_store(state, place, log=log, clock=clock),
        clock=clock,
        settings=settings.keep,
        gate=make_gate(settings, name, clock),
    )
