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

    def sized(self, sizes: Mapping[str, int]) -> None:
        """Topics and their partitions."""
        self._sizes = dict(sizes)

    def fault(self, message: Message, station: str) -> Refused | None:
        """Why the agent of ``station``, whose reading the message holds, does not read it; None: it does."""
        key = message.key
        if not key:
            return Refused("no key:", "key", f"the record is of {station[:80]!r}")
        if key != station:
            return Refused("the key says", "station", f"{key[:80]!r}, the record {station[:80]!r}")
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
