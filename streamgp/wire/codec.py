"""Record <-> bytes: strict JSON, no NaN, no infinity, one :class:`DecodeError` that names the field."""

from __future__ import annotations

import math
import re
from typing import Any, TypeVar

import msgspec

from streamgp.errors import DecodeError, EncodeError
from streamgp.wire.records import SCHEMA_VERSION, TOPICS, Record

R = TypeVar("R", bound=Record)

_encoder = msgspec.json.Encoder()
_decoders: dict[type[Record], msgspec.json.Decoder[Any]] = {}
_AT = re.compile(r" - at `\$\.?([^`]*)`")


def encode(record: Record) -> bytes:
    """JSON bytes of a record.

    Raises
    ------
    EncodeError
        If a value in it is of the wrong type, or a number not finite: such a record is withheld by its role,
        never published.
    """
    try:
        data = _encoder.encode(record)
    except (TypeError, ValueError) as error:
        raise EncodeError(f"{type(record).__name__}: {error}") from error
    if b"null" in data:  # where a number that is not finite would have gone
        for name in record.__struct_fields__:
            if not _finite(getattr(record, name)):
                raise EncodeError(f"{type(record).__name__}.{name} holds a number that is not finite")
    return data


def decode(data: bytes | None, kind: type[R]) -> R:
    """The record of type ``kind`` that ``data`` holds.

    Raises
    ------
    DecodeError
        For anything else: no JSON, a missing field, a wrong type, a number that is not finite, an unknown ``v``.
    """
    if data is None:
        raise DecodeError("no value (tombstone)")
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        record: R = decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _named(error, data) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"unknown format: {error}") from error
    if record.v != SCHEMA_VERSION:
        raise DecodeError(f"unknown schema version {record.v}, this release reads {SCHEMA_VERSION}", "v")
    return record


def decode_topic(data: bytes | None, suffix: str) -> Record:
    """The record that a value of topic ``suffix`` (without prefix) holds; errors as :func:`decode`."""
    return decode(data, TOPICS[suffix])


def _named(error: msgspec.ValidationError, data: bytes) -> DecodeError:
    """The same complaint with its field apart, or the unknown version that explains it."""
    try:
        version = msgspec.json.decode(data).get("v", SCHEMA_VERSION)
    except (msgspec.DecodeError, AttributeError, UnicodeDecodeError):
        version = SCHEMA_VERSION
    if version != SCHEMA_VERSION:
        return DecodeError(f"unknown schema version {version!r}, this release reads {SCHEMA_VERSION}", "v")
    text = str(error)
    where = _AT.search(text)
    if where is None:
        missing = re.search(r"missing required field `([^`]+)`", text)
        return DecodeError(text, missing.group(1) if missing else "")
    return DecodeError(_AT.sub("", text), where.group(1))


def _finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, (str, int)) or value is None:
        return True
    if isinstance(value, tuple):
        return all(map(_finite, value))
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, msgspec.Struct):
        return all(_finite(getattr(value, name)) for name in value.__struct_fields__)
    return True
