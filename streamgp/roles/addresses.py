"""Where an observation is to be written, so that its station's agent reads it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol, final, runtime_checkable

from streamgp.roles.readings import Refused
from streamgp.roles.settings import Settings
from streamgp.wire.log import Message
from streamgp.wire.partitioner import partition_of

log = logging.getLogger("streamgp.addresses")

#: so many readings, over so long, without a question of the station's agent are worth a line
_SILENT_AFTER, _SILENT_S = 256, 60.0


@runtime_checkable
class ReadsWhole(Protocol):
    """A role that reads topics whole which others read by key, and is told how many partitions they have."""

    def sized(self, sizes: Mapping[str, int]) -> None:
        """Topics and their partitions, before the role is restored or started."""


@final
class Addresses:
    """Tells what is addressed so that no agent reads it.

    An agent reads one partition, that of its station's key, and of it the records of that key; what else is there is of
    other stations, or of nobody, and dozens of agents see it. So who reads all partitions tells, and nobody else.

    While nobody has said how many partitions a topic has, or once a record shows that it has grown, no partition is
    called wrong.

    Where the settings name the stations, a reading of another one is refused, unless an agent of it was heard.

    Examples
    --------
    >>> addresses = Addresses(Settings())
    >>> addresses.sized({"streamgp.observations": 12})
    >>> right = Message("streamgp.observations", 10, 0, "A", b"")
    >>> addresses.fault(right, "A"), addresses.fault(right, "B").text
    (None, "the key says 'A', the record 'B'")
    >>> addresses.fault(Message("streamgp.observations", 3, 0, "A", b""), "A").text
    "wrong partition: 'A' is on 10 of 12, this is on 3"
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sizes: dict[str, int] = {}
        self._told: set[str] = set()
        self._named = frozenset(settings.stations)

    def sized(self, sizes: Mapping[str, int]) -> None:
        """Topics and their partitions."""
        self._sizes = dict(sizes)

    def fault(self, message: Message, station: str, *, heard: bool = False) -> Refused | None:
        """Why the agent of ``station``, whose reading the message holds, does not read it; None: it does.

        ``heard``: that agent has spoken, also where the settings do not name its station.
        """
        key = message.key
        if not key:
            return Refused("no key:", "key", f"the record is of {station[:80]!r}")
        if key != station:
            return Refused("the key says", "station", f"{key[:80]!r}, the record {station[:80]!r}")
        if self._named and station not in self._named and not heard:
            return Refused("foreign station:", "station", f"{station[:80]!r} is none of the {len(self._named)} named")
        return self._misplaced(message, key)

    def reached(self, message: Message) -> bool:
        """Whether an agent of the message's key would read it."""
        return bool(message.key) and self._misplaced(message, message.key or "") is None

    def _misplaced(self, message: Message, key: str) -> Refused | None:
        topic = self._settings.observations_topic(key)
        if topic != message.topic:
            return Refused("wrong topic:", "topic", f"{key[:80]!r} is on {topic}")
        size = self._sizes.get(topic)
        if size is None:
            return None
        if message.partition >= size:
            del self._sizes[topic]
            return None
        right = partition_of(key, size)
        if right == message.partition:
            return None
        self._tell(topic)
        return Refused(
            "wrong partition:", "partition", f"{key[:80]!r} is on {right} of {size}, this is on {message.partition}"
        )

    def _tell(self, topic: str) -> None:
        """Once a topic: what is wrong there, and what mends it."""
        if topic not in self._told:
            self._told.add(topic)
            log.warning(
                "%s: records come on partitions where no agent looks for their keys. Their producer chooses by another "
                "hash than murmur2, the default of the Java client: with librdkafka (confluent-kafka and others) set "
                "partitioner=murmur2_random. Then `streamgp dead-letters replay --reason 'wrong partition'` writes "
                "those that were refused to the partitions of their keys",
                topic,
            )


@final
class Silent:
    """Tells once of each station whose readings come while no agent of it asks anything.

    Its agent may not run, or not yet know enough to ask; nobody but it reads its observations to learn them. What is
    counted is not kept over a restart. Memory is that of the stations that a door lets in.

    Examples
    --------
    >>> silent = Silent()
    >>> [silent.reading("Borkum", now_s=float(i)) for i in range(3)].count(True)
    0
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}  # how many, since when

    def reading(self, station: str, now_s: float) -> bool:
        """Count a reading of a station of which no agent was heard; whether that was told now."""
        n, since_s = self._seen.get(station, (0, now_s))
        if n < 0:
            return False
        if n + 1 < _SILENT_AFTER or now_s - since_s < _SILENT_S:
            self._seen[station] = (n + 1, since_s)
            return False
        self._seen[station] = (-1, since_s)
        log.warning(
            "station %r: %d readings in %.0f s and no question of its agent; if none runs, nobody learns them. Start "
            "one (`streamgp agent --station ...`): it reads them from the first on. With the names of all `stations` "
            "in the settings readings of others are refused",
            station[:80],
            n + 1,
            now_s - since_s,
        )
        return True
