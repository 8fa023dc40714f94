"""What the network layer is asked, and what it says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

LARGEST_TIME_MS = 2**56  # two million years; a few times as much is still an int64
_NUMBER, _WHOLE = (int, float, np.integer, np.floating), (int, np.integer)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the cloud knows of one station at the step it answers: see :meth:`NetworkLayer.step`.

    ``mean``, ``variance`` (latent) and ``noise_variance`` are the station's own forecast for ``target_ms``, in physical
    units; ``fused_mean`` is the cloud's product for the same query, if there is one; ``level`` and ``spread``
    are the mean and standard deviation of the station's scale. ``innovation`` is the standardised error of the
    station's last forecast of the same horizon, None where it is not known. Numbers that are not finite are taken for
    unknown, and a forecast that is none is handed back as it is.

    Raises
    ------
    TypeError
        If the station is no string, the time no integer, or a number none.
    ValueError
        If the time lies beyond 2^56 ms, or an integer beyond all floats.
    """

    station: str
    target_ms: int
    mean: float
    variance: float
    noise_variance: float
    innovation: float | None = None
    level: float | None = None
    spread: float | None = None
    fused_mean: float | None = None

    def __post_init__(self) -> None:
        check_station(self.station)
        check_time(self.target_ms, name="target_ms")
        for name in ("mean", "variance", "noise_variance"):
            if getattr(self, name) is None:
                raise TypeError(f"{name} of {self.station!r} must be a number, got None")
            check_number(getattr(self, name), name=name, station=self.station)
        for name in ("innovation", "level", "spread", "fused_mean"):
            check_number(getattr(self, name), name=name, station=self.station)


@dataclass(frozen=True, slots=True)
class Correction:
    """The forecast after the network has been heard, in the units of what was asked.

    ``shift`` is the expected next standardised error, ``ratio`` its variance: ``mean = local mean + shift x sd`` and
    both variances are ``ratio`` times the local ones, sd^2 being the local variance and noise variance together.
    ``weights`` says what the mean was mixed from (local, own, network, careful); ``silent`` names the sources that
    were integrated out because they had not spoken, ``dropped`` those that were because they had made things worse.
    """

    station: str
    target_ms: int
    mean: float
    variance: float
    noise_variance: float
    shift: float
    ratio: float
    weights: tuple[float, float, float, float]
    silent: tuple[str, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Influence:
    """How much one station's innovation moves another's forecast at present, for people to look at."""

    station: str
    source: str
    horizon_ms: int
    weight: float
    correlation: float
    harm: float
    dropped: bool


def is_usable(a: Asked) -> bool:
    """Whether a forecast can be corrected: finite, with a positive variance and neither part of it negative."""
    total = a.variance + a.noise_variance
    return bool(np.isfinite(a.mean) and np.isfinite(total) and total > 0.0 and min(a.variance, a.noise_variance) >= 0.0)


def unchanged(a: Asked) -> Correction:
    """The local forecast as it is."""
    return Correction(
        station=a.station, target_ms=a.target_ms, mean=a.mean, variance=a.variance,
        noise_variance=a.noise_variance, shift=0.0, ratio=1.0, weights=(1.0, 0.0, 0.0, 0.0), silent=(), dropped=(),
    )  # fmt: skip


def check_station(name: object) -> None:
    """Raise TypeError if this cannot be a station's name."""
    if not isinstance(name, str):
        raise TypeError(f"a station's name must be a string, got {name!r}")


def check_time(time_ms: object, *, name: str) -> None:
    """Raise TypeError if this is no integer, ValueError if it is beyond any calendar."""
    if not isinstance(time_ms, _WHOLE):
        raise TypeError(f"{name} must be an integer of milliseconds, got {time_ms!r}")
    if abs(int(time_ms)) > LARGEST_TIME_MS:
        raise ValueError(f"{name} must lie within 2^56 ms of 1970, got {time_ms}")


def check_number(value: object, *, name: str, station: str) -> None:
    """Raise TypeError if this is neither a number nor None, ValueError if no float can hold it."""
    if value is None:
        return
    if not isinstance(value, _NUMBER):
        raise TypeError(f"{name} of {station!r} must be a number or None, got {value!r}")
    try:
        float(value)
    except OverflowError as error:
        raise ValueError(f"{name} of {station!r} is larger than any float") from error


def check_told(told: Iterable[tuple[object, object]]) -> None:
    """Raise TypeError unless all are pairs of a station's name and a number or None."""
    for station, innovation in told:
        check_station(station)
        check_number(innovation, name="innovation", station=str(station))


def known_places(coordinates: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Station name to (latitude, longitude) as floats.

    Raises
    ------
    ValueError
        If one is no pair of degrees; NaN stands for unknown.
    """
    places = {}
    for name, at in coordinates.items():
        check_station(name)
        try:
            lat, lon = (float(degrees) for degrees in at)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the place of {name!r} must be (latitude, longitude), got {at!r}") from error
        if abs(lat) > 90.0 or abs(lon) > 360.0:
            raise ValueError(f"the place of {name!r} must be (latitude, longitude) in degrees, got {at!r}")
        places[name] = (lat, lon)
    return places
