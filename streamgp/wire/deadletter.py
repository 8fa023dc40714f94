"""Dead letters: a refused record as it came, with where it came from and why it was refused."""

from __future__ import annotations

import re
from typing import final

import msgspec

from streamgp.errors import DecodeError
from streamgp.wire.log import Message, Outgoing

#: A larger value is cut, and says so: a record that the broker took must never be one that cannot be refused.
MAX_VALUE_BYTES = 900_000
MAX_TEXT = 500
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

    ``field`` names where it is wrong (a dotted path, empty for the whole), ``reason`` why.
    """

    topic: str
    partition: int
    offset: int
    key: str | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    reason: str
    field: str = ""
    cut_from: int | None = None

    def again(self) -> Outgoing:
        """The original record, to be written to its topic once more, where its key belongs.

        Raises
        ------
        ValueError
            If it was cut, or had no key.
        """
        if self.cut_from is not None:
            raise ValueError(f"only {MAX_VALUE_BYTES} of its {self.cut_from} bytes were kept")
        headers = tuple(h for h in self.headers if h[0] != _REPLAY)
        return Outgoing(self.topic, self.key or "", self.value, (*headers, (_REPLAY, self.first.encode())))

    @property
    def first(self) -> str:
        """Where the record stood when it was new: the same in every letter about it and about its replays."""
        known = dict(self.headers).get(_REPLAY)
        return f"{self.topic}:{self.partition}:{self.offset}" if known is None else known.decode("utf-8", "replace")


def dead_letter(message: Message, *, topic: str, key: str, reason: str, field: str = "") -> Outgoing:
    """A record for the dead-letter topic.

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
    value, told = message.value, {"topic": message.topic, "partition": message.partition, "offset": message.offset}
    texts = {**told, "reason": reason[:MAX_TEXT], "field": field[:MAX_TEXT]}
    if message.key is not None:
        texts["key"] = message.key
    if value is not None and len(value) > MAX_VALUE_BYTES:
        texts["cut_from"] = len(value)
        value = value[:MAX_VALUE_BYTES]
    own = tuple((name, str(text).encode("utf-8", "replace")) for name, text in texts.items())
    carried = tuple((_CARRIED + name, header) for name, header in message.headers)
    if sum(len(header) for _, header in carried) > MAX_TEXT * 100:
        carried = ()
    return Outgoing(topic, key or message.key or "unknown", value, own + carried)


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
        cut_from=number("cut_from") if "cut_from" in headers else None,
    )
