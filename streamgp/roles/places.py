"""Whether a place can be true, where the settings or a set of data say that a station stands there."""

from __future__ import annotations

import math
from typing import NamedTuple


class Region(NamedTuple):
    """A box of degrees north and east; ``lon_min > lon_max`` crosses the date line."""

    lat_min: float = -90.0
    lat_max: float = 90.0
    lon_min: float = -180.0
    lon_max: float = 180.0

    def holds(self, lat: float, lon: float) -> bool:
        """Whether the place lies inside, borders included."""
        if not self.lat_min <= lat <= self.lat_max:
            return False
        if self.lon_min <= self.lon_max:
            return self.lon_min <= lon <= self.lon_max
        return lon >= self.lon_min or lon <= self.lon_max


#: a place nearer to (0, 0) than this many degrees was never measured: no station stands there
NULL_ISLAND_DEG = 0.01


def check_location(lat: float, lon: float, region: Region | None = None) -> str | None:
    """Why a station cannot stand at this place, or None where it can.

    Parameters
    ----------
    lat, lon
        Degrees north and east.
    region
        Where stations of this network are said to be.

    Examples
    --------
    >>> check_location(53.43, -6.25)
    >>> check_location(144.96, -37.81)
    'latitude out of range: swapped?'
    >>> check_location(47.72, 87.41, Region(lon_min=-100, lon_max=-70))
    'outside region: sign?'
    """
    if not (math.isfinite(lat) and math.isfinite(lon)):
        return "not finite"
    if abs(lat) < NULL_ISLAND_DEG and abs(lon) < NULL_ISLAND_DEG:
        return "null island"
    if abs(lat) > 90:
        return "latitude out of range: swapped?" if abs(lon) <= 90 and abs(lat) <= 180 else "latitude out of range"
    if abs(lon) > 180:
        return "longitude out of range"
    if region is None or region.holds(lat, lon):
        return None
    if region.holds(-lat, lon) or region.holds(lat, -lon) or region.holds(-lat, -lon):
        return "outside region: sign?"
    if region.holds(lon, lat):
        return "outside region: swapped?"
    return "outside region"
