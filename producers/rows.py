"""The rows of a data file as dicts of cells: CSV, JSON lines or Parquet, packed or not; told apart by content."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, final

import msgspec
import pyarrow
import pyarrow.parquet

from producers.dialect import Dialect, detect
from streamgp.errors import DatasetError

Tell = Callable[[str], None]

_SAMPLE = 1 << 20
BREAKS_OFF = "the file breaks off"
_BREAKS = (OSError, EOFError, zlib.error)
_BATCH = 8_192


class Row(NamedTuple):
    """One row: the line (from 1) or row it stood on, its cells by column, or what is wrong with it."""

    line: int
    cells: dict[str, Any]
    fault: str | None = None


class RowSource(Protocol):
    """A file that can be read more than once."""

    names: tuple[str, ...]
    dialect: Dialect | None

    def __iter__(self) -> Iterator[Row]: ...


def open_rows(path: Path, *, delimiter: str | None = None, decimal: str | None = None) -> RowSource:
    """The rows of a file.

    Raises
    ------
    DatasetError
        If it cannot be read, is empty, or has columns without or with equal names.
    """
    sample = _beginning(path)
    if sample.startswith(b"PAR1"):
        return ParquetRows(path)
    if not sample.strip():
        raise DatasetError(f"{path}: the file is empty")
    if sample.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return JsonRows(path)
    try:
        return CsvRows(path, detect(sample, delimiter=delimiter, decimal=decimal))
    except DatasetError as error:
        raise DatasetError(f"{path}: {error}") from error


@final
class CsvRows:
    """A text file of columns with a header line."""

    def __init__(self, path: Path, dialect: Dialect) -> None:
        self._path = path
        self.dialect: Dialect | None = dialect
        self._delimiter = dialect.delimiter
        self._encoding = dialect.encoding
        with self._text() as text:
            rows = csv.reader(text, delimiter=dialect.delimiter)
            try:
                header = next((row for row in rows if any(map(str.strip, row))), [])
            except (csv.Error, *_BREAKS) as error:
                raise DatasetError(f"{path}: the names of the columns cannot be read: {error}") from error
        self.names = _named([name.strip().lstrip("\ufeff") for name in header])

    def __iter__(self) -> Iterator[Row]:
        width = len(self.names)
        with self._text() as text:
            reader = csv.reader(text, delimiter=self._delimiter)
            header = True
            try:
                for row in reader:
                    if not row or (len(row) == 1 and not row[0].strip() and width > 1):
                        continue
                    if header:
                        header = False
                    elif len(row) != width:
                        cells = dict(zip(self.names, row, strict=False))
                        yield Row(reader.line_num, cells, f"{len(row)} columns instead of {width}")
                    else:
                        yield Row(reader.line_num, dict(zip(self.names, row, strict=True)))
            except csv.Error as error:
                yield Row(reader.line_num, {}, f"broken line: {error}")
            except _BREAKS as error:
                yield Row(reader.line_num, {}, f"{BREAKS_OFF}: {error}")

    def _text(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(_open(self._path), encoding=self._encoding, errors="replace", newline="")


@final
class JsonRows:
    """A JSON object a line, or one array of them; objects within become columns with dots in their names."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.dialect: Dialect | None = None
        names: dict[str, None] = {}
        fault = None
        for row, _ in zip(self, range(1000), strict=False):
            names.update(dict.fromkeys(row.cells if row.fault is None else ()))
            fault = fault or row.fault
        if fault and not names:
            raise DatasetError(f"{path}: {fault}")
        self.names = tuple(names)

    def __iter__(self) -> Iterator[Row]:
        with _open(self._path) as file:
            i = 0
            try:
                start = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
                file.seek(0)
                if start.startswith(b"["):
                    yield from self._array(file.read())
                    return
                for i, line in enumerate(file, start=1):
                    text = line.strip(b"\xef\xbb\xbf \t\r\n")
                    if text:
                        yield _json_row(i, text)
            except _BREAKS as error:
                yield Row(i + 1, {}, f"{BREAKS_OFF}: {error}")

    @staticmethod
    def _array(data: bytes) -> Iterator[Row]:
        try:
            items = msgspec.json.decode(data.strip(b"\xef\xbb\xbf \t\r\n"), type=list[msgspec.Raw])
        except msgspec.DecodeError as error:
            yield Row(1, {}, f"no JSON: {error}")
            return
        for i, item in enumerate(items, start=1):
            yield _json_row(i, bytes(item))


@final
class ParquetRows:
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.dialect: Dialect | None = None
        try:
            with pyarrow.parquet.ParquetFile(path) as file:
                self.schema = file.schema_arrow
        except (OSError, pyarrow.ArrowException) as error:
            raise DatasetError(f"{path}: {error}") from error
        self.names = _named(self.schema.names)

    def __iter__(self) -> Iterator[Row]:
        line = 0
        try:
            with pyarrow.parquet.ParquetFile(self._path) as file:
                for batch in file.iter_batches(_BATCH):
                    columns = [_microseconds(column).to_pylist() for column in batch.columns]
                    for values in zip(*columns, strict=True):
                        line += 1
                        yield Row(line, dict(zip(self.names, values, strict=True)))
        except (OSError, ValueError, OverflowError, pyarrow.ArrowException) as error:
            yield Row(line + 1, {}, f"the file is damaged: {error}")


def _microseconds(column: Any) -> Any:
    """Times in ns as us: Python's own have no more."""
    kind = column.type
    if pyarrow.types.is_timestamp(kind) and kind.unit == "ns":
        return column.cast(pyarrow.timestamp("us", tz=kind.tz), safe=False)
    return column


def is_single_precision(source: RowSource, column: str) -> bool:
    """Whether a column is stored in single or half precision, in which an epoch is off by a minute or more."""
    if not isinstance(source, ParquetRows):
        return False
    kind = source.schema.field(column).type
    return bool(pyarrow.types.is_float32(kind) or pyarrow.types.is_float16(kind))


def raw(row: Row) -> bytes:
    """The row as one JSON object, for the dead letter."""
    return json.dumps(row.cells, default=str, ensure_ascii=False).encode()


def _beginning(path: Path) -> bytes:
    """The first bytes; where a packed file breaks off, those before the break."""
    sample = b""
    try:
        with _open(path) as file:
            # read1, not read: what could be unpacked before the break is given out before it is told
            while len(sample) < _SAMPLE and (chunk := file.read1(1 << 16)):
                sample += chunk
    except EOFError as error:
        if not sample.strip():
            raise DatasetError(f"{path}: packed, and {BREAKS_OFF} before its first row ({error})") from error
    except (OSError, zlib.error) as error:
        raise DatasetError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return sample


def _open(path: Path) -> Any:
    """The file's bytes, unpacked where it is packed."""
    file = path.open("rb")
    try:
        packed = file.peek(2)[:2] == b"\x1f\x8b"
    except BaseException:
        file.close()
        raise
    if not packed:
        return file
    file.close()
    return gzip.open(path, "rb")


def _named(names: Sequence[str]) -> tuple[str, ...]:
    """Column names; those without one are called by their place."""
    named = tuple(name or f"column_{i}" for i, name in enumerate(names, start=1))
    if doubled := sorted({name for name in named if named.count(name) > 1}):
        raise DatasetError(f"several columns are called {', '.join(doubled)}")
    return named


def _json_row(line: int, text: bytes) -> Row:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return Row(line, {"": text.decode(errors="replace")}, f"no JSON: {error}")
    if not isinstance(value, dict):
        return Row(line, {"": value}, "no JSON object")
    return Row(line, _flat(value))


def _flat(value: dict[str, Any]) -> dict[str, Any]:
    """Objects within as columns ``outer.inner``; lists stay."""
    cells: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, dict):
            cells.update({f"{name}.{key}": cell for key, cell in _flat(inner).items()})
        else:
            cells[name] = inner
    return cells
