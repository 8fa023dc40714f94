"""From a data file to observations in event-time order; what cannot be one is skipped by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, final

import msgspec

from producers.cells import NotANumberError, number
from producers.content import BROKEN, FAULTS, INVALID, MISSING, NO_STATION, SENTINEL, Content, FileOptions, Skipped
from producers.dates import TimeError, day_first, needs_day_first
from producers.mapping import Mapping, Wishes, find_mapping, our_mapping
from producers.rows import BREAKS_OFF, Row, RowSource, is_single_precision, open_rows, raw
from producers.suspects import Suspects
from producers.times import TimeReader, Unit
from streamgp.errors import DatasetError
from streamgp.wire.records import Observation

Tell: TypeAlias = Callable[[str], None]


#: rows by which columns are told apart
_SAMPLE_ROWS = 1_000


def read_file(path: Path, options: FileOptions | None = None, *, tell: Tell = lambda line: None) -> Content:
    """All observations of a file, oldest first; rows of one time stay in the file's order.

    Parameters
    ----------
    tell
        Called with each thing that was found out: dialect, columns, unit of times, empty columns.

    Raises
    ------
    DatasetError
        If the file cannot be read, or nothing tells what its columns are.
    """
    options = options or FileOptions()
    source = open_rows(path, delimiter=options.delimiter, decimal=options.decimal)
    decimal = options.decimal or "."
    if source.dialect is not None:
        decimal = source.dialect.decimal
        tell(f"{path.name}: {source.dialect.told}")
    sample = [row.cells for row in islice(source, _SAMPLE_ROWS) if row.fault is None]
    ours = our_mapping(source.names) if options.wishes == Wishes() else None
    first = None
    if not ours and needs_day_first(cell for row in sample for cell in row.values()):
        first = day_first(cell for row in source for cell in row.cells.values())

    def time_reader(told: Tell = lambda line: None) -> TimeReader:
        unit: Unit | None = "ms" if ours else options.time_unit
        return TimeReader(zone=options.zone, date_format=options.date_format, unit=unit, day_first=first, tell=told)

    mapping = ours or find_mapping(source.names, sample, options.wishes, decimal=decimal, times=time_reader)
    tell(f"{path.name}: {mapping.told}")
    if any(is_single_precision(source, column) for column in mapping.time):
        raise DatasetError(f"{path}: {mapping.time[0]} is in single precision: an epoch in it is off by up to 64 s")

    def about(line: str) -> None:
        tell(f"{path.name}: {line}")

    reader = _Reader(path, mapping, options, decimal=decimal, times=time_reader(about), tell=about)
    content = reader.read(source)
    for column in reader.empty():
        tell(f"{path.name}: column {column} is all missing")
    for line in reader.suspects.told():
        about(line)
    content.observations.sort(key=lambda observation: observation.time_ms)
    return content


@final
class _Reader:
    """Rows of one file to observations."""

    def __init__(
        self, path: Path, mapping: Mapping, options: FileOptions, *, decimal: str, times: TimeReader, tell: Tell
    ) -> None:
        self._name = path.name
        self._mapping = mapping
        self._options = options
        self._decimal = decimal
        self._times = times
        self._tell = tell
        self._alone = options.station_name or path.name.removesuffix(".gz").rsplit(".", 1)[0]
        self._x_names = [(name, name.removeprefix("x.")) for name in mapping.inputs]
        self.suspects = Suspects()
        self._filled: Counter[str] = Counter()
        self._rows = 0
        self._content = Content()

    def read(self, source: RowSource) -> Content:
        take = self._wide if self._mapping.shape == "wide" else self._long
        for row in source:
            if row.fault is not None:
                self._skip(row, BROKEN, row.fault)
                if row.fault.startswith(BREAKS_OFF):
                    self._tell(f"{row.fault} (line {row.line}); the rows before that are taken")
                continue
            try:
                take(row)
                self._rows += 1
            except TimeError as error:
                self._skip(row, str(error), self._mapping.time[0])
        return self._content

    def empty(self) -> list[str]:
        """Columns in which no row has a number."""
        columns = (*self._mapping.targets, *self._mapping.inputs)
        return [name for name in columns if self._rows and not self._filled[name]]

    def _wide(self, row: Row) -> None:
        time_ms = self._time(row, "")
        for name in self._mapping.targets:
            y = self._y(row, name, station=name)
            if y is not None:
                self._content.observations.append(self._made(row, station=name, time_ms=time_ms, x={}, y=y))

    def _long(self, row: Row) -> None:
        mapping = self._mapping
        station = self._alone if mapping.station is None else _text(row.cells.get(mapping.station))
        if not station:
            self._skip(row, NO_STATION, mapping.station or "")
            return
        time_ms = self._time(row, station)
        if mapping.flag is not None and not self._is_valid(row.cells.get(mapping.flag)):
            self._content.skipped[INVALID] += 1
            return
        if len(mapping.targets) == 1 and not isinstance(row.cells.get(mapping.targets[0]), list):
            y: float | tuple[float | None, ...] | None = self._y(row, mapping.targets[0], station=station)
        else:
            y = self._several(row, station)
        if y is None:
            return
        x = {short: self._x(row, name, station) for name, short in self._x_names if name in row.cells}
        self._content.observations.append(self._made(row, station=station, time_ms=time_ms, x=x, y=y))

    def _made(self, row: Row, *, station: str, time_ms: int, x: dict[str, float | None], y: Any) -> Observation:
        unit = self._options.unit
        if self._mapping.unit is not None:
            unit = _text(row.cells.get(self._mapping.unit)) or unit
        return Observation(station=station, time_ms=time_ms, x=x, y=y, unit=unit or msgspec.UNSET)

    def _time(self, row: Row, station: str) -> int:
        columns = self._mapping.time
        if len(columns) == 1:
            return self._times.read(row.cells.get(columns[0]), station=station)
        return self._times.read(" ".join(_text(row.cells.get(name)) for name in columns), station=station)

    def _y(self, row: Row, name: str, *, station: str) -> float | None:
        """The target's number; None after its absence was counted by reason."""
        try:
            value = number(row.cells.get(name), self._decimal)
        except NotANumberError as error:
            self._skip(row, str(error), name, station)
            return None
        if value is None:
            self._content.missing[name] += 1
            self._content.skipped[MISSING] += 1
            return None
        self._filled[name] += 1
        if self._is_sentinel(value, station):
            self._content.skipped[SENTINEL] += 1
            return None
        self.suspects.note(name, value)
        return value

    def _several(self, row: Row, station: str) -> tuple[float | None, ...] | None:
        """Several targets, or a list in one; None after it was counted that none is there."""
        names = self._mapping.targets
        cell = row.cells.get(names[0])
        cells = cell if len(names) == 1 and isinstance(cell, list) else [row.cells.get(name) for name in names]
        values: list[float | None] = []
        for i, value in enumerate(cells):
            name = names[i] if len(names) > 1 else names[0]
            try:
                read = number(value, self._decimal)
            except NotANumberError as error:
                self._skip(row, str(error), name, station)
                return None
            self._content.missing[name] += read is None
            self._filled[name] += read is not None
            values.append(None if read is None or self._is_sentinel(read, station) else read)
        if all(value is None for value in values):
            self._content.skipped[MISSING] += 1
            return None
        return tuple(values)

    def _x(self, row: Row, name: str, station: str) -> float | None:
        """An input's number; what is none is missing, and leaves the row as it is."""
        try:
            value = number(row.cells.get(name), self._decimal)
        except NotANumberError:
            value = None
        if value is None:
            self._content.missing[name] += 1
            return None
        self._filled[name] += 1
        return None if self._is_sentinel(value, station) else value

    def _is_sentinel(self, value: float, station: str) -> bool:
        named = (*self._options.sentinels, *self._options.station_sentinels.get(station, ()))
        return any(abs(value - sentinel) <= 1e-6 * abs(sentinel) for sentinel in named) if named else False

    def _is_valid(self, flag: object) -> bool:
        text = _text(flag)
        if text in self._options.valid:
            return True
        try:
            return float(text) in {float(value) for value in self._options.valid}
        except ValueError:
            return False

    def _skip(self, row: Row, reason: str, field: str, station: str = "") -> None:
        self._content.skipped[reason] += 1
        if reason in FAULTS:
            station = station or _text(row.cells.get(self._mapping.station or "")) or self._alone
            self._content.faults.append(Skipped(self._name, row.line, reason, field, station, raw(row)))


def _text(cell: object) -> str:
    """A cell as a name: without blanks around it, whole numbers without a fraction."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()
