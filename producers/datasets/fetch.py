"""Fetch a public file once, check it, bring it into the project's layout and keep it in the user's cache."""

from __future__ import annotations

import gzip
import hashlib
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO

import pyarrow
import pyarrow.csv
import pyarrow.parquet
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from producers.datasets.sources import RECIPES, Original, Recipe
from streamgp.errors import DatasetError
from streamgp.experiments.tables import Columns, cache_folder, find_file

_CHUNK = 1 << 16


def locate(file: str) -> Path:
    """Path of a data file: where it lies already, else in the cache after its download.

    Raises
    ------
    DatasetError
        If it is nowhere and cannot be fetched: no network, other bytes than expected, another shape.
    """
    try:
        return find_file(file)
    except DatasetError:
        if file not in RECIPES:
            raise
    return fetch(file, RECIPES[file], folder=cache_folder())


def fetch(file: str, recipe: Recipe, *, folder: Path, timeout_s: float = 30.0) -> Path:
    """Download, check, convert and store one data file; a half-done one never stands under its name.

    Raises
    ------
    DatasetError
        As :func:`locate`.
    """
    _tell(f"{file}: {recipe.note}")
    with tempfile.TemporaryDirectory() as scratch:
        paths = [
            _download(original, Path(scratch) / f"{i}", timeout_s=timeout_s)
            for i, original in enumerate(recipe.originals)
        ]
        try:
            columns = recipe.build(paths)
        except (ValueError, KeyError, IndexError, StopIteration, OSError, NotImplementedError) as error:
            raise DatasetError(f"{file}: what was downloaded is not what it was: {error}") from error
    shape = (len(next(iter(columns.values()))), len(columns))
    if shape != (recipe.rows, recipe.columns):
        raise DatasetError(f"{file}: {shape[0]} x {shape[1]} instead of {recipe.rows} x {recipe.columns}")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{file}.", delete=False) as target:
        half = Path(target.name)
        try:
            _write(columns, target, file)
        except BaseException:
            half.unlink()
            raise
    half.replace(folder / file)
    return folder / file


def _download(original: Original, to: Path, *, timeout_s: float) -> Path:
    digest = hashlib.sha256()
    name = original.url.rsplit("/", 1)[-1]
    try:
        with (
            urllib.request.urlopen(original.url, timeout=timeout_s) as answer,
            to.open("wb") as out,
            _bar() as bar,
        ):
            length = answer.headers.get("Content-Length")
            task = bar.add_task(name, total=int(length) if length else None)
            while chunk := answer.read(_CHUNK):
                digest.update(chunk)
                out.write(chunk)
                bar.update(task, advance=len(chunk))
            size = out.tell()
    except (urllib.error.URLError, OSError) as error:
        cause = getattr(error, "reason", error)
        if isinstance(error, urllib.error.HTTPError):
            cause = error
            error.close()
        raise DatasetError(
            f"cannot download {original.url}: {cause}. Without a network, put the file into a folder and name "
            f"that in STREAMGP_DATA"
        ) from error
    if length and size != int(length):
        raise DatasetError(f"{original.url}: {size} bytes came instead of {length}")
    if original.sha256 is None:
        _tell(f"{name}: no checksum is known for this file; only its shape is checked (sha256 {digest.hexdigest()})")
    elif digest.hexdigest() != original.sha256:
        raise DatasetError(f"{original.url}: sha256 {digest.hexdigest()} instead of {original.sha256}")
    return to


def _write(columns: Columns, target: IO[bytes], file: str) -> None:
    table = pyarrow.table({name: pyarrow.array(values, from_pandas=True) for name, values in columns.items()})
    if file.endswith(".parquet"):
        pyarrow.parquet.write_table(table, target, compression="zstd")
        return
    with gzip.GzipFile(fileobj=target, mode="wb", mtime=0) as packed:
        pyarrow.csv.write_csv(table, packed)


def _bar() -> Progress:
    """On a terminal a bar; elsewhere nothing that moves."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _tell(line: str) -> None:
    print(line, file=sys.stderr)
