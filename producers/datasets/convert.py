"""From the files of a public source to the project's own layout: one function a set, columns in, columns out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.csv
import scipy.io
import scipy.io.arff

from streamgp.experiments.tables import Columns


def from_csv(names: dict[str, str], paths: Sequence[Path]) -> Columns:
    """Columns of one comma-separated file under new names; old name -> new name, in the order wanted.

    A key ``#3`` is the fourth column, whatever its name.
    """
    table = pyarrow.csv.read_csv(paths[0])
    read = {f"#{i}": column for i, column in enumerate(table.columns)} | dict(
        zip(table.column_names, table.columns, strict=True)
    )
    return {new: _floats(read[old]) for old, new in names.items()}


def from_arff(names: Sequence[str], paths: Sequence[Path]) -> Columns:
    """Columns of one ARFF file, under these names."""
    rows, _ = scipy.io.arff.loadarff(str(paths[0]))
    columns: Columns = {}
    for new, old in zip(names, rows.dtype.names or (), strict=True):
        values = rows[old]
        words = values.dtype.kind == "S"
        columns[new] = np.array([value.decode() for value in values], dtype=object) if words else values.astype(float)
    return columns


def from_kin40k(paths: Sequence[Path]) -> Columns:
    """Training inputs and labels, test inputs and labels."""
    X = np.vstack([np.loadtxt(paths[0]), np.loadtxt(paths[2])])
    y = np.concatenate([np.loadtxt(paths[1]), np.loadtxt(paths[3])])
    trains = len(np.loadtxt(paths[1]))
    split = np.array(["train"] * trains + ["test"] * (len(y) - trains), dtype=object)
    return {f"x{j + 1}": X[:, j] for j in range(X.shape[1])} | {"y": y, "split": split}


def from_sarcos(paths: Sequence[Path]) -> Columns:
    """The one matrix of a MATLAB file: seven positions, velocities, accelerations and torques."""
    content = scipy.io.loadmat(str(paths[0]))
    matrix = next(value for key, value in content.items() if not key.startswith("__"))
    names = [f"{kind}{j}" for kind in ("q", "qd", "qdd", "tau") for j in range(1, 8)]
    return {name: matrix[:, j].astype(float) for j, name in enumerate(names)}


def from_beijing(paths: Sequence[Path]) -> Columns:
    """A file a station, four columns of local date and hour, NA where missing."""
    missing = pyarrow.csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    tables = [pyarrow.csv.read_csv(path, convert_options=missing) for path in paths]
    table = pyarrow.concat_tables(tables, promote_options="permissive")
    parts = [np.asarray(table.column(name).to_numpy(), dtype=np.int64) for name in ("year", "month", "day", "hour")]
    months = (parts[0] - 1970) * 12 + parts[1] - 1
    day = months.astype("datetime64[M]").astype("datetime64[D]") + (parts[2] - 1)
    time = day.astype("datetime64[ms]") + parts[3] * np.timedelta64(3_600_000, "ms")
    columns: Columns = {"station": _words(table.column("station")), "time": time}
    for name in ("PM2.5", "PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN"):
        columns[name] = _floats(table.column(name))
    return columns | {"wd": _words(table.column("wd")), "WSPM": _floats(table.column("WSPM"))}


def from_elecdemand(paths: Sequence[Path]) -> Columns:
    """Half-hours from 2014-01-01 on, without times of their own."""
    names = {"Demand": "demand", "WorkDay": "workday", "Temperature": "temperature"}
    columns = from_csv(names, paths)
    steps = np.arange(len(columns["demand"])) * np.timedelta64(1_800_000, "ms")
    return {"time": np.datetime64("2014-01-01T00:00", "ms") + steps, **columns}


def from_solent(paths: Sequence[Path]) -> Columns:
    """A MATLAB file a station: y (n, 4), five minutes apart from 2013-07-01 on; -1 where missing."""
    stations = ("bramblemet", "cambermet", "chimet", "sotonmet")
    values = [scipy.io.loadmat(str(path))["y"].astype(float) for path in paths]
    steps = [np.arange(len(block)) * np.timedelta64(300_000, "ms") for block in values]
    whole = np.vstack(values)
    whole[whole == -1.0] = np.nan
    station = np.repeat(np.array(stations, dtype=object), [len(block) for block in values])
    time = np.datetime64("2013-07-01T00:00", "ms") + np.concatenate(steps)
    return {"station": station, "time": time} | {
        name: whole[:, j] for j, name in enumerate(("wspd", "wd", "gst", "atmp"))
    }


def _floats(column: Any) -> npt.NDArray[np.float64]:
    if pyarrow.types.is_string(column.type):
        column = pyarrow.compute.utf8_trim_whitespace(column)
    return np.asarray(column.cast(pyarrow.float64()).to_numpy(), dtype=np.float64)


def _words(column: Any) -> npt.NDArray[Any]:
    return np.array(column.to_pylist(), dtype=object)
