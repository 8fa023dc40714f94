"""What the network layer is asked, and what it says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Asked:
    """What the cloud knows of one station at the step it answers: see :meth:`NetworkLayer.step`.

    ``mean``, ``variance`` (latent) and ``noise_variance`` are the station's own forecast for ``target_ms``, in physical
    units; ``fused_mean`` is the cloud's product for the same query, if there is one; ``level`` and ``spread``
    are the mean and standard deviation of the station's scale. ``innovation`` is the standardised error of the
    station's last forecast of the same horizon, None where it is not known.
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
    """Whether a forecast can be corrected: finite, with a positive variance."""
    total = a.variance + a.noise_variance
    return bool(np.isfinite(a.mean) and np.isfinite(total) and total > 0.0)


def unchanged(a: Asked) -> Correction:
    """The local forecast as it is."""
    return Correction(
        station=a.station, target_ms=a.target_ms, mean=a.mean, variance=a.variance,
        noise_variance=a.noise_variance, shift=0.0, ratio=1.0, weights=(1.0, 0.0, 0.0, 0.0), silent=(), dropped=(),
    )  # fmt: skip
