"""Reading the project's data files into arrays: where they lie, what a column is, which rows test.

Pure reading: nothing is downloaded here (``producers.datasets`` does that and leaves the files where
:func:`find_file` looks), and the studies need no producer.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.csv
import pyarrow.parquet

from streamgp.errors import DatasetError

Array: TypeAlias = npt.NDArray[np.float64]
#: column name -> (n,) values: float64, str (object) or datetime64[ms]
Columns: TypeAlias = dict[str, npt.NDArray[Any]]
Part: TypeAlias = Literal["train", "test"]

_SHIPPED = Path(__file__).resolve().parents[2] / "producers" / "datasets"


class Table(NamedTuple):
    """A regression set: X (n, d), y (n,) and the names of the d inputs."""

    X: Array
    y: Array
    names: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """How the file of a regression set is laid out.

    ``split`` and ``fold`` name the columns that hold a published split and ten test folds; ``codes`` turns a
    column of words into numbers.
    """

    file: str
    target: str
    outputs: tuple[str, ...] = ()
    split: str | None = None
    fold: str | None = None
    codes: tuple[tuple[str, tuple[str, ...]], ...] = ()


#: name -> layout. Abalone's sex is one column, M 1, F 2, I 3: the eight inputs that its users count.
LAYOUTS = {
    "abalone": Layout("abalone.csv.gz", "rings", codes=(("sex", ("M", "F", "I")),)),
    "cadata": Layout("california_housing.csv.gz", "median_house_value"),
    "casp": Layout("casp.csv.gz", "RMSD", fold="fold10"),
    "concrete": Layout("concrete.csv.gz", "strength", fold="fold10"),
    "kin40k": Layout("kin40k.csv.gz", "y", split="split", fold="fold10"),
    "kin8nm": Layout("kin8nm.csv.gz", "y"),
    "mg": Layout("mg.csv.gz", "y"),
    "sarcos": Layout("sarcos_test.csv.gz", "tau1", outputs=tuple(f"tau{j}" for j in range(1, 8))),
    "space-ga": Layout("space_ga.csv.gz", "ln_votes_pop"),
}


def data_folders() -> list[Path]:
    """Folders with data files, first come first: ``STREAMGP_DATA``, what ships, the user's cache."""
    named = [Path(part) for part in os.environ.get("STREAMGP_DATA", "").split(os.pathsep) if part]
    return [*named, _SHIPPED, cache_folder()]


def cache_folder() -> Path:
    """Where downloads are kept: ``STREAMGP_CACHE``, else the user's cache folder; it need not exist yet."""
    if own := os.environ.get("STREAMGP_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "streamgp"


def find_file(file: str) -> Path:
    """Path of a data file.

    Raises
    ------
    DatasetError
        If no folder of :func:`data_folders` has it.
    """
    for folder in data_folders():
        if (folder / file).is_file():
            return folder / file
    raise DatasetError(f"{file} is not in {', '.join(map(str, data_folders()))}")


def has_file(file: str) -> bool:
    """Whether :func:`find_file` would find it."""
    return any((folder / file).is_file() for folder in data_folders())


def files_of(name: str, part: Part | None = None) -> tuple[tuple[str, ...], ...]:
    """The files that a regression set needs; of each inner tuple the first at hand is read."""
    if name != "sarcos":
        return ((LAYOUTS[name].file,),)
    pieces = {"train": ("sarcos_train.csv.gz", "sarcos_partial.csv.gz"), "test": ("sarcos_test.csv.gz",)}
    return tuple(files for piece, files in pieces.items() if part in (None, piece))


def read_columns(path: Path) -> Columns:
    """The columns of a data file (comma-separated with a header, plain or .gz, or Parquet).

    Numbers are float64 with NaN where missing, times datetime64[ms] in UTC or as written, words objects.

    Raises
    ------
    DatasetError
        If the file cannot be read.
    """
    try:
        read = pyarrow.parquet.read_table if path.suffix == ".parquet" else pyarrow.csv.read_csv
        table = read(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    return {name: _values(table.column(name)) for name in table.column_names}


def table(name: str, *, target: str | None = None, part: Part | None = None, fold: int | None = None) -> Table:
    """A regression set as arrays, rows with a missing target left out.

    Parameters
    ----------
    name
        A key of :data:`LAYOUTS`.
    target
        Another output of the set than its usual one (``sarcos`` has seven torques).
    part
        Only the training or the test rows: by ``fold`` where given, else by the published split.
    fold
        Which of the ten folds (0-9) tests.

    Raises
    ------
    DatasetError
        If the set, target, split or fold is unknown, or the file is not there.
    """
    if name not in LAYOUTS:
        raise DatasetError(f"no regression set is called {name!r}; there are {', '.join(LAYOUTS)}")
    layout = LAYOUTS[name]
    chosen = target or layout.target
    if chosen not in (layout.outputs or (layout.target,)):
        raise DatasetError(f"{name} has no target {chosen!r}; it has {', '.join(layout.outputs or (layout.target,))}")
    if fold is not None and part is None:
        raise DatasetError("a fold needs part='train' or part='test'")
    if fold is not None and layout.fold is None:
        raise DatasetError(f"{name} has no folds")
    columns = _sarcos(part) if name == "sarcos" else read_columns(find_file(layout.file))
    apart = {layout.split, layout.fold, layout.target, *layout.outputs}
    names = tuple(column for column in columns if column not in apart)
    codes = dict(layout.codes)
    X = np.column_stack([_numbers(columns[column], codes.get(column)) for column in names])
    y = np.asarray(columns[chosen], dtype=np.float64)
    rows = ~np.isnan(y)
    if part is not None and name != "sarcos":
        rows &= _tested(name, layout, columns, fold) == (part == "test")
    return Table(X[rows], y[rows], names)


def _tested(name: str, layout: Layout, columns: Columns, fold: int | None) -> npt.NDArray[np.bool_]:
    """(n,) which rows test."""
    if fold is not None:
        if not 0 <= fold <= 9 or layout.fold not in columns:
            raise DatasetError(f"{name} has no fold {fold}, or this copy of it none at all")
        return np.asarray(columns[str(layout.fold)] == fold)
    if layout.split is None:
        raise DatasetError(f"{name} has no published split; name a fold")
    return np.asarray(columns[layout.split] == "test")


def _sarcos(part: Part | None) -> Columns:
    """SARCOS: the published test file, and for training the published file or else the part of it at hand.

    Rows of the part that also stand in the test file are left out of training.
    """
    keep = [f"{kind}{j}" for kind in ("q", "qd", "qdd", "tau") for j in range(1, 8)]
    pieces: list[Columns] = []
    if part != "test":
        if has_file("sarcos_train.csv.gz"):
            train = read_columns(find_file("sarcos_train.csv.gz"))
        else:
            train = read_columns(find_file("sarcos_partial.csv.gz"))
            fresh = train["in_test_file"] == 0
            train = {column: train[column][fresh] for column in keep}
        pieces.append(train)
    if part != "train":
        pieces.append(read_columns(find_file("sarcos_test.csv.gz")))
    return {column: np.concatenate([piece[column] for piece in pieces]) for column in keep}


def _numbers(values: npt.NDArray[Any], words: tuple[str, ...] | None) -> Array:
    if words is None:
        return np.asarray(values, dtype=np.float64)
    return np.array([words.index(value) + 1 for value in values], dtype=np.float64)


def _values(column: Any) -> npt.NDArray[Any]:
    """(n,) numpy values of an Arrow column."""
    kind = column.type
    if pyarrow.types.is_temporal(kind):
        return np.asarray(column.to_numpy(), dtype="datetime64[ms]")
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind):
        return np.asarray(column.cast(pyarrow.float64()).to_numpy(), dtype=np.float64)
    if pyarrow.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pyarrow.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    return np.asarray(column.to_numpy(), dtype=object)
