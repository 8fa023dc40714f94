"""Where the stations stand."""

from __future__ import annotations

from typing import NamedTuple

from streamgp.roles.places import Region as Region
from streamgp.roles.places import check_location as check_location


class Place(NamedTuple):
    """A station's place, degrees north and east (WGS84), and its full name."""

    lat: float
    lon: float
    title: str = ""
