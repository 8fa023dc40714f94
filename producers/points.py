"""The points of a query: a grid, or the rows of a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice, product
from pathlib import Path

import numpy as np

from producers.cells import NotANumberError, number
from producers.rows import open_rows
from streamgp.errors import DatasetError, SettingsError

Points = list[tuple[float, ...]]

#: a grid larger than this is a slip of the hand
MAX_POINTS = 1_000_000


def grid(text: str) -> tuple[tuple[str, ...], Points]:
    """Names of the columns and all points of ``name=lo:hi:n,...``; the last name varies fastest.

    Raises
    ------
    SettingsError
        If the text is no grid, or one too large.

    Examples
    --------
    >>> grid("lon=-10:-6:2,lat=52:54:3")
    (('lon', 'lat'), [(-10.0, 52.0), (-10.0, 53.0), (-10.0, 54.0), (-6.0, 52.0), (-6.0, 53.0), (-6.0, 54.0)])
    """
    axes: dict[str, list[float]] = {}
    for part in text.split(","):
        name, equals, bounds = part.strip().partition("=")
        pieces = bounds.split(":")
        try:
            low, high = float(pieces[0]), float(pieces[1 if len(pieces) > 1 else 0])
            count = int(pieces[2]) if len(pieces) > 2 else 1
        except ValueError:
            raise SettingsError(f"--grid: {part.strip()!r} is not name=lo:hi:n") from None
        if not (name and equals) or len(pieces) > 3 or count < 1 or not math.isfinite(low + high):
            raise SettingsError(f"--grid: {part.strip()!r} is not name=lo:hi:n")
        if name in axes:
            raise SettingsError(f"--grid: {name} is named twice")
        axes[name] = np.linspace(low, high, count).tolist()
    total = math.prod(len(values) for values in axes.values())
    if total > MAX_POINTS:
        raise SettingsError(f"--grid: {total} points are more than {MAX_POINTS}")
    return tuple(axes), list(product(*axes.values()))


def from_file(path: Path, columns: Sequence[str] = ()) -> tuple[tuple[str, ...], Points]:
    """Names of the columns and the rows of a CSV, JSON lines or Parquet file.

    Parameters
    ----------
    columns
        Those to be used, in this order; default: all of the file.

    Raises
    ------
    DatasetError
        If a column is not there, or a cell holds no number: a query has no missing coordinates.
    """
    source = open_rows(path)
    decimal = source.dialect.decimal if source.dialect is not None else "."
    names = tuple(columns) or source.names
    if absent := [name for name in names if name not in source.names]:
        raise DatasetError(f"{path}: no column is called {', '.join(absent)}; there are {', '.join(source.names)}")
    points: Points = []
    for row in islice(source, MAX_POINTS + 1):
        if row.fault is not None:
            raise DatasetError(f"{path}, line {row.line}: {row.fault}")
        point = []
        for name in names:
            try:
                value = number(row.cells.get(name), decimal)
            except NotANumberError as error:
                raise DatasetError(f"{path}, line {row.line}: {name} is {error}") from error
            if value is None:
                raise DatasetError(f"{path}, line {row.line}: {name} is missing")
            point.append(value)
        points.append(tuple(point))
    if not points or len(points) > MAX_POINTS:
        raise DatasetError(f"{path}: between 1 and {MAX_POINTS} points are wanted")
    return names, points
