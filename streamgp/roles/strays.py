"""Records under a role's key that are not the role's: left out, and told once."""

from __future__ import annotations

import logging
from typing import final

from streamgp.wire.log import Message, Partition

log = logging.getLogger("streamgp.kept")


@final
class Strays:
    """Collects what was left out while a topic was read; one line tells of all of it, and never of the same again.

    Examples
    --------
    >>> strays = Strays("agent.A", "no segment of a journal")
    >>> strays.add(Message("p.journal", 0, 7, "agent.A", b"garbage"), "it is no record")
    >>> strays.tell()
    >>> strays.add(Message("p.journal", 0, 7, "agent.A", b"garbage"), "it is no record")
    >>> strays.count
    1
    """

    def __init__(self, role: str, what: str) -> None:
        self.count = 0
        self._role = role
        self._what = what
        self._first: tuple[Message, str] | None = None
        self._told: dict[Partition, int] = {}

    def add(self, message: Message, why: str) -> None:
        """One was left out."""
        place = (message.topic, message.partition)
        if message.offset <= self._told.get(place, -1):
            return
        self._told[place] = message.offset
        self.count += 1
        self._first = self._first or (message, why)

    def tell(self) -> None:
        """Warn of those that came since the last time."""
        if self._first is None:
            return
        message, why = self._first
        self._first = None
        log.warning(
            "%s: %s, and left out: %s[%d] at offset %d under its key%s, %d in all so far; somebody else wrote there",
            self._role,
            self._what,
            message.topic,
            message.partition,
            message.offset,
            f" ({why})" if why else "",
            self.count,
        )
