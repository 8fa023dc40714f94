"""How a text file is written: its encoding, what parts its columns, and which sign is the decimal one."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from producers.cells import BLANKS
from streamgp.errors import DatasetError

DELIMITERS = ",;\t|"
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "blank"}
#: the longer ones first: that of UTF-32 begins as that of UTF-16
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_COMMA_DECIMAL = re.compile(
    r"\s*[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),(?:\d{1,2}|\d{4,})\s*|\s*[+-]?\d{1,3}(?:\.\d{3})+,\d+\s*"
)
_COMMA_EITHER = re.compile(r"\s*[+-]?\d{1,3},\d{3}\s*|\s*[+-]?0,\d+\s*")
_DOT_DECIMAL = re.compile(
    r"\s*[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)\.(?:\d{1,2}|\d{4,}|\d*[eE][+-]?\d+)\s*|\s*[+-]?0\.\d+\s*"
)


@dataclass(frozen=True)
class Dialect:
    """``told`` says what was found, for people."""

    encoding: str
    delimiter: str
    decimal: str

    @property
    def told(self) -> str:
        parting = _NAMES.get(self.delimiter, self.delimiter)
        return f"{self.encoding}, columns parted by {parting}, decimal {self.decimal!r}"


def detect(sample: bytes, *, delimiter: str | None = None, decimal: str | None = None) -> Dialect:
    """The dialect of a file by its first bytes.

    Parameters
    ----------
    sample
        The file's beginning; a last line that is cut off does no harm.
    delimiter, decimal
        Where they are known already.

    Raises
    ------
    DatasetError
        If the file is no text.

    Examples
    --------
    >>> detect(b"\\xef\\xbb\\xbfstation;time;pm25\\r\\nA;2024-03-01 17:00;12,5\\r\\n")
    Dialect(encoding='utf-8-sig', delimiter=';', decimal=',')
    """
    encoding = _encoding(sample)
    lines = sample.decode(encoding, errors="ignore").splitlines()
    lines = [line for line in (lines[:-1] if len(lines) > 2 else lines) if line.strip()]
    if not lines:
        raise DatasetError("the file is empty")
    parting = delimiter or _delimiter(lines)
    rows = list(csv.reader(lines, delimiter=parting))
    return Dialect(encoding, parting, decimal or _decimal(rows[1:], parting))


def _encoding(sample: bytes) -> str:
    for bom, name in _BOMS:
        if sample.startswith(bom):
            return name
    if b"\x00" in sample:
        raise DatasetError("the file is no text")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _delimiter(lines: Sequence[str]) -> str:
    """The sign by which the most rows have as many columns as the header; more columns win a tie."""
    best, score = ",", (0.0, 0)
    for candidate in DELIMITERS:
        widths = [len(row) for row in csv.reader(lines[:1000], delimiter=candidate)]
        if widths[0] < 2:
            continue
        same = Counter(widths)[widths[0]] / len(widths)
        if (same, widths[0]) > score:
            best, score = candidate, (same, widths[0])
    return best


def _decimal(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """A comma where numbers have one that cannot group thousands and none has such a dot."""
    commas = dots = either = 0
    for row in rows:
        for cell in (text.translate(BLANKS) for text in row):
            if "," in cell:
                commas += _COMMA_DECIMAL.fullmatch(cell) is not None
                either += _COMMA_EITHER.fullmatch(cell) is not None
            elif "." in cell:
                dots += _DOT_DECIMAL.fullmatch(cell) is not None
    if commas > dots:
        return ","
    return "," if either and not dots and delimiter != "," else "."
