"""What a training client must not lose: its own block, and the update that went with it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final
from zipfile import BadZipFile

import numpy as np

from streamgp.errors import CheckpointError
from streamgp.gp.gaussian import Array

VERSION = 1


@dataclass(frozen=True, slots=True)
class Saved:
    """A client after its answer to ``round`` of ``run``: its block, and the answer's bytes to send again."""

    run: str
    round: int
    own: dict[str, Array]
    update: bytes
    noised: int = 0
    """Rounds in which it sent something, for the noise's seed and the privacy spent."""


class Store(Protocol):
    """Keeps one :class:`Saved`."""

    def load(self) -> Saved | None:
        """The last one saved."""

    def save(self, saved: Saved) -> None:
        """Keep it; when this returns it survives a kill."""


@final
class MemoryStore:
    """Keeps it as long as the process lives."""

    def __init__(self) -> None:
        self._saved: Saved | None = None

    def load(self) -> Saved | None:
        return self._saved

    def save(self, saved: Saved) -> None:
        self._saved = saved


@final
class FileStore:
    """Keeps it in one file, replaced as a whole. Arrays and text only: nothing in it is ever executed.

    Raises
    ------
    CheckpointError
        By ``load``, if the file is damaged, holds anything else, or is of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Saved | None:
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            version = int(arrays.pop("version"))
            if version != VERSION:
                raise CheckpointError(f"{self.path}: version {version}, this release reads {VERSION}")
            own = {name[4:]: a for name, a in arrays.items() if name.startswith("own.")}
            run, update = str(arrays["run"]), arrays["update"].tobytes()
            return Saved(run, int(arrays["round"]), own, update, int(arrays["noised"]))
        except (OSError, ValueError, KeyError, BadZipFile, EOFError) as error:
            raise CheckpointError(f"{self.path} is no snapshot of a training client: {error}") from error

    def save(self, saved: Saved) -> None:
        arrays = {f"own.{name}": a for name, a in saved.own.items()}
        update = np.frombuffer(saved.update, dtype=np.uint8)
        fresh = self.path.with_name(self.path.name + ".new")
        with fresh.open("wb") as file:
            np.savez(
                file,
                version=np.array(VERSION),
                run=np.array(saved.run),
                round=np.array(saved.round),
                noised=np.array(saved.noised),
                update=update,
                **arrays,  # type: ignore[arg-type]  # names of arrays, none of which is savez's own
            )
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)
