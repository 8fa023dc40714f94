"""The named data sets that are series: which file, which columns, whose clock."""

from __future__ import annotations

from dataclasses import dataclass

from producers.datasets.places import Region
from streamgp.errors import DatasetError
from streamgp.experiments.tables import LAYOUTS


@dataclass(frozen=True)
class Series:
    """A set of observations with times.

    ``station`` names the column with the station; without it the file is wide (a column a station,
    ``quantity`` is what they measure) or, when ``single`` is set, of one station of that name. Times of the
    file are local at ``utc_offset_h``. ``words`` are columns of compass points, read as degrees.
    """

    file: str
    time: str
    quantity: str
    unit: str
    citation: str
    station: str | None = None
    single: str | None = None
    places: str | None = None
    region: Region | None = None
    utc_offset_h: float = 0.0
    compass: tuple[str, ...] = ()


SERIES = {
    "irish-wind": Series(
        "irish_wind.csv.gz",
        time="date",
        quantity="wind",
        unit="knots",
        places="irish_wind_stations.csv",
        region=Region(51.0, 56.0, -11.0, -5.0),
        citation="Haslett and Raftery (1989), Applied Statistics 38(1); R package gstat 2.1, wind",
    ),
    "de-pm10": Series(
        "de_pm10.csv.gz",
        time="date",
        station="station",
        quantity="pm10",
        unit="ug/m3",
        places="de_pm10_stations.csv",
        region=Region(47.0, 55.5, 5.5, 15.5),
        citation="European Environment Agency, AirBase; R package spacetime 1.2, air",
    ),
    "beijing-air": Series(
        "beijing_air_quality.parquet",
        time="time",
        station="station",
        quantity="PM2.5",
        unit="ug/m3",
        utc_offset_h=8.0,
        compass=("wd",),
        citation="Zhang et al. (2017), Proc. R. Soc. A 473:20170457; UCI 501",
    ),
    "elecdemand": Series(
        "elecdemand.csv.gz",
        time="time",
        single="Victoria",
        quantity="demand",
        unit="GW",
        utc_offset_h=10.0,
        citation="AEMO and BoM; Hyndman and Athanasopoulos, fpp2",
    ),
    "solent": Series(
        "solent_weather.csv.gz",
        time="time",
        station="station",
        quantity="wspd",
        unit="knots",
        citation="Bramblemet, Cambermet, Chimet and Sotonmet; Nguyen and Bonilla (2014), UAI",
    ),
}

#: every name that :func:`producers.datasets.observations` knows
NAMES = tuple(sorted({*SERIES, *LAYOUTS}))


def series_of(name: str) -> Series:
    """The entry of a set of series.

    Raises
    ------
    DatasetError
        If there is none of that name.
    """
    if name not in SERIES:
        raise DatasetError(f"no data set is called {name!r}; there are {', '.join(NAMES)}")
    return SERIES[name]
