"""A log line for what is refused: by reason, topic and source, at every doubling of how often it came."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import final

from streamgp.wire.deadletter import kind_of
from streamgp.wire.log import Outgoing

log = logging.getLogger("streamgp.refusals")

#: kinds that are told apart; all others are one
MOST_KINDS = 200
_SIGNATURE = "original.signature"


@final
class Refusals:
    """Warns of dead letters: of the 1st, 2nd, 4th, 8th ... of each reason, topic and source.

    The source is the id of the key that signed it (as ``streamgp keys list`` shows it) where a signature is the reason,
    else the station.

    Examples
    --------
    >>> refusals = Refusals("cloud", "p.dead-letter")
    >>> headers = (("topic", b"p.queries"), ("reason", b"refused: unsigned"))
    >>> refusals.tell([Outgoing("p.dead-letter", "cloud", b"", headers)] * 3)
    >>> refusals.counts
    Counter({('refused: unsigned', 'p.queries', 'no key'): 3})
    """

    def __init__(self, role: str, topic: str) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self._role = role
        self._topic = topic

    def tell(self, records: Iterable[Outgoing]) -> None:
        """Count those that are dead letters."""
        for record in records:
            if record.topic == self._topic:
                self._count(record)

    def _count(self, record: Outgoing) -> None:
        told = dict(record.headers)
        reason = kind_of(told.get("reason", b"").decode("utf-8", "replace"))
        topic = told.get("topic", b"").decode("utf-8", "replace")
        kind = (reason, topic, _source(record, told, reason))
        if kind not in self.counts and len(self.counts) >= MOST_KINDS:
            kind = ("other", "other topics", "others")
        self.counts[kind] += 1
        count = self.counts[kind]
        if count & (count - 1) == 0:
            # written out, for lines of one text before their arguments are one kind to the log
            log.warning(f"{self._role}: refused from {kind[1]}, {kind[2]}: {kind[0]!r}, {count} so far")


def _source(record: Outgoing, told: dict[str, bytes], reason: str) -> str:
    if not reason.startswith("refused: "):
        return f"station {record.key[:80]!r}"
    signature = told.get(_SIGNATURE, b"")
    return f"key {signature[1:9].hex()}" if len(signature) >= 9 else "no key"
