"""The file of records that did not arrive: one JSON record a line, which a later run sends alone."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from streamgp.errors import DatasetError, DecodeError
from streamgp.wire.codec import decode
from streamgp.wire.log import Outgoing
from streamgp.wire.records import Observation


def read_left(path: Path) -> list[Observation] | None:
    """The records that an earlier run left, None where it left none.

    Raises
    ------
    DatasetError
        If the file holds something else.
    """
    if not path.exists() or path.stat().st_size == 0:
        return None
    observations = []
    for i, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            observations.append(decode(line, Observation))
        except DecodeError as error:
            raise DatasetError(f"{path}, line {i} is no observation: {error}") from error
    return observations


def write_left(path: Path, left: Iterable[Outgoing]) -> None:
    """Keep what did not arrive, in place of what the file held; where all arrived there is no file."""
    lines = [record.value for record in left if record.value is not None]
    if not lines:
        path.unlink(missing_ok=True)
        return
    half = path.with_name(f"{path.name}.half")
    with half.open("wb") as file:
        file.write(b"\n".join(lines) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
