"""Dead letters: a refused record as it came, with where it came from and why it was refused.

Nobody chooses how large a letter is but this file: all that it takes from a refused record has a bound, in bytes as
they are written, so that a record that the broker took is never one that cannot be refused. It says what was cut.
"""

from __future__ import annotations

import hashlib
import re
from typing import final

import msgspec

from streamgp.errors import DecodeError
from streamgp.wire.log import Message, Outgoing

#: a larger value is cut; with all other bounds a letter is below 900,000 bytes, and a broker takes 1,048,588 by default
MAX_VALUE_BYTES = 800_000
#: of a letter's own key and of the record's
MAX_KEY_BYTES = 4_000
#: of topic, reason and field, each
MAX_TEXT = 500
#: of all headers of the record together, names and values, and how many there are
MAX_HEADERS_BYTES, MAX_HEADERS = 50_000, 100
#: of each text in a letter that is made smaller still, for a broker that takes little
LEAST_TEXT = 250
#: what brokers and their clients say of a record that is larger than they take
TOO_LARGE = re.compile(r"MessageSizeTooLarge|RecordTooLarge|RecordListTooLarge|larger than")
_CARRIED = "original."
_REPLAY = "replay-of"
_DETAIL = re.compile(r"[:(`'\"\d]| by | of ")


_KINDS = {"Expected": "wrong type", "Object missing required field": "missing field", "the key says": "wrong key"}


def kind_of(reason: str) -> str:
    """A reason without what differs from record to record, so that reasons can be counted: there are a few.

    Examples
    --------
    >>> kind_of("clock ahead by 24 h"), kind_of("unknown format: JSON is malformed (byte 7)")
    ('clock ahead', 'unknown format')
    >>> kind_of("Expected `str`, got `int`"), kind_of("refused: unsigned")
    ('wrong type', 'refused: unsigned')
    """
    if reason.startswith("refused: "):
        return reason
    head = _DETAIL.split(reason, maxsplit=1)[0].strip(" ,-") or "other"
    return _KINDS.get(head, head)[:80]


@final
class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A refused record. ``value`` is the original's, byte for byte, unless ``cut_from`` tells its true length.

    ``field`` names where it is wrong (a dotted path, empty for the whole), ``reason`` why; ``cut`` names what of it
    (``value``, ``key``, ``headers``) is not whole.
    """

    topic: str
    partition: int
    offset: int
    key: str | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    reason: str
    field: str = ""
    cut: tuple[str, ...] = ()
    cut_from: int | None = None

    def again(self) -> Outgoing:
        """The original record, to be written to its topic once more, where its key belongs.

        Raises
        ------
        ValueError
            If it was cut, or had no key, or one that is no text.
        """
        if self.cut_from is not None:
            raise ValueError(f"cut: only {len(self.value or b'')} of its {self.cut_from} bytes were kept")
        if self.cut:
            raise ValueError(f"cut: not all of its {' and '.join(self.cut)} was kept")
        if "\ufffd" in (self.key or ""):
            raise ValueError("its key is no text in UTF-8")
        headers = tuple(h for h in self.headers if h[0] != _REPLAY)
        return Outgoing(self.topic, self.key or "", self.value, (*headers, (_REPLAY, self.first.encode())))

    @property
    def first(self) -> str:
        """Where the record stood when it was new, as it says itself: the same in letters about it and its replays.

        A claim that is no place in the same topic is none.
        """
        known = dict(self.headers).get(_REPLAY, b"").decode("utf-8", "replace")
        topic, _, place = known.partition(f"{self.topic}:")
        own = f"{self.topic}:{self.partition}:{self.offset}"
        return known if not topic and re.fullmatch(r"[0-9]{1,10}:[0-9]{1,19}", place) else own

    @property
    def identity(self) -> tuple[str, bytes]:
        """What record it is: :attr:`first` and a digest of all that it holds.

        Anybody may write a header that claims another record's place: a copy that does is that record, and what holds
        anything else is one of its own.
        """
        headers = [h for h in self.headers if h[0] != _REPLAY]
        whole = msgspec.msgpack.encode((self.topic, self.key, self.value, headers))
        return self.first, hashlib.sha256(whole).digest()


def dead_letter(message: Message, *, topic: str, key: str, reason: str, field: str = "") -> Outgoing:
    """A record for the dead-letter topic, of less than 900,000 bytes whatever was refused.

    Parameters
    ----------
    message
        What was refused.
    topic
        Full name of the dead-letter topic.
    key
        The station that the record is about, or that refused it.

    Examples
    --------
    >>> letter = dead_letter(Message("p.observations", 3, 17, "A", b"NaN"), topic="p.dead-letter", key="A",
    ...                      reason="not finite", field="y")
    >>> letter.value, letter.headers[:3]
    (b'NaN', (('topic', b'p.observations'), ('partition', b'3'), ('offset', b'17')))
    """
    told: dict[str, bytes] = {
        "topic": _within(message.topic, MAX_TEXT),
        "partition": str(message.partition).encode(),
        "offset": str(message.offset).encode(),
        "reason": _within(reason, MAX_TEXT),
        "field": _within(field, MAX_TEXT),
    }
    cut = []
    if message.key is not None:
        told["key"] = _within(message.key, MAX_KEY_BYTES)
        if told["key"] != message.key.encode("utf-8", "replace"):
            cut.append("key")
    carried = _carried(message.headers)
    if len(carried) < len(message.headers):
        cut.append("headers")
    value = message.value
    if value is not None and len(value) > MAX_VALUE_BYTES:
        cut.append("value")
        told["cut_from"] = str(len(value)).encode()
        value = value[:MAX_VALUE_BYTES]
    if cut:
        told["cut"] = ",".join(cut).encode()
    own = _within(key or message.key or "unknown", MAX_KEY_BYTES).decode()
    return Outgoing(topic, own, value, (*told.items(), *carried))


def smaller(letter: Outgoing) -> Outgoing:
    """The same letter in less than 2,000 bytes, for a broker that does not take it whole: where, why, and no value.

    Examples
    --------
    >>> message = Message("p.observations", 3, 17, "A", b"x" * 700_000)
    >>> letter = smaller(dead_letter(message, topic="p.dead-letter", key="A", reason="not finite"))
    >>> letter.value, letter.headers[-2:]
    (b'', (('cut_from', b'700000'), ('cut', b'value,key,headers')))
    """
    told = {name: value for name, value in letter.headers if not name.startswith(_CARRIED)}
    told = {name: _within(value.decode("utf-8", "replace"), LEAST_TEXT) for name, value in told.items()}
    told.setdefault("cut_from", str(len(letter.value or b"")).encode())
    told["cut"] = b"value,key,headers"
    key = _within(letter.key, LEAST_TEXT).decode()
    return Outgoing(letter.topic, key, b"", tuple(told.items()), letter.partition)


def size_of(record: Outgoing) -> int:
    """Bytes of key, value and headers."""
    headers = sum(len(name.encode()) + len(value) for name, value in record.headers)
    return len(record.key.encode()) + len(record.value or b"") + headers


def read_dead_letter(message: Message) -> DeadLetter:
    """The dead letter that a message of that topic holds.

    Raises
    ------
    DecodeError
        Naming the header that is missing or no number.
    """
    headers = {name: value.decode("utf-8", "replace") for name, value in message.headers}

    def text(name: str) -> str:
        try:
            return headers[name]
        except KeyError:
            raise DecodeError("missing header", name) from None

    def number(name: str) -> int:
        try:
            return int(text(name))
        except ValueError:
            raise DecodeError("no whole number", name) from None

    return DeadLetter(
        topic=text("topic"),
        partition=number("partition"),
        offset=number("offset"),
        key=headers.get("key"),
        value=message.value,
        headers=tuple((n.removeprefix(_CARRIED), v) for n, v in message.headers if n.startswith(_CARRIED)),
        reason=text("reason"),
        field=headers.get("field", ""),
        cut=tuple(headers["cut"].split(",")) if "cut" in headers else (),
        cut_from=number("cut_from") if "cut_from" in headers else None,
    )


def _within(text: str, most: int) -> bytes:
    """The text in UTF-8, cut between two characters to so many bytes."""
    whole = text[:most].encode("utf-8", "replace")
    return whole[:most].decode("utf-8", "ignore").encode()


def _carried(headers: tuple[tuple[str, bytes], ...]) -> list[tuple[str, bytes]]:
    """Those headers that fit, in their order, under names of their own."""
    carried: list[tuple[str, bytes]] = []
    left = MAX_HEADERS_BYTES
    for name, value in headers:
        size = len(name.encode("utf-8", "replace")) + len(_CARRIED) + len(value)
        if size <= left and len(carried) < MAX_HEADERS:
            left -= size
            carried.append((_CARRIED + name, value))
    return carried
