"""Snapshots: nested plain values and arrays as checksummed bytes, and a folder that keeps the last two of them.

The layout is fixed, so that a snapshot can be read years later and without this package: 8 bytes ``STREAMGP``,
a version (2 bytes) and two zero bytes, the length of the payload (8 bytes), all big-endian; the payload, which is
MessagePack; and the SHA-256 of all before it. In the payload extension type 1 is an array (dtype as NumPy writes
it, a zero byte, the number of dimensions in one byte, each in 8 bytes, the raw values in C order) and type 2 an
integer of more than 64 bits as decimal text. Nothing of it is ever executed: no pickle.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, final

import msgspec
import numpy as np

from streamgp.errors import CheckpointError, FencedError
from streamgp.wire.lock import try_lock

VERSION = 1
_MAGIC = b"STREAMGP"
_HEAD = struct.Struct(">8sHxxQ")
_DIGEST = 32
_ARRAY, _LONG = 1, 2
#: dtype kinds that are numbers; an array of objects would need pickle
_NUMBERS = frozenset("biufc")
_NAME = re.compile(r"snapshot-(\d{12,15})\.sgp")


def pack(state: Mapping[str, Any]) -> bytes:
    """The bytes of a state made of None, booleans, numbers, text, bytes, lists, dicts and arrays of numbers.

    Raises
    ------
    CheckpointError
        If it holds anything else.

    Examples
    --------
    >>> state = {"rows": np.eye(2), "none": None, "far": float("inf"), "names": ["A", "B"]}
    >>> back = unpack(pack(state))
    >>> back["rows"].tobytes() == state["rows"].tobytes(), back["far"], back["names"]
    (True, inf, ['A', 'B'])
    """
    try:
        payload = _encoder.encode(state)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"this cannot be kept in a snapshot: {error}") from error
    framed = _HEAD.pack(_MAGIC, VERSION, len(payload)) + payload
    return framed + hashlib.sha256(framed).digest()


def unpack(data: bytes) -> dict[str, Any]:
    """The state that :func:`pack` made these bytes of; tuples come back as lists.

    Raises
    ------
    CheckpointError
        If they are no snapshot, cut short, changed, or of a newer version.
    """
    if len(data) < _HEAD.size or data[:8] != _MAGIC:
        raise CheckpointError("no snapshot: unknown format" if data[:8] != _MAGIC[: len(data)] else "cut short")
    _, version, length = _HEAD.unpack_from(data)
    whole = _HEAD.size + length + _DIGEST
    if len(data) < whole:
        raise CheckpointError(f"cut short: {len(data)} bytes of {whole}")
    if hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:] or len(data) > whole:
        raise CheckpointError("damaged: its checksum does not match")
    if version != VERSION:
        age = "newer" if version > VERSION else "unknown"
        raise CheckpointError(f"of a {age} version, {version}; this release reads {VERSION}")
    try:
        state = _decoder.decode(memoryview(data)[_HEAD.size : -_DIGEST])
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"damaged: {error}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"damaged: it holds a {type(state).__name__}")
    return state


def _kept(value: Any) -> Any:
    """What MessagePack does not know by itself."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _NUMBERS:
            raise TypeError(f"an array of {value.dtype}")
        array = np.asarray(value, order="C")
        kind = array.dtype.str.encode()
        shape = b"".join(size.to_bytes(8, "big") for size in array.shape)
        return msgspec.msgpack.Ext(_ARRAY, kind + b"\0" + bytes([array.ndim]) + shape + array.tobytes())
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if isinstance(value, int):
        return msgspec.msgpack.Ext(_LONG, str(value).encode())
    raise TypeError(f"a {type(value).__name__}")


def _found(code: int, data: memoryview) -> Any:
    if code == _LONG:
        return int(bytes(data).decode())
    if code != _ARRAY:
        raise ValueError(f"unknown extension {code}")
    raw = bytes(data)
    kind, _, rest = raw.partition(b"\0")
    dtype = np.dtype(kind.decode())
    if dtype.kind not in _NUMBERS or not rest:
        raise ValueError(f"an array of {dtype}")
    start = 1 + 8 * rest[0]
    shape = tuple(int.from_bytes(rest[at : at + 8], "big") for at in range(1, start, 8))
    if len(rest) - start != dtype.itemsize * math.prod(shape):
        raise ValueError("an array of another size than it says")
    return np.frombuffer(rest, dtype=dtype, offset=start).reshape(shape).copy()


def _plain(value: Any) -> Any:
    """Long integers, which MessagePack would refuse before it asks, wrapped."""
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if type(value) is int and not -(2**63) <= value < 2**63:
        return _kept(value)
    return value


class _Encoder:
    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_kept)

    def encode(self, state: Mapping[str, Any]) -> bytes:
        try:
            return self._encoder.encode(state)
        except OverflowError:
            return self._encoder.encode(_plain(dict(state)))


_encoder = _Encoder()
_decoder = msgspec.msgpack.Decoder(ext_hook=_found)


class SnapshotStore(Protocol):
    """Where the snapshots of one role are kept: at least the last two."""

    def save(self, number: int, data: bytes) -> None:
        """Keep a snapshot for good, whole or not at all, and the one before it; numbers grow.

        Raises
        ------
        CheckpointError
            If it could not be kept; those before it are untouched.
        """

    def load(self) -> list[tuple[int, bytes]]:
        """Numbers and bytes of what is kept, the newest first; damage is the reader's to find."""

    def numbers(self) -> list[int]:
        """Those of :meth:`load`, without what is in them."""

    def forget(self, before: int) -> None:
        """Let those with smaller numbers go for good: they are of a life that is over.

        Raises
        ------
        CheckpointError, LogError
            If they could not be; the others are untouched.
        """

    def close(self) -> None:
        """Let go."""


@final
class FolderStore:
    """The last two snapshots of one role in a folder that only one process uses at a time.

    A snapshot is written beside the others, flushed to the disk and then renamed, and the folder is flushed as
    well: after a power cut there is the old one or the new one, never a half.

    Raises
    ------
    FencedError
        If another process uses the folder.
    CheckpointError
        If the folder cannot be made or written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = FolderStore(Path(folder) / "A")
    ...     for number in (1, 2, 3):
    ...         store.save(number, pack({"n": number}))
    ...     [(number, unpack(data)["n"]) for number, data in store.load()]
    ...     store.close()
    [(3, 3), (2, 2)]
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            held = try_lock(folder / "lock")
        except OSError as error:
            raise CheckpointError(f"the state folder {folder} cannot be used: {error.strerror}") from error
        if held is None:
            raise FencedError(
                f"another process uses the state folder {folder}: does this role run twice? This one must stop"
            )
        self._lock = held

    def save(self, number: int, data: bytes) -> None:
        path, part = self._path(number), self.folder / "snapshot.part"
        try:
            with part.open("wb") as out:
                with suppress(OSError):  # some file systems know no modes
                    os.fchmod(out.fileno(), 0o600)  # it holds the rows that the model was learned from
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            part.rename(path)
            self._sync()
            for old in [n for n in self._numbers() if n < number][1:]:
                self._path(old).unlink(missing_ok=True)
        except OSError as error:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise CheckpointError(f"snapshot {number} was not written to {self.folder}: {error.strerror}") from error

    def load(self) -> list[tuple[int, bytes]]:
        try:
            return [(number, self._path(number).read_bytes()) for number in self._numbers()]
        except OSError as error:
            raise CheckpointError(f"the state folder {self.folder} cannot be read: {error.strerror}") from error

    def numbers(self) -> list[int]:
        try:
            return self._numbers()
        except OSError as error:
            raise CheckpointError(f"the state folder {self.folder} cannot be read: {error.strerror}") from error

    def forget(self, before: int) -> None:
        try:
            for old in self._numbers():
                if old < before:
                    self._path(old).unlink(missing_ok=True)
            self._sync()
        except OSError as error:
            raise CheckpointError(f"old snapshots in {self.folder} were not removed: {error.strerror}") from error

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _numbers(self) -> list[int]:
        found = (_NAME.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted((int(match.group(1)) for match in found if match), reverse=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"snapshot-{number:012d}.sgp"

    def _sync(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
