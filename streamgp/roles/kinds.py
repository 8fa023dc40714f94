"""The kinds of processes: what each is called, which topics it reads and which it writes. Loads no role."""

from __future__ import annotations

from typing import Literal, TypeAlias

from streamgp.roles.settings import Settings
from streamgp.wire.log import Subscription

Kind: TypeAlias = Literal["agent", "cloud", "scorer", "trainer", "trainee", "watch", "trust", "tally"]

_READS: dict[str, tuple[str, ...]] = {
    "agent": ("observations", "queries", "progress", "forecasts"),
    "cloud": ("queries", "progress", "predictions"),
    "scorer": ("observations", "queries", "forecasts", "station-forecasts"),
    "trainer": ("updates",),
    "trainee": ("globals", "observations"),
    "watch": ("station-forecasts", "scores"),
    "trust": ("trust",),
    "tally": ("observations", "forecasts", "station-forecasts", "scores"),
}


_WRITES: dict[str, tuple[str, ...]] = {
    "agent": ("queries", "progress", "predictions", "station-forecasts"),
    "cloud": ("forecasts", "trust"),
    "scorer": ("scores",),
    "trainer": ("globals",),
    "trainee": ("updates",),
}


def role_name(kind: Kind, settings: Settings, station: str | None = None) -> str:
    """What a role is called: its folder, its group and its transactional id are named after it.

    Examples
    --------
    >>> role_name("agent", Settings(), "Dublin"), role_name("trainer", Settings())
    ('agent.Dublin', 'trainer.default')
    """
    run = settings.training.run if kind == "trainer" or settings.training.run != "default" else None
    return ".".join(filter(None, (kind, station, run if kind in ("trainer", "trainee") else None)))


def own_roles(settings: Settings) -> list[str]:
    """Roles that have a journal and a snapshots topic of their own."""
    if settings.state_topics == "shared":
        return []
    kinds: tuple[Kind, ...] = ("cloud", "scorer", "trainer")
    agents: tuple[Kind, ...] = ("agent", "trainee")
    return [role_name(kind, settings) for kind in kinds] + [
        role_name(kind, settings, station) for kind in agents for station in settings.stations
    ]


def kept_topics(settings: Settings, role: str) -> list[str]:
    """Where a role keeps what its successor needs: its journal and its snapshots."""
    return [settings.state_topic(suffix, role) for suffix in ("journal", "snapshots")]


def written_topics(kind: Kind, settings: Settings, role: str) -> list[str]:
    """The topics that a role writes to, its journal and snapshots among them."""
    written = [settings.topic(suffix) for suffix in (*_WRITES.get(kind, ()), "dead-letter")]
    return written + kept_topics(settings, role)


def subscriptions(
    kind: Kind, settings: Settings, *, station: str | None = None, also: tuple[str, ...] = ()
) -> list[Subscription]:
    """The topics that a role reads, and those of ``also``; a station reads its own partition of the observations."""
    reads: list[Subscription] = []
    for suffix in (*_READS[kind], *also, *_of_model(kind, settings)):
        if suffix != "observations":
            reads.append(Subscription(settings.topic(suffix)))
        elif kind in ("agent", "trainee") and station is not None:
            reads.append(Subscription(settings.observations_topic(station), key=station))
        else:
            topics = dict.fromkeys(map(settings.observations_topic, settings.stations or ("",)))
            reads += [Subscription(topic) for topic in topics]
    return reads


def _of_model(kind: Kind, settings: Settings) -> tuple[str, ...]:
    """What an agent reads beside, for the kind of its model: the global layer of a training."""
    return ("globals",) if kind == "agent" and settings.model.kind == "hierarchical" else ()
