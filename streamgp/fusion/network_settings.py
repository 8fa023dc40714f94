"""How the network layer learns, as one frozen value."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamgp.errors import SettingsError

#: each station keeps a row of so many: what beyond this is a slip of the pen
MOST_CANDIDATES = 10_000


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Settings of :class:`~streamgp.fusion.network.NetworkLayer`; the defaults were chosen by measuring.

    Parameters
    ----------
    n_sources, n_candidates
        Sources per station (0: its own errors alone), and stations among which they are looked for at a time.
    clip
        Innovations beyond this many standard deviations count as this many.
    forgetting, ridge
        Discounts per step, and prior precisions of the sources' weights (a tenth for a station's own errors);
        every pair is a model of the mixture.
    mixture_memory, hedge_memory, harm_memory
        Discounts of past success: among the models, between with and without the network, and of each source.
    handicap
        Squared standardised error that a correction must save before it is used.
    budget
        Of the squared error of a station's local forecasts, the share that corrections may add to it since the start.
    harm_threshold
        A source is dropped once it has made things worse by this many standard errors.
    warm_up
        Errors learned before anything is corrected.
    refresh, review
        Learned steps between two rebuilds of the weights, and between two choices of the sources.
    volatility_ridge, volatility_memory
        Prior precision and discount of the log-linear model of the variance.

    Raises
    ------
    SettingsError
        If a value is out of range.

    Examples
    --------
    >>> NetworkSettings(n_sources=4).n_sources
    4
    """

    n_sources: int = 16
    n_candidates: int = 64
    clip: float = 5.0
    forgetting: tuple[float, ...] = (0.998, 0.9998)
    ridge: tuple[float, ...] = (100.0, 1000.0)
    mixture_memory: float = 0.998
    hedge_memory: float = 0.9995
    harm_memory: float = 0.98
    handicap: float = 5.0
    budget: float = 0.015
    harm_threshold: float = 2.5
    warm_up: int = 20
    refresh: int = 10
    review: int = 50
    volatility_ridge: float = 20.0
    volatility_memory: float = 0.9995

    def __post_init__(self) -> None:
        for name in ("n_sources", "n_candidates", "warm_up", "refresh", "review"):
            if isinstance(getattr(self, name), bool) or not isinstance(getattr(self, name), int):
                raise SettingsError(f"{name} must be an integer, got {getattr(self, name)!r}")
        for name in ("forgetting", "ridge"):
            if not isinstance(getattr(self, name), tuple) or not getattr(self, name):
                raise SettingsError(f"{name} must be a tuple of at least one number, got {getattr(self, name)!r}")
        if not 0 <= self.n_sources <= self.n_candidates <= MOST_CANDIDATES:
            raise SettingsError(
                f"n_sources must be between 0 and n_candidates, n_candidates at most {MOST_CANDIDATES:,}, "
                f"got {self.n_sources} and {self.n_candidates}"
            )
        single = ("clip", "mixture_memory", "hedge_memory", "harm_memory", "handicap", "budget", "harm_threshold")
        for name in (*single, "volatility_ridge", "volatility_memory", "forgetting", "ridge"):
            values = getattr(self, name)
            for value in values if isinstance(values, tuple) else (values,):
                if isinstance(value, bool) or not isinstance(value, (int, float)):
                    raise SettingsError(f"{name} must be a number, got {value!r}")
        for name in ("clip", "harm_threshold", "volatility_ridge"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise SettingsError(f"{name} must be positive and finite")
        memories = (self.mixture_memory, self.hedge_memory, self.harm_memory, self.volatility_memory)
        if not all(0.0 < m <= 1.0 for m in (*self.forgetting, *memories)):
            raise SettingsError("every forgetting factor and memory must lie in (0, 1]")
        if not all(0.0 < r < math.inf for r in self.ridge):
            raise SettingsError("ridge must hold positive numbers")
        for name in ("handicap", "budget"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise SettingsError(f"{name} must be finite and not negative")
        if min(self.refresh, self.review) < 1 or self.warm_up < 0:
            raise SettingsError("refresh and review must be at least 1, warm_up not negative")
