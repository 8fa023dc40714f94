"""Who wrote this record: Ed25519 signatures in a header, held against a list of keys bound to role names.

The header ``signature`` holds, big-endian: a version (1 byte), the id of the key (8), the time of signing in ms (8),
a number that grows with every record of the signer (8), a digest of topic and key (16), the signature (64), and a path.
Records that are written together are signed together: each is a leaf, the SHA-256 of a zero byte, the fields before the
signature and the SHA-256 of the value; two nodes make one, the SHA-256 of a one byte and both; the signature is over a
fixed text and the root. The path leads from the leaf there: for each step a byte, 0 if the other node stands to the
right, and that node (32). A lone record is its own root. So a record cannot be changed, moved to another topic or key,
sent by another role, or, because the number must grow, sent again; and a hundred records cost one signature.
"""

from __future__ import annotations

import hashlib
import struct
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from streamgp.errors import CheckpointError, DecodeError
from streamgp.wire.clock import Clock
from streamgp.wire.codec import decode_topic
from streamgp.wire.deadletter import dead_letter
from streamgp.wire.keys import LIST, UNKNOWN, AllowList, key_id, raw_public
from streamgp.wire.keywatch import KeyWatch, OwnKey
from streamgp.wire.log import Message, Outgoing, Partition

HEADER = "signature"
#: steps of a path, the most: of a million records that are signed together
MOST_STEPS = 20
#: signatures that were verified and are remembered, for the other records that they are for
REMEMBERED = 4_096
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
    "trust": (None, "cloud"),
    "scores": (None, "scorer"),
}


#: field -> reads it alone: what stands in other fields must not matter
_claims = {
    field: msgspec.json.Decoder(msgspec.defstruct("Claim", [(field, str | None, None)]))
    for field, _ in SPEAKERS.values()
    if field is not None
}


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
        self._clock_ns = clock_ns
        self.use(key)

    def use(self, key: Ed25519PrivateKey) -> None:
        """Sign with this key from now on; the numbers, which are the role's and not the key's, go on."""
        self.key = key
        self._id = key_id(raw_public(key))

    def sign(self, record: Outgoing) -> Outgoing:
        """The record with its signature."""
        return self.sign_all([record])[0]

    def sign_all(self, records: list[Outgoing]) -> list[Outgoing]:
        """The records with one signature between them."""
        if not records:
            return []
        fields = [self._fields(record) for record in records]
        root, paths = _tree([_leaf(f, r.value) for f, r in zip(fields, records, strict=True)])
        signature = self.key.sign(_TEXT + root)
        signed = []
        for record, own, path in zip(records, fields, paths, strict=True):
            headers = tuple(h for h in record.headers if h[0] != HEADER)
            signed.append(msgspec.structs.replace(record, headers=(*headers, (HEADER, own + signature + path))))
        return signed

    def _fields(self, record: Outgoing) -> bytes:
        now_ns = self._clock_ns()
        self.sequence = max(now_ns, self.sequence + 1)
        fields = _FIELDS.pack(
            _VERSION, self._id, now_ns // 1_000_000, self.sequence, _address(record.topic, record.key)
        )
        return fields


def _address(topic: str, key: str | None) -> bytes:
    return hashlib.sha256(f"{topic}\0{key}".encode()).digest()[:16]


def _leaf(fields: bytes, value: bytes | None) -> bytes:
    return hashlib.sha256(b"\0" + fields + hashlib.sha256(value or b"").digest()).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def _tree(leaves: list[bytes]) -> tuple[bytes, list[bytes]]:
    """The root of a tree over leaves, and the path of each; an odd node at the end of a row goes up as it is."""
    paths, row = [b"" for _ in leaves], leaves
    below = [[i] for i in range(len(leaves))]  # the leaves under each node
    while len(row) > 1:
        up, under = [], []
        for i in range(0, len(row) - 1, 2):
            for leaf in below[i]:
                paths[leaf] += b"\0" + row[i + 1]
            for leaf in below[i + 1]:
                paths[leaf] += b"\1" + row[i]
            up.append(_node(row[i], row[i + 1]))
            under.append(below[i] + below[i + 1])
        if len(row) % 2:
            up.append(row[-1])
            under.append(below[-1])
        row, below = up, under
    return row[0], paths


def _root(leaf: bytes, path: bytes) -> bytes:
    """Where the path leads; of a path that is none, somewhere else."""
    for at in range(0, len(path), 33):
        other = path[at + 1 : at + 33]
        leaf = _node(other, leaf) if path[at] else _node(leaf, other)
    return leaf


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
        self._good: OrderedDict[tuple[bytes, bytes, bytes], None] = OrderedDict()

    def why_not(self, message: Message) -> str | None:
        """The reason why it is refused; None: it is believed, and noted."""
        if not message.topic.startswith(f"{self._prefix}."):
            return None
        suffix = message.topic[len(self._prefix) + 1 :]
        if suffix not in SPEAKERS:
            return None
        header = next((value for name, value in message.headers if name == HEADER), None)
        if header is None:
            return "unsigned"
        path = header[_FIELDS.size + 64 :]
        if len(header) < _FIELDS.size + 64 or header[0] != _VERSION or len(path) % 33 or len(path) > 33 * MOST_STEPS:
            return "unknown signature format"
        fields, signature = header[: _FIELDS.size], header[_FIELDS.size : _FIELDS.size + 64]
        _, identity, signed_ms, sequence, address = _FIELDS.unpack(fields)
        reason = self.allowed.why_not(identity, signed_ms)
        if reason is not None:
            return reason
        entry = self.allowed.entries[identity]
        if not self._is_good(identity, signature, _root(_leaf(fields, message.value), path)):
            return "bad signature"
        if address != _address(message.topic, message.key):
            return "re-addressed"
        if not _speaks_for(entry.role, suffix, message.value):
            return "foreign"
        if abs(message.timestamp_ms - signed_ms) > self._max_delay_ms:
            return "stale"
        if sequence <= self._seen(identity, entry.role, message):
            return "replayed"
        self._last[identity.hex(), (message.topic, message.partition)] = sequence
        return None

    def _seen(self, identity: bytes, role: str, message: Message) -> int:
        """The last number of a key: not of its role, whose next key a thief of this one must not silence.

        States of before keys were told apart hold it by the role.
        """
        place = (message.topic, message.partition)
        return max(self._last.get((name, place), -1) for name in (identity.hex(), role))

    def _is_good(self, identity: bytes, signature: bytes, root: bytes) -> bool:
        """Whether the key signed this root; that of many records is verified once."""
        known = (identity, signature, root)
        if known not in self._good:
            try:
                self.allowed.publics[identity].verify(signature, _TEXT + root)
            except InvalidSignature:
                return False
            self._good[known] = None
            if len(self._good) > REMEMBERED:
                self._good.popitem(last=False)
        return True

    def note(self, message: Message) -> None:
        """It was believed before: its number counts as seen, whatever has become of its key."""
        header = next((value for name, value in message.headers if name == HEADER), b"")
        if len(header) >= _FIELDS.size + 64:
            _, identity, _, sequence, _ = _FIELDS.unpack(header[: _FIELDS.size])
            entry = self.allowed.find(identity)
            if entry is not None:
                place = (message.topic, message.partition)
                self._last[identity.hex(), place] = max(sequence, self._seen(identity, entry.role, message))

    def state(self) -> list[Any]:
        """The last number seen of each key on each partition."""
        return [[key, topic, index, number] for (key, (topic, index)), number in self._last.items()]

    def restore(self, rows: list[Any]) -> None:
        self._last = {(key, (topic, index)): number for key, topic, index, number in rows}


def _speaks_for(role: str, suffix: str, value: bytes | None) -> bool:
    field, kind = SPEAKERS[suffix]
    if field is None:
        return role == kind
    try:
        name = getattr(_claims[field].decode(value or b""), field)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return not _is_record(suffix, value)  # of what is none, whoever decodes it says so
    if name is None:  # a question from outside may come from any allowed key
        return True
    return bool(role == f"{kind}.{name}")


def _is_record(suffix: str, value: bytes | None) -> bool:
    try:
        decode_topic(value, suffix)
    except DecodeError:
        return False
    return True


@final
class SigningGate:
    """Refuses what is not signed by whom it says, and signs what goes out (see :class:`streamgp.wire.gate.Gate`).

    The list is read again when its file changes, so that keys are added and revoked without a restart; so is the
    role's own key, whose successor signs once the list allows it (:class:`streamgp.wire.keywatch.OwnKey`).

    Parameters
    ----------
    role, key
        Who signs here, and with what.
    folder
        Where the list is.
    own
        The file of the key; None: the role keeps that with which it began.

    Raises
    ------
    SettingsError
        If the list cannot be read, or the role's own key is not in it, revoked or expired.
    """

    def __init__(
        self,
        role: str,
        key: Ed25519PrivateKey,
        folder: Path,
        *,
        prefix: str,
        clock: Clock,
        max_delay_s: float = 600.0,
        own: Path | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._role = role
        self._prefix = prefix
        self._own = None if own is None else OwnKey(own, role, key)
        self._watch = KeyWatch(folder / LIST, role, key_id(raw_public(key)), clock, own=self._own)
        self.signer = Signer(key, clock_ns=lambda: clock.now_ms() * 1_000_000)
        self.verifier = Verifier(self._watch.allowed, prefix=prefix, max_delay_s=max_delay_s)

    @property
    def barred(self) -> str | None:
        return self._watch.barred

    @property
    def sequence(self) -> int:
        return self.signer.sequence

    @sequence.setter
    def sequence(self, number: int) -> None:
        self.signer.sequence = number

    def look(self, *, at_once: bool = False) -> None:
        trouble = self._watch.look(at_once=at_once)
        self.verifier.allowed = self._watch.allowed
        if self._own is not None and self._own.key is not self.signer.key:
            self.signer.use(self._own.key)
        if trouble is not None:
            self.counts[f"list not read: {trouble}"] += 1

    def check(self, message: Message) -> Outgoing | None:
        self.look()
        reason = self.verifier.why_not(message)
        if reason == UNKNOWN:
            self.look(at_once=True)
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
        self.look()  # a commit may be tried for hours, and a key ends meanwhile
        known = {f"{self._prefix}.{suffix}" for suffix in SPEAKERS}
        signed = iter(self.signer.sign_all([record for record in records if record.topic in known]))
        return [next(signed) if record.topic in known else record for record in records]

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
