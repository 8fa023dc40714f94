"""The file of records that did not arrive: one JSON record a line, which a later run sends alone."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from streamgp.errors import DatasetError, DecodeError, SettingsError
from streamgp.wire.codec import decode
from streamgp.wire.log import Outgoing
from streamgp.wire.records import Observation


def read_left(path: Path) -> list[Observation] | None:
    """The records that an earlier run left, None where it left none.

    Raises
    ------
    DatasetError
        If the file cannot be read or holds something else.
    """
    try:
        data = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror}") from error
    if not data:
        return None
    observations = []
    for i, line in enumerate(data.splitlines(), start=1):
        try:
            observations.append(decode(line, Observation))
        except DecodeError as error:
            raise DatasetError(f"{path}, line {i} is no observation: {error}") from error
    return observations


def check_place(path: Path) -> None:
    """See that the file can be written, before anything is sent of which it would have to keep the rest.

    Raises
    ------
    SettingsError
        If its folder is not there or takes no file.
    """
    half = _half(path)
    try:
        half.open("ab").close()
        half.unlink()
    except OSError as error:
        raise SettingsError(f"--resume {path} cannot be written: {error.strerror}") from error


def write_left(path: Path, left: Iterable[Outgoing]) -> None:
    """Keep what did not arrive, in place of what the file held; where all arrived there is no file."""
    lines = [record.value for record in left if record.value is not None]
    if not lines:
        path.unlink(missing_ok=True)
        return
    half = _half(path)
    with half.open("wb") as file:
        file.write(b"\n".join(lines) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)


def _half(path: Path) -> Path:
    """Where the file is written until it is whole."""
    return path.with_name(f"{path.name}.half")
