"""What is known of a role in the topics that are its own with the other value of ``state_topics``."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import final

from streamgp.errors import BrokerUnavailableError, CheckpointError, LogError
from streamgp.roles.heads import Heads
from streamgp.roles.place import Place
from streamgp.wire.clock import Clock
from streamgp.wire.journal import decode_segment, empty_segment, read_each
from streamgp.wire.log import Log, Outgoing, Subscription

log = logging.getLogger("streamgp.kept")


@final
class Elsewhere:
    """Reads the other journal and head once, for a role that finds nothing in those that it has now.

    Parameters
    ----------
    number
        The highest of a commit or snapshot there; None: there is none, or no such topic that this role may see.
    topic
        Where it is.
    """

    def __init__(self, log: Log, place: Place, *, clock: Clock) -> None:
        self.number: int | None = None
        self._role = place.role
        self._log = log
        self._clock = clock
        other = replace(place, own_state=not place.own_state)
        self.topic = other.state_topic("journal")
        self.setting = "per-role" if other.own_state else "shared"
        self._snapshots = other.state_topic("snapshots")
        self._heads = Heads(log, other, clock=clock)

    def look(self) -> None:
        """Read both to their ends; what this role may not read is told, and counts for nothing.

        Raises
        ------
        BrokerUnavailableError
            If nobody answered in time.
        """
        there = self._log.topics()
        try:
            if self._snapshots in there:
                self._heads.look()
                self._note(self._heads.number)
            if self.topic in there:
                self._read_journal()
        except BrokerUnavailableError:
            raise
        except LogError as error:
            log.warning("%s: whether it has a state in %s is not known: %s", self._role, self.topic, error)

    def over(self, number: int) -> list[Outgoing]:
        """What says there that no life goes on, for one begins anew with this number; nothing where none is."""
        if self.number is None:
            return []
        journal = Outgoing(self.topic, self._role, empty_segment(self._role, number))
        return [self._heads.record(number), journal]

    def _read_journal(self) -> None:
        reader = self._log.reader([Subscription(self.topic, key=self._role)])
        try:
            for m in read_each(reader, self._clock):
                if m.key == self._role:
                    self._note(_number_of(m.value, self._role))
        finally:
            reader.close()

    def _note(self, number: int | None) -> None:
        if number is not None:
            self.number = max(number, self.number or 0)


def _number_of(value: bytes | None, role: str) -> int | None:
    """The number of a commit, None if it is none of this role."""
    try:
        segment = decode_segment(value)
    except CheckpointError:
        return None
    return segment.number if segment.role == role else None
