"""What a study reports: rows of a table, the same columns for every paper, as CSV and on a terminal."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import final

from rich.console import Console
from rich.table import Table

COLUMNS = ("study", "setting", "method", "metric", "ours", "spread", "paper")


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One number of a study beside the paper's.

    Parameters
    ----------
    study
        Name of the study.
    setting
        What was varied, in words: ``alpha=0.15``.
    method
        What was measured.
    metric
        How: ``mse``, ``rmse``, ``nlpd``, ...
    ours
        Our number, a mean over the repetitions.
    spread
        Standard deviation over the repetitions; None for a single run.
    paper
        The paper's number; None where it has none.

    Examples
    --------
    >>> Row("functions", "n=40", "trimmed", "mse", ours=0.0013, paper=0.0236).cells()[4:]
    ('0.0013', '', '0.0236')
    """

    study: str
    setting: str
    method: str
    metric: str
    ours: float
    spread: float | None = None
    paper: float | None = None

    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of :data:`COLUMNS`; full precision, empty for None."""
        return tuple(_text(getattr(self, f.name)) for f in fields(self))


@final
@dataclass(frozen=True, slots=True)
class Report:
    """All that a study found.

    Parameters
    ----------
    rows
        The table.
    notes
        What a reader must know to judge it: settings that the paper does not state, partial data, what failed.

    Examples
    --------
    >>> Report([Row("s", "all", "ours", "mse", 1.0)]).rows[0].ours
    1.0
    """

    rows: Sequence[Row]
    notes: Sequence[str] = ()


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write the table with the header :data:`COLUMNS`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(row.cells() for row in rows)


def show(report: Report, console: Console) -> None:
    """Print the table, ours beside the paper's, and the notes under it."""
    table = Table(*COLUMNS[1:])
    for row in report.rows:
        table.add_row(row.setting, row.method, row.metric, *(_short(x) for x in (row.ours, row.spread, row.paper)))
    console.print(table)
    for note in report.notes:
        console.print(f"- {note}", highlight=False)


def _text(value: str | float | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else repr(float(value))


def _short(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "" if value is None else "nan"
    return f"{value:.4g}"
