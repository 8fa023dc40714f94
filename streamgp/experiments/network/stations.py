"""The sensor networks of the study as arrays: a column a station, a row a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.experiments.tables import Columns, find_file, read_columns
from streamgp.gp.gaussian import Array

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class SensorNetwork:
    """Readings of N stations on one grid of T times.

    Parameters
    ----------
    name
        What the table calls it.
    stations
        N names, in alphabetical order.
    time_ms : (T,)
        Event times, a step apart.
    y : (T, N)
        Readings in physical units, NaN where missing.
    step_ms
        The step.
    places
        Station name to (latitude, longitude) in degrees, where known.
    """

    name: str
    stations: tuple[str, ...]
    time_ms: NDArray[np.int64]
    y: Array
    step_ms: int
    places: dict[str, tuple[float, float]]

    @property
    def unit(self) -> Array:
        """(N,) standard deviation of each station's readings: errors are counted in it."""
        return np.asarray(np.nanstd(self.y, axis=0))

    def until(self, steps: int) -> SensorNetwork:
        """The first steps alone."""
        return SensorNetwork(self.name, self.stations, self.time_ms[:steps], self.y[:steps], self.step_ms, self.places)


def irish_wind() -> SensorNetwork:
    """Daily mean wind speed at 12 Irish stations, 1961-1978."""
    columns = read_columns(find_file("irish_wind.csv.gz"))
    names = tuple(sorted(name for name in columns if name != "date"))
    y = np.column_stack([columns[name] for name in names])
    where = read_columns(find_file("irish_wind_stations.csv"))
    return SensorNetwork("irish-wind", names, _ms(columns["date"]), y, DAY_MS, _places(where, "code"))


def german_pm10() -> SensorNetwork:
    """Daily mean PM10 at the rural German stations with 60% of the days or more, 1998-2009."""
    columns = read_columns(find_file("de_pm10.csv.gz"))
    network = _grid("de-pm10", columns["station"], _ms(columns["date"]), columns["pm10"], DAY_MS)
    kept = np.isfinite(network.y).mean(axis=0) >= 0.6
    names = tuple(name for name, keep in zip(network.stations, kept.tolist(), strict=True) if keep)
    places = _places(read_columns(find_file("de_pm10_stations.csv")), "station")
    return SensorNetwork("de-pm10", names, network.time_ms, network.y[:, kept], DAY_MS, places)


def beijing(column: str, *, hours: int = 12_000) -> SensorNetwork:
    """One hourly column of Beijing's 12 stations, from 2013-03-01."""
    columns = read_columns(find_file("beijing_air_quality.parquet"))
    network = _grid(f"beijing {column}", columns["station"], _ms(columns["time"]), columns[column], HOUR_MS)
    return network.until(hours)


def solent() -> SensorNetwork:
    """Wind speed every five minutes at four sites on the Solent, two weeks of July 2013."""
    columns = read_columns(find_file("solent_weather.csv.gz"))
    return _grid("solent", columns["station"], _ms(columns["time"]), columns["wspd"], 300_000)


def _ms(times: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(times.astype("datetime64[ms]").astype(np.int64))


def _places(columns: Columns, key: str) -> dict[str, tuple[float, float]]:
    rows = zip(columns[key].tolist(), columns["lat"].tolist(), columns["lon"].tolist(), strict=True)
    return {str(name): (lat, lon) for name, lat, lon in rows}


def _grid(name: str, station: NDArray[Any], time_ms: NDArray[np.int64], y: Array, step_ms: int) -> SensorNetwork:
    """Long rows on a regular grid from the first time to the last."""
    names, column = np.unique(station.astype(str), return_inverse=True)
    first = int(time_ms.min())
    row = (time_ms - first) // step_ms
    values = np.full((int(row.max()) + 1, len(names)), np.nan)
    values[row, column] = y
    grid = first + step_ms * np.arange(len(values), dtype=np.int64)
    return SensorNetwork(name, tuple(names.tolist()), grid, values, step_ms, {})
