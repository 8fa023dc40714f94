"""Fits of a study in a file beside its table, so that a study that was cut off goes on where it was."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import streamgp

#: (seed, method) of a fit
Key: TypeAlias = tuple[int, str]
#: what decides a fit's numbers, below the package
_DECIDING = ("gp/hierarchy", "gp/linalg.py", "models/hgp", "models/hierarchical.py", "experiments/hierarchical")
#: and what of it only tells them
_TELLING = ("kept.py", "scenarios.py", "faults.py", "waveforms.py", "zones.py", "__init__.py")


def code_mark() -> str:
    """A mark of the code that makes the fits: fits of other code are not gone on with."""
    root, mark = Path(streamgp.__file__).parent, sha256()
    for name in _DECIDING:
        at = root / name
        for file in sorted(at.glob("*.py")) if at.is_dir() else [at]:
            if file.name not in _TELLING:
                mark.update(file.read_bytes())
    return mark.hexdigest()[:12]


class Kept:
    """Metrics by seed and method in a CSV, written fit by fit.

    Lines that another version of the code made, or that a kill cut short, are left out when it is opened.

    Parameters
    ----------
    path
        The file; it is made if there is none.
    metrics
        Their names, in the order of the columns.
    mark
        Of the code; see :func:`code_mark`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "fits.csv"
    ...     Kept(file, ["rmse"], mark="a").add((0, "full"), {"rmse": 0.25})
    ...     Kept(file, ["rmse"], mark="a").fits, Kept(file, ["rmse"], mark="b").fits
    ({(0, 'full'): {'rmse': 0.25}}, {})
    """

    def __init__(self, path: Path, metrics: Iterable[str], *, mark: str) -> None:
        self._path, self._metrics, self._mark = path, tuple(metrics), mark
        self.fits: dict[Key, dict[str, float]] = dict(self._read()) if path.exists() else {}
        part = path.with_suffix(".part")
        with part.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("mark", "seed", "method", *self._metrics))
            writer.writerows(self._row(key, found) for key, found in self.fits.items())
        part.replace(path)

    def add(self, key: Key, found: dict[str, float]) -> None:
        """Keep the metrics of one fit, at once."""
        self.fits[key] = found
        with self._path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(self._row(key, found))

    def _row(self, key: Key, found: dict[str, float]) -> list[str]:
        return [self._mark, str(key[0]), key[1], *(repr(found[name]) for name in self._metrics)]

    def _read(self) -> Iterator[tuple[Key, dict[str, float]]]:
        with self._path.open(newline="") as file:
            if next(csv.reader(file), [])[3:] != list(self._metrics):
                return
            lines = file.read().splitlines(keepends=True)
        for row in csv.reader(line for line in lines if line.endswith("\n")):
            try:
                mark, seed, method, *values = row
                numbers = [float(v) for v in values]
            except ValueError:
                continue
            if mark == self._mark and len(numbers) == len(self._metrics) and not any(map(math.isnan, numbers)):
                yield (int(seed), method), dict(zip(self._metrics, numbers, strict=True))
