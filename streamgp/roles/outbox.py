"""What a role has to say: records that can be written, dead letters for what it refused, and counts of both."""

from __future__ import annotations

import logging
from collections import Counter
from typing import final

from streamgp.errors import EncodeError
from streamgp.roles.settings import Settings
from streamgp.wire.codec import encode
from streamgp.wire.deadletter import dead_letter, kind_of
from streamgp.wire.log import Message, Outgoing
from streamgp.wire.records import Record

#: a larger record is withheld: brokers take 1,048,588 bytes by default, signature and key among them
MOST_BYTES = 1_000_000
#: kinds of event that are counted apart
MOST_KINDS = 200


@final
class Outbox:
    """Collects a role's outputs until they are drained.

    Parameters
    ----------
    settings
        Name the topics.
    counts
        The role's own; ``refused: KIND`` and ``withheld: TOPIC`` are counted there.
    log
        Of the role.
    key
        Of its dead letters; without one each has the refused record's.

    Examples
    --------
    >>> counts = Counter()
    >>> outbox = Outbox(Settings(), counts, log=logging.getLogger("streamgp"))
    >>> outbox.refuse(Message("streamgp.queries", 0, 7, "q", b"NaN"), "not finite", "points")
    >>> [o.topic for o in outbox.take()], outbox.take(), counts["refused: not finite"]
    (['streamgp.dead-letter'], [], 1)
    """

    def __init__(
        self, settings: Settings, counts: Counter[str], *, log: logging.Logger, key: str | None = None
    ) -> None:
        self._settings = settings
        self._counts = counts
        self._log = log
        self._key = key
        self._waiting: list[Outgoing] = []

    def add(self, records: list[Outgoing]) -> None:
        """Records that are made already."""
        self._waiting += records

    def write(self, suffix: str, key: str, record: Record) -> bool:
        """A record for the topic of that suffix; False if it cannot be written, which is counted."""
        try:
            value = encode(record)
            if len(value) > MOST_BYTES:  # an answer to a question of a great many points
                raise EncodeError(f"{len(value)} bytes are more than a broker takes")
        except EncodeError as error:
            self._counts[f"withheld: {suffix}"] += 1
            self._log.warning("%s: withheld a record of %s: %s", key, suffix, error)
            return False
        self._waiting.append(Outgoing(self._settings.topic(suffix), key, value))
        return True

    def refuse(self, message: Message, reason: str, field: str, *, count: str | None = None) -> None:
        """A dead letter, counted as ``count`` or by the reason's kind."""
        name = f"refused: {count or kind_of(reason)}"
        if name not in self._counts and len(self._counts) >= MOST_KINDS:
            name = "refused: other"  # reasons quote what they refuse, and nobody may fill the memory with that
        self._counts[name] += 1
        topic, key = self._settings.topic("dead-letter"), self._key or message.key or ""
        self._waiting.append(dead_letter(message, topic=topic, key=key, reason=reason, field=field))

    def take(self) -> list[Outgoing]:
        """All of it; the outbox is empty then."""
        out, self._waiting = self._waiting, []
        return out
