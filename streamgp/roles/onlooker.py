"""A reader for somebody who only looks on: what is not signed by whom it says is left out and counted."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import final

from streamgp.roles.identity import signs
from streamgp.roles.settings import Settings
from streamgp.wire.keys import LIST
from streamgp.wire.keywatch import LastGoodList
from streamgp.wire.log import Message, Partition, Reader, ReaderStats
from streamgp.wire.signing import Verifier

log = logging.getLogger("streamgp.onlooker")


def believed(reader: Reader, settings: Settings) -> Reader:
    """The reader, behind the list of keys where records are signed; an onlooker needs no key of its own.

    Where there is no list a warning says that nobody can tell whose records these are.

    Raises
    ------
    SettingsError
        If the list cannot be read.
    """
    if not signs(settings):
        return reader
    path = Path(settings.signing.keys) / LIST
    found = LastGoodList(path, "watch")
    if not found.allowed.entries:
        log.warning("not verified, for there is no list of keys at %s: anybody may have written what follows", path)
        return reader
    return Believed(reader, found, prefix=settings.prefix)


@final
class Believed:
    """Leaves out what a verifier refuses; the list is read again when its file changes.

    Attributes
    ----------
    counts
        What was left out, by reason; told at every doubling.
    """

    def __init__(self, reader: Reader, found: LastGoodList, *, prefix: str) -> None:
        self.counts: Counter[str] = Counter()
        self._reader = reader
        self._list = found
        self._verifier = Verifier(found.allowed, prefix=prefix)

    @property
    def stats(self) -> ReaderStats:
        return self._reader.stats

    def poll(self, timeout_s: float, max_records: int = 500, *, without: frozenset[str] = frozenset()) -> list[Message]:
        messages = self._reader.poll(timeout_s, max_records, without=without)
        self._list.look()
        self._verifier.allowed = self._list.allowed
        return [message for message in messages if self._passes(message)]

    def seek(self, offsets: dict[Partition, int]) -> None:
        self._reader.seek(offsets)

    def commit(self, offsets: dict[Partition, int]) -> None:
        self._reader.commit(offsets)

    def ends(self) -> dict[Partition, int]:
        return self._reader.ends()

    def close(self) -> None:
        self._reader.close()

    def _passes(self, message: Message) -> bool:
        reason = self._verifier.why_not(message)
        if reason is None:
            return True
        self.counts[reason] += 1
        count = self.counts[reason]
        if count & (count - 1) == 0:
            log.warning("left out: %s on %s, %d so far", reason, message.topic, count)
        return False
