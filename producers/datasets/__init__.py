"""Named data sets: observations of sensor stations in event-time order, and tables for regression.

``irish-wind`` and ``de-pm10`` ship in this folder (``SOURCES.md`` names their source). The others are read from
the folder that the environment variable ``STREAMGP_DATA`` names, or downloaded once into the user's cache
(``STREAMGP_CACHE`` names another folder).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from producers.datasets.places import Place, Region, check_location
from producers.datasets.registry import NAMES
from producers.datasets.select import Selection, load_table, places_of, select
from producers.times import When
from streamgp.experiments.tables import Part, Table
from streamgp.wire.records import Observation

__all__ = [
    "NAMES",
    "Place",
    "Region",
    "Selection",
    "Table",
    "check_location",
    "observations",
    "select",
    "stations",
    "table",
]


def observations(
    name: str,
    target: str | Sequence[str] | None = None,
    stations: Sequence[str] | None = None,
    start: When | None = None,
    end: When | None = None,
    limit: int | None = None,
) -> Iterator[Observation]:
    """Observations of a named set in event-time order across its stations.

    Parameters
    ----------
    name
        One of :data:`NAMES`. A regression set is one station of its own name, a row a second.
    target
        Column that becomes y (several, comma-separated or as a list: y is an array); default: the set's usual
        one. All other columns of numbers travel in x. Rows without any target are left out.
    stations
        Only these; default all.
    start, end
        Only ``start <= time < end``: ms since 1970 UTC, a year, month, date or time as text, or a datetime.
        Without an offset it is local time of the set.
    limit
        At most so many observations in all.

    Raises
    ------
    DatasetError
        If the set, a target or a station is unknown, a time cannot be read, or the file can neither be found nor
        downloaded.

    Examples
    --------
    >>> first = next(observations("irish-wind"))
    >>> first.station, first.y
    ('RPT', 15.04)
    """
    return iter(select(name, target=target, stations=stations, start=start, end=end, limit=limit))


def stations(name: str) -> dict[str, Place]:
    """Where the stations of a set of series stand, by the name their observations carry.

    Empty where the set does not tell.

    Raises
    ------
    DatasetError
        If the set is unknown.

    Examples
    --------
    >>> stations("irish-wind")["VAL"]
    Place(lat=51.93333, lon=-10.25, title='Valentia')
    """
    return places_of(name)


def table(name: str, *, target: str | None = None, part: Part | None = None, fold: int | None = None) -> Table:
    """A regression set as (X (n, d), y (n,), names); see :func:`streamgp.experiments.tables.table`."""
    return load_table(name, target=target, part=part, fold=fold)
