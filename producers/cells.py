"""What a cell of a data file says: a number, nothing, or something that is no number."""

from __future__ import annotations

import math
import re
from decimal import Decimal

#: cells that say "not measured", compared without case and surrounding blanks
MISSING_WORDS = frozenset(
    {
        "", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "nil", "nd", "n.d.", "-", "--", "---", ".", "?",
        "*", "x", "missing", "unavailable", "unknown", "invalid", "no data", "nodata", "not available", "offline",
    }
)  # fmt: skip

#: what may group thousands beside the other decimal sign
BLANKS = str.maketrans("", "", " \u00a0\u202f'\u2019_")
_GROUPED_DOT = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+(?:,\d*)?")
_GROUPED_COMMA = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")


class NotANumberError(ValueError):
    """A cell that is neither a number nor a sign for a missing one."""


def is_missing(cell: object) -> bool:
    """Whether the cell says that nothing was measured.

    Examples
    --------
    >>> [is_missing(cell) for cell in ("", " ", "NA", "unavailable", None, float("nan"), "7.1", 0.0)]
    [True, True, True, True, True, True, False, False]
    """
    if cell is None:
        return True
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING_WORDS
    return isinstance(cell, float) and cell != cell


def number(cell: object, decimal: str = ".") -> float | None:
    """The number in a cell, None where it is missing, never 0.0 for what is not there.

    Parameters
    ----------
    cell
        Text, or a value that a typed format gave.
    decimal
        ``"."`` or ``","``. The other one, blanks and apostrophes may group thousands.

    Raises
    ------
    NotANumberError
        If the cell holds something else, an infinity or a boolean included.

    Examples
    --------
    >>> number("12,5", ","), number("1.234,5", ","), number("1,234.5"), number(" "), number("7 000")
    (12.5, 1234.5, 1234.5, None, 7000.0)
    """
    if isinstance(cell, str):
        try:
            value = float(cell) if decimal == "." else float(_with_dot(cell, decimal))
        except ValueError:
            if is_missing(cell):
                return None
            value = _grouped(cell, decimal)
    elif cell is None:
        return None
    elif isinstance(cell, bool):  # an int to Python, yet true is no measurement
        raise NotANumberError("not a number")
    elif isinstance(cell, (int, float, Decimal)):
        try:
            value = float(cell)
        except OverflowError:
            raise NotANumberError("not finite") from None
    else:
        raise NotANumberError("not a number")
    if value != value:
        return None
    if math.isinf(value):
        raise NotANumberError("not finite")
    return value


def _with_dot(cell: str, decimal: str) -> str:
    text = cell.strip()
    if "." in text:
        if not _GROUPED_DOT.fullmatch(text):
            raise ValueError("grouped some other way")
        text = text.replace(".", "")
    return text.replace(decimal, ".")


def _grouped(cell: str, decimal: str) -> float:
    text = cell.strip().translate(BLANKS)
    pattern, group = (_GROUPED_COMMA, ",") if decimal == "." else (_GROUPED_DOT, ".")
    if pattern.fullmatch(text):
        text = text.replace(group, "")
    try:
        return float(text.replace(decimal, "."))
    except ValueError:
        raise NotANumberError("not a number") from None
