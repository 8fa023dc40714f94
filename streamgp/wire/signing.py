"""Who wrote this record: Ed25519 signatures in a header, held against a list of keys bound to role names.

The header ``signature`` holds, big-endian: a version (1 byte), the id of the key (8), the time of signing in ms (8),
a number that grows with every record of the signer (8), a digest of topic and key (16), and the signature (64) over
a fixed text, all fields before it and the SHA-256 of the value. So a record cannot be changed, moved to another topic
or key, sent by another role, or, because the number must grow, sent again.
"""

from __future__ import annotations

import hashlib
import struct
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from streamgp.errors import CheckpointError, SettingsError
from streamgp.wire.clock import Clock
from streamgp.wire.deadletter import dead_letter
from streamgp.wire.keys import LIST, AllowList, key_id, raw_public, read_list
from streamgp.wire.log import Message, Outgoing, Partition

HEADER = "signature"
_VERSION = 1
_FIELDS = struct.Struct(">B8sQQ16s")
_TEXT = b"streamgp record signature 1\0"
#: topic suffix -> the field that says who speaks, and the kind of role it must be; no field: the role itself
SPEAKERS: dict[str, tuple[str | None, str]] = {
    "queries": ("station", "agent"),
    "progress": ("station", "agent"),
    "predictions": ("agent", "agent"),
    "station-forecasts": ("station", "agent"),
    "updates": ("client", "agent"),
    "forecasts": (None, "cloud"),
    "globals": (None, "cloud"),
    "scores": (None, "scorer"),
}


class _Claim(msgspec.Struct):
    """The fields of a record that name who speaks."""

    station: str | None = None
    agent: str | None = None
    client: str | None = None


_claims = msgspec.json.Decoder(_Claim)


@final
class Signer:
    """Signs records of one role.

    ``sequence`` is the last number used: never less than the clock's, so that it grows over restarts as well.

    Examples
    --------
    >>> key = Ed25519PrivateKey.generate()
    >>> signed = Signer(key).sign(Outgoing("p.queries", "q", b"{}"))
    >>> [(name, len(value)) for name, value in signed.headers]
    [('signature', 105)]
    """

    def __init__(self, key: Ed25519PrivateKey, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self.sequence = 0
        self._key = key
        self._id = key_id(raw_public(key))
        self._clock_ns = clock_ns

    def sign(self, record: Outgoing) -> Outgoing:
        """The record with its signature."""
        now_ns = self._clock_ns()
        self.sequence = max(now_ns, self.sequence + 1)
        fields = _FIELDS.pack(
            _VERSION, self._id, now_ns // 1_000_000, self.sequence, _address(record.topic, record.key)
        )
        headers = tuple(h for h in record.headers if h[0] != HEADER)
        signature = self._key.sign(_signed(fields, record.value))
        return msgspec.structs.replace(record, headers=(*headers, (HEADER, fields + signature)))


def _address(topic: str, key: str | None) -> bytes:
    return hashlib.sha256(f"{topic}\0{key}".encode()).digest()[:16]


def _signed(fields: bytes, value: bytes | None) -> bytes:
    return _TEXT + fields + hashlib.sha256(value or b"").digest()


@final
class Verifier:
    """Says why a record is not believed to be of the role that it names.

    Parameters
    ----------
    allowed
        Whose keys count.
    prefix
        Topics other than ``{prefix}.queries`` and the like are not looked at.
    max_delay_s
        Longest time between signing and writing, in either direction.
    """

    def __init__(self, allowed: AllowList, *, prefix: str, max_delay_s: float = 600.0) -> None:
        self.allowed = allowed
        self._prefix = prefix
        self._max_delay_ms = max_delay_s * 1000.0
        self._last: dict[tuple[str, Partition], int] = {}

    def why_not(self, message: Message) -> str | None:
        """The reason why it is refused; None: it is believed, and noted."""
        if not message.topic.startswith(f"{self._prefix}."):
            return None
        speaker = SPEAKERS.get(message.topic[len(self._prefix) + 1 :])
        if speaker is None:
            return None
        header = next((value for name, value in message.headers if name == HEADER), None)
        if header is None:
            return "unsigned"
        if len(header) != _FIELDS.size + 64 or header[0] != _VERSION:
            return "unknown signature format"
        fields, signature = header[: _FIELDS.size], header[_FIELDS.size :]
        _, identity, signed_ms, sequence, address = _FIELDS.unpack(fields)
        entry = self.allowed.find(identity)
        if entry is None:
            return "unknown key"
        if entry.revoked:
            return "revoked key"
        if signed_ms > entry.until_ms:
            return "expired key"
        try:
            self.allowed.publics[identity].verify(signature, _signed(fields, message.value))
        except InvalidSignature:
            return "bad signature"
        if address != _address(message.topic, message.key):
            return "re-addressed"
        if not _speaks_for(entry.role, speaker, message.value):
            return "foreign"
        if abs(message.timestamp_ms - signed_ms) > self._max_delay_ms:
            return "stale"
        place = (entry.role, (message.topic, message.partition))
        if sequence <= self._last.get(place, -1):
            return "replayed"
        self._last[place] = sequence
        return None

    def note(self, message: Message) -> None:
        """It was believed before: its number counts as seen, whatever has become of its key."""
        header = next((value for name, value in message.headers if name == HEADER), b"")
        if len(header) == _FIELDS.size + 64:
            _, identity, _, sequence, _ = _FIELDS.unpack(header[: _FIELDS.size])
            entry = self.allowed.find(identity)
            if entry is not None:
                place = (entry.role, (message.topic, message.partition))
                self._last[place] = max(sequence, self._last.get(place, -1))

    def state(self) -> list[Any]:
        """The last number seen of each role on each partition."""
        return [[role, topic, index, number] for (role, (topic, index)), number in self._last.items()]

    def restore(self, rows: list[Any]) -> None:
        self._last = {(role, (topic, index)): number for role, topic, index, number in rows}


def _speaks_for(role: str, speaker: tuple[str | None, str], value: bytes | None) -> bool:
    field, kind = speaker
    if field is None:
        return role == kind
    try:
        name = getattr(_claims.decode(value or b""), field)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        return True  # no record at all: whoever decodes it says so
    if name is None:  # a question from outside may come from any allowed key
        return True
    return bool(role == f"{kind}.{name}")


@final
class SigningGate:
    """Refuses what is not signed by whom it says, and signs what goes out (see :class:`streamgp.wire.gate.Gate`).

    The list is read again when its file changes, so that keys are added and revoked without a restart.

    Raises
    ------
    SettingsError
        If the list cannot be read, or is empty.
    """

    def __init__(
        self, role: str, key: Ed25519PrivateKey, folder: Path, *, prefix: str, clock: Clock, max_delay_s: float = 600.0
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._role = role
        self._prefix = prefix
        self._path = folder / LIST
        self._clock = clock
        self._looked_s = clock.monotonic_s()
        self._changed_ns = _changed_ns(self._path)
        entries = read_list(self._path)
        if not any(e.id == key_id(raw_public(key)) and e.role == role for e in entries):
            raise SettingsError(f"{self._path} does not allow the key of {role}: others would refuse all it says")
        self.signer = Signer(key, clock_ns=lambda: clock.now_ms() * 1_000_000)
        self.verifier = Verifier(AllowList.of(entries), prefix=prefix, max_delay_s=max_delay_s)

    @property
    def sequence(self) -> int:
        return self.signer.sequence

    @sequence.setter
    def sequence(self, number: int) -> None:
        self.signer.sequence = number

    def check(self, message: Message) -> Outgoing | None:
        self._look_again()
        reason = self.verifier.why_not(message)
        if reason is None:
            return None
        self.counts[reason] += 1
        return dead_letter(
            message, topic=f"{self._prefix}.dead-letter", key=self._role, reason=f"refused: {reason}", field=HEADER
        )

    def note(self, message: Message) -> None:
        self.verifier.note(message)

    def signed(self, records: list[Outgoing]) -> list[Outgoing]:
        known = {f"{self._prefix}.{suffix}" for suffix in SPEAKERS}
        return [self.signer.sign(record) if record.topic in known else record for record in records]

    def state(self) -> dict[str, Any]:
        return {"seen": self.verifier.state(), "sequence": self.sequence, "counts": dict(self.counts)}

    def restore(self, state: Mapping[str, Any]) -> None:
        if not state:  # signing was off until now
            return
        try:
            self.verifier.restore(state["seen"])
            self.sequence = state["sequence"]
            self.counts = Counter(state["counts"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"damaged state of signatures: {error}") from error

    def _look_again(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s < 1.0:
            return
        self._looked_s = now_s
        changed_ns = _changed_ns(self._path)
        if changed_ns != self._changed_ns:
            self._changed_ns = changed_ns
            try:
                self.verifier.allowed = AllowList.of(read_list(self._path))
            except SettingsError as error:
                self.counts[f"list not read: {error}"] += 1  # the one before goes on


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
