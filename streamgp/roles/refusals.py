"""A log line for what is refused: by reason, topic and source, at every doubling of how often it came."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import final

from streamgp.errors import DecodeError
from streamgp.wire.deadletter import kind_of
from streamgp.wire.gate import Gate
from streamgp.wire.log import Message, Outgoing

log = logging.getLogger("streamgp.refusals")

#: kinds that are told apart; all others are one
MOST_KINDS = 200
_SIGNATURE = "signature"


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
                self._letter(record)

    def passes(self, gate: Gate, message: Message) -> bool:
        """Whether a gate lets a record in; one that it does not is counted; no dead letter is written."""
        letter = gate.check(message)
        self.tell([] if letter is None else [letter])
        return letter is None

    def unreadable(self, message: Message, error: DecodeError) -> None:
        """Count a record that cannot be read, where no dead letter is written of it."""
        self._count(kind_of(error.reason), message.topic, _signer(dict(message.headers).get(_SIGNATURE, b"")))

    def _letter(self, record: Outgoing) -> None:
        told = dict(record.headers)
        reason = kind_of(told.get("reason", b"").decode("utf-8", "replace"))
        topic = told.get("topic", b"").decode("utf-8", "replace")
        by_signature = reason.startswith("refused: ")
        signer = _signer(told.get(f"original.{_SIGNATURE}", b""))
        self._count(reason, topic, signer if by_signature else f"station {record.key[:80]!r}")

    def _count(self, reason: str, topic: str, source: str) -> None:
        kind = (reason, topic, source)
        if kind not in self.counts and len(self.counts) >= MOST_KINDS:
            kind = ("other", "other topics", "others")
        self.counts[kind] += 1
        count = self.counts[kind]
        if count & (count - 1) == 0:
            # written out, for lines of one text before their arguments are one kind to the log
            log.warning(f"{self._role}: refused from {kind[1]}, {kind[2]}: {kind[0]!r}, {count} so far")


def _signer(signature: bytes) -> str:
    return f"key {signature[1:9].hex()}" if len(signature) >= 9 else "no key"
