"""The topic plan: what topics there are under a prefix, how they are split, and how long they keep their records.

Kafka's retention, and its refusal of times in the future, go by the record's own timestamp. Writers therefore
leave that to be the time of sending, and event time stands in the payload: replayed history of 1961 is neither
deleted on arrival nor refused.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
import threading
import time
from collections.abc import Iterable

from streamgp.errors import BrokerUnavailableError, SettingsError, TopicMissingError
from streamgp.wire.log import Log, TopicSpec
from streamgp.wire.records import DEAD_LETTER, TOPICS

logger = logging.getLogger("streamgp.wire.topics")

#: Partitions of the topics that are read by key, so that work and storage spread.
PARTITIONS = 12
#: Topics that every agent reads whole. More partitions would not spread that work, only cost each reader more
#: requests; with one, all agents see all records in the same order.
BROADCAST = frozenset({"queries", "progress", "forecasts"})
#: Of these only the newest record of a key is of interest.
COMPACTED = frozenset({"globals", "snapshots", "trust"})
#: What roles keep for their own successors, in bytes of this package alone.
INTERNAL = ("journal", "snapshots")
#: Snapshots are large and replace each other: let the broker's cleaner at them soon. Global states are read again by
#: who was killed, from its last snapshot on: let the cleaner leave them for a day.
CONFIG: dict[str, dict[str, str]] = {
    "snapshots": {"segment.bytes": "67108864", "min.cleanable.dirty.ratio": "0.2", "max.compaction.lag.ms": "86400000"},
    "globals": {"min.compaction.lag.ms": "86400000"},
}

_DAY_MS = 86_400_000
#: What is kept for a time. The rest is kept for ever: observations are what a lost model is learned from again.
RETENTION_MS: dict[str, int] = {
    "queries": 7 * _DAY_MS,
    "progress": 7 * _DAY_MS,
    "predictions": 7 * _DAY_MS,
    "forecasts": 7 * _DAY_MS,
    "updates": 30 * _DAY_MS,
    "journal": 30 * _DAY_MS,
    DEAD_LETTER: 90 * _DAY_MS,
}
#: how long a preflight waits for topics that may just be in the making
GRACE_S = 3.0
#: characters of a topic's name, as Kafka takes them
MOST_NAME = 249
_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,200}")


def topic_name(prefix: str, suffix: str) -> str:
    """Full name of a topic.

    Raises
    ------
    SettingsError
        If Kafka would not take the name.

    Examples
    --------
    >>> topic_name("streamgp", "queries")
    'streamgp.queries'
    """
    if not _LEGAL.fullmatch(prefix) or prefix in (".", ".."):
        raise SettingsError(
            f"prefix {prefix!r} must be 1 to 200 letters, digits, dots, dashes or underscores of plain ASCII"
        )
    return f"{prefix}.{suffix}"


def station_topic(prefix: str, station: str) -> str:
    """The topic of one station's observations, where each has its own: letters, digits, dots and dashes stay.

    Kafka takes names of 249 characters: a longer one is cut, with a digest behind two underscores, which no other has.

    Examples
    --------
    >>> station_topic("streamgp", "Malin Head"), station_topic("streamgp", "a_b")
    ('streamgp.observations.Malin_20Head', 'streamgp.observations.a_5fb')
    """
    return _topic_of(prefix, "observations", station)


def role_topic(prefix: str, suffix: str, role: str) -> str:
    """The topic ``journal`` or ``snapshots`` of one role, where each has its own.

    Examples
    --------
    >>> role_topic("streamgp", "journal", "agent.Malin Head")
    'streamgp.journal.agent.Malin_20Head'
    """
    return _topic_of(prefix, suffix, role)


def _topic_of(prefix: str, suffix: str, name: str) -> str:
    legal = re.sub(r"[^A-Za-z0-9.-]", lambda m: "".join(f"_{b:02x}" for b in m.group().encode()), name)
    room = MOST_NAME - len(topic_name(prefix, f"{suffix}."))
    if len(legal) > room:
        legal = f"{legal[: max(0, room - 34)]}__{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    return topic_name(prefix, f"{suffix}.{legal}")


def topic_plan(
    prefix: str, *, partitions: int = PARTITIONS, stations: Iterable[str] = (), roles: Iterable[str] = ()
) -> list[TopicSpec]:
    """All topics of a deployment, as :meth:`streamgp.wire.log.Log.create_topics` takes them.

    Parameters
    ----------
    prefix
        Comes before every name, with a dot.
    partitions
        Of the topics that are not broadcast; it cannot be changed later without moving keys.
    stations
        Stations whose observations get a topic of their own.
    roles
        Roles whose journal and snapshots get topics of their own.

    Raises
    ------
    SettingsError
        If the prefix or the number of partitions cannot be.

    Examples
    --------
    >>> [(t.name, t.partitions, t.compacted) for t in topic_plan("p") if t.name in ("p.queries", "p.globals")]
    [('p.queries', 1, False), ('p.globals', 1, True)]
    """
    if partitions < 1:
        raise SettingsError(f"partitions must be at least 1, not {partitions}")
    shared = [
        _spec(topic_name(prefix, suffix), suffix, 1 if suffix in BROADCAST | {"globals"} else partitions)
        for suffix in (*TOPICS, DEAD_LETTER, *INTERNAL)
    ]
    rows = [TopicSpec(station_topic(prefix, station)) for station in stations]
    return shared + rows + [_spec(role_topic(prefix, suffix, role), suffix, 1) for role in roles for suffix in INTERNAL]


def _spec(name: str, suffix: str, partitions: int) -> TopicSpec:
    return TopicSpec(
        name,
        partitions=partitions,
        compacted=suffix in COMPACTED,
        retention_ms=RETENTION_MS.get(suffix),
        config=CONFIG.get(suffix, {}),
    )


def preflight(
    log: Log,
    names: Iterable[str],
    *,
    command: str = "streamgp topics create",
    stop: threading.Event | None = None,
    patience_s: float = math.inf,
) -> dict[str, int]:
    """Return when the broker is there and has all these topics: they, and how many partitions each has.

    A broker that is away is waited for, until ``stop`` is set (then nothing is known) or for ``patience_s``; a topic
    that is missing, for 3 s, for it may just be in the making.

    Raises
    ------
    BrokerUnavailableError
        If no broker answered for ``patience_s``.
    TopicMissingError
        Naming every topic that is missing and the ``command`` that makes them.
    """
    wanted, waiting = sorted(set(names)), stop or threading.Event()
    tries, missing, told, started = 0, wanted, False, time.monotonic()
    while not waiting.is_set():
        try:
            there = log.topics()
        except BrokerUnavailableError as error:
            if time.monotonic() - started >= patience_s:
                raise
            if not told:
                logger.warning("%s; waiting for it", error)
                told = True
            waiting.wait(1.0)
            continue
        missing = [name for name in wanted if name not in there]
        if not missing:
            return {name: there[name] for name in wanted}
        if tries >= 6:
            raise TopicMissingError(f"missing topics: {', '.join(missing)}; make them with `{command}`")
        tries += 1
        waiting.wait(GRACE_S / 6)
    return {}
