"""Snapshots in a compacted topic, so that a role can be moved to another machine."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import Annotated, final

import msgspec

from streamgp.wire.clock import Clock
from streamgp.wire.journal import Number, place_of, read_each
from streamgp.wire.log import Log, Outgoing, Subscription

log = logging.getLogger("streamgp.snapshots")

#: bytes of a snapshot in one record
PART_BYTES = 700_000


class _Manifest(msgspec.Struct, frozen=True):
    """Of how many parts a snapshot is, and what they come to together."""

    number: Number
    parts: Annotated[int, msgspec.Meta(ge=0)]
    sha256: str


@final
class TopicStore:
    """The last two snapshots of one role in a compacted topic; a large one is split into parts.

    A snapshot takes one of two slots in turn, so that the one before stays; its parts and the manifest that
    names them are written in one transaction of the role, which a fenced process cannot commit. The manifest's key is
    the role, a slash and the slot, a part's has its number behind that; a slash within the role's name is doubled, or
    the first part of ``agent.S7`` would have the key of a manifest of ``agent.S7/0``.

    Parameters
    ----------
    topic
        Full name of the snapshots topic.
    role
        Whose snapshots: all of them are on the partition of that key.
    write
        Writes records in a transaction.

    Examples
    --------
    >>> from streamgp.wire.clock import SystemClock
    >>> from streamgp.wire.log import TopicSpec
    >>> from streamgp.wire.memory import MemoryLog
    >>> log = MemoryLog()
    >>> made = log.create_topics([TopicSpec("s", partitions=3, compacted=True)])
    >>> store = TopicStore(log, "s", "agent.A", write=log.writer().write, clock=SystemClock())
    >>> for number in (1, 2, 3):
    ...     store.save(number, bytes([number]) * 1_500_000)
    >>> [(number, len(data), data[0]) for number, data in store.load()]
    [(3, 1500000, 3), (2, 1500000, 2)]
    """

    def __init__(
        self, log: Log, topic: str, role: str, *, write: Callable[[list[Outgoing]], None], clock: Clock
    ) -> None:
        self._log = log
        self._topic = topic
        self._role = role
        self._write = write
        self._clock = clock
        self._slots: dict[int, tuple[str, _Manifest]] = {}  # slot -> key and manifest
        self._place: int | None = None

    def save(self, number: int, data: bytes) -> None:
        slot = min((0, 1), key=lambda s: self._slots[s][1].number if s in self._slots else -1)
        key = _manifest_key(self._role, slot)
        if self._place is None:
            self._place = place_of(self._log, self._topic, self._role)[1]
        cut = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
        manifest = _Manifest(number, len(cut), hashlib.sha256(data).hexdigest())
        records = [Outgoing(self._topic, f"{key}/{i}", part, partition=self._place) for i, part in enumerate(cut)]
        records.append(Outgoing(self._topic, key, msgspec.json.encode(manifest), partition=self._place))
        self._write(records)
        self._slots[slot] = (key, manifest)

    def load(self) -> list[tuple[int, bytes]]:
        newest = self._newest()
        found = []
        for slot in (0, 1):
            if slot in self._slots:
                key, manifest = self._slots[slot]
                data = b"".join(newest.get(f"{key}/{i}") or b"" for i in range(manifest.parts))
                whole = hashlib.sha256(data).hexdigest() == manifest.sha256
                found.append((manifest.number, data if whole else b""))
            elif _manifest_key(self._role, slot) in newest:
                log.warning("%s: a damaged manifest of %s", self._topic, self._role)
                found.append((0, b""))
        return sorted(found, reverse=True)

    def numbers(self) -> list[int]:
        self._newest()
        return sorted((manifest.number for _, manifest in self._slots.values()), reverse=True)

    def forget(self, before: int) -> None:
        """By tombstones; a slot whose manifest is damaged goes as well."""
        newest = self._newest()
        kept = {slot: found for slot, found in self._slots.items() if found[1].number >= before}
        slots = [f"{_manifest_key(self._role, slot)}/" for slot in (0, 1) if slot not in kept]
        gone = sorted(key for key in newest if f"{key}/".startswith(tuple(slots)))
        if gone:
            place = place_of(self._log, self._topic, self._role)[1]
            self._write([Outgoing(self._topic, key, None, partition=place) for key in gone])
        self._slots = kept

    def _newest(self) -> dict[str, bytes]:
        """What the newest record of every key that may be the role's holds; the manifests among them are noted."""
        reader = self._log.reader([Subscription(self._topic, key=self._role)])
        keys = [(_manifest_key(self._role, slot), f"{self._role}/{slot}") for slot in (0, 1)]
        starts = tuple(f"{key}/" for pair in keys for key in pair)
        every: dict[str, bytes | None] = {}
        try:
            for m in read_each(reader, self._clock):
                if m.key is not None and f"{m.key}/".startswith(starts):
                    every[m.key] = m.value
        finally:
            reader.close()
        newest = {key: value for key, value in every.items() if value is not None}
        self._slots = {}
        for slot, (key, plain) in enumerate(keys):
            # the other as releases wrote it that did not double a slash: another role may have written there since
            key = key if key in newest else plain
            manifest = _manifest(newest, key)
            if manifest is not None:
                self._slots[slot] = (key, manifest)
        return newest

    def close(self) -> None:
        pass


def _manifest(newest: dict[str, bytes], key: str) -> _Manifest | None:
    """None if there is none or it is damaged: the other slot may be good."""
    try:
        manifest = msgspec.json.decode(newest.get(key) or b"", type=_Manifest)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        return None
    return manifest if manifest.parts <= len(newest) else None


def _manifest_key(role: str, slot: int) -> str:
    """The key of a slot's manifest: no key of one role is one of another.

    Examples
    --------
    >>> _manifest_key("agent.S7", 0), _manifest_key("agent.S7/0", 0)
    ('agent.S7/0', 'agent.S7//0/0')
    """
    return f"{role.replace('/', '//')}/{slot}"
