"""The number of a role's last snapshot, beside the snapshots: it outlives the folder that they are in."""

from __future__ import annotations

from typing import final

from streamgp.roles.place import Place
from streamgp.roles.strays import Strays
from streamgp.wire.clock import Clock
from streamgp.wire.journal import MOST, read_each
from streamgp.wire.log import Log, Message, Outgoing, Partition, Subscription


@final
class Heads:
    """Reads ``{role}/head`` of the snapshots topic, as often as it is asked to look.

    A commit writes it, so that it is known exactly where something was committed since the first snapshot. What is
    no number is left out and told.

    Parameters
    ----------
    number
        The highest that was found; None: the role has never committed anything after a snapshot.
    """

    def __init__(self, log: Log, place: Place, *, clock: Clock) -> None:
        self.number: int | None = None
        self.at: Partition = (place.state_topic("snapshots"), 0)
        self._key = f"{place.role}/head"
        self._clock = clock
        self._strays = Strays(place.role, "no number of a snapshot")
        self._log = log
        self._reads = Subscription(place.state_topic("snapshots"), key=place.role)
        self._next: int | None = None

    def look(self) -> None:
        """Read what came since the last look: with another reader, for one that has read takes its end for the end."""
        reader = self._log.reader([self._reads])
        try:
            (self.at,) = reader.ends()
            if self._next is not None:
                reader.seek({self.at: self._next})
            for m in read_each(reader, self._clock):
                if m.key == self._key and m.value is not None:
                    self._take(m, m.value)
            self._next = reader.stats.positions.get(self.at, self._next)
        finally:
            reader.close()
        self._strays.tell()

    def _take(self, message: Message, value: bytes) -> None:
        number = number_in(value)
        if number is None:
            self._strays.add(message, "")
        else:
            self.number = max(number, self.number or 0)

    def record(self, number: int) -> Outgoing:
        """What tells the number of the newest snapshot."""
        return Outgoing(self.at[0], self._key, str(number).encode(), partition=self.at[1])


def number_in(value: bytes) -> int | None:
    """The number that a record tells, None if it is another's.

    Examples
    --------
    >>> number_in(b"42"), number_in(b"not a number"), number_in(b"-1"), number_in(b"9" * 5_000)
    (42, None, None, None)
    """
    return int(value) if value.isdigit() and len(value) < len(str(MOST)) else None
