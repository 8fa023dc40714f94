"""Record <-> bytes: strict JSON, no NaN, no infinity, one :class:`DecodeError` that names the field."""

from __future__ import annotations

import contextlib
import json
import math
import re
from functools import cache
from typing import Any, TypeVar

import msgspec

from streamgp.errors import DecodeError, EncodeError
from streamgp.wire.records import SCHEMA_VERSION, TOPICS, Record
from streamgp.wire.shapes import check_shapes

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
        for name in _number_fields(type(record)):
            if not _finite(getattr(record, name)):
                raise EncodeError(f"{type(record).__name__}.{name} holds a number that is not finite")
    return data


def decode(data: bytes | None, kind: type[R]) -> R:
    """The record of type ``kind`` that ``data`` holds.

    Raises
    ------
    DecodeError
        For anything else: no JSON, a missing field, a wrong type, a number that is not finite, arrays that do not
        fit each other, an unknown ``v``. Never any other error, whatever the bytes are.

    Examples
    --------
    >>> decode(b'{"v":1,"station":"A","time_ms":5,"y":NaN}', TOPICS["observations"])
    Traceback (most recent call last):
    streamgp.errors.DecodeError: y: not a finite number
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
        raise _unreadable(error, data) from error
    if record.v != SCHEMA_VERSION:
        raise _unknown_version(record.v)
    check_shapes(record)
    return record


def decode_topic(data: bytes | None, suffix: str) -> Record:
    """The record that a value of topic ``suffix`` (without prefix) holds; errors as :func:`decode`."""
    return decode(data, TOPICS[suffix])


class _Version(msgspec.Struct):
    v: Any = SCHEMA_VERSION


def _unknown_version(version: object) -> DecodeError:
    return DecodeError(f"unknown schema version {str(version)[:40]!r}, this release reads {SCHEMA_VERSION}", "v")


def _named(error: msgspec.ValidationError, data: bytes) -> DecodeError:
    """The same complaint with its field apart, or the unknown version that explains it."""
    try:
        version = msgspec.json.decode(data, type=_Version).v
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        version = SCHEMA_VERSION
    if version != SCHEMA_VERSION:
        return _unknown_version(version)
    text = str(error)
    where = _AT.search(text)
    if where is None:
        missing = re.search(r"missing required field `([^`]+)`", text)
        return DecodeError(text, missing.group(1) if missing else "")
    return DecodeError(_AT.sub("", text), where.group(1))


def _unreadable(error: Exception, data: bytes) -> DecodeError:
    """No JSON. Python and others write NaN and infinity all the same: those are named."""
    found: list[str] = []
    with contextlib.suppress(ValueError, RecursionError):
        _find_constants(json.loads(data, parse_constant=_Constant), "", found)
    if found:
        return DecodeError("not a finite number", found[0])
    return DecodeError(f"unknown format: {error}")


class _Constant(str):
    """A NaN or an infinity, by its name."""


def _find_constants(value: object, path: str, found: list[str]) -> None:
    if isinstance(value, _Constant):
        found.append(path)
    elif isinstance(value, dict):
        for name, inner in value.items():
            _find_constants(inner, f"{path}.{name}" if path else name, found)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _find_constants(inner, f"{path}[{index}]", found)


@cache
def _number_fields(kind: type[Record]) -> tuple[str, ...]:
    """The fields of a record that may hold numbers with a fraction, by themselves or inside."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return tuple(field.name for field in info.fields if "FloatType" in repr(field.type))


def _finite(value: object) -> bool:
    """Whether no number in it is a NaN or an infinity."""
    if value is None:
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, tuple):
        if value and type(value[0]) is float:
            try:
                return all(map(math.isfinite, value))
            except TypeError:  # some are null
                pass
        return all(map(_finite, value))
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    fields = getattr(value, "__struct_fields__", ())
    return all(_finite(getattr(value, name)) for name in fields)
