"""The bounds of Theorems 1 and 2 of the Byzantine-resilient paper, as numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from streamgp.errors import SettingsError
from streamgp.gp.gaussian import Array

Kappa: TypeAlias = Callable[[float], float]

_SLOPE_ROWS = 1500  # rows that the slope is estimated from: their pairs fit in memory


@final
@dataclass(frozen=True, slots=True)
class SquaredExponential:
    """kappa(s) = signal_variance exp(-s^2 / (2 lengthscale^2)): a kernel as a function of distance (Assumption 2).

    Examples
    --------
    >>> SquaredExponential(2.0, 0.5)(0.0)
    2.0
    """

    signal_variance: float
    lengthscale: float

    def __post_init__(self) -> None:
        if not (0.0 < self.signal_variance < math.inf and 0.0 < self.lengthscale < math.inf):
            raise SettingsError(f"need a positive variance and length, got {self.signal_variance}, {self.lengthscale}")

    def __call__(self, s: float) -> float:
        return self.signal_variance * math.exp(-0.5 * (s / self.lengthscale) ** 2)


@final
@dataclass(frozen=True, slots=True)
class Theory:
    """What the theorems suppose known: Assumptions 1-3 and the notation of Table 1.

    Parameters
    ----------
    kappa
        Kernel as a function of distance, decreasing; ``kappa(0)`` is the signal variance.
    noise_least, noise_greatest
        Least and greatest noise variance of the honest agents.
    sup_norm
        Largest absolute value of the latent function.
    lipschitz
        Its Lipschitz constant.
    beta
        Fraction cut at each end, in [0, 1/4).
    alpha
        Fraction of liars; ``beta`` if not given.
    delta
        The bounds on the mean hold with probability 1 - delta.

    Examples
    --------
    >>> t = Theory(SquaredExponential(1.0, 0.2), 0.01, 0.01, sup_norm=1.0, lipschitz=5.0, beta=0.15)
    >>> low, high = t.variance_bounds(0.01)
    >>> round(low, 4), round(high, 4)
    (0.0069, 0.0309)
    """

    kappa: Kappa
    noise_least: float
    noise_greatest: float
    sup_norm: float = 1.0
    lipschitz: float = 0.0
    beta: float = 0.0
    alpha: float | None = None
    delta: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 < self.noise_least <= self.noise_greatest < math.inf:
            raise SettingsError("need 0 < noise_least <= noise_greatest, finite")
        if self.alpha is not None and not 0.0 <= self.alpha <= self.beta:
            raise SettingsError(f"need 0 <= alpha <= beta, got {self.alpha} and {self.beta}")
        if not (0.0 <= self.beta < 0.25 and 0.0 < self.delta < 1.0):
            raise SettingsError(f"need beta in [0, 1/4) and delta in (0, 1), got {self.beta} and {self.delta}")
        if not (self.kappa(0.0) > 0.0 and 0.0 <= self.sup_norm < math.inf and 0.0 <= self.lipschitz < math.inf):
            raise SettingsError("need kappa(0) > 0, sup_norm >= 0 and lipschitz >= 0, finite")

    @property
    def signal_variance(self) -> float:
        """sigma_f^2 = kappa(0)."""
        return self.kappa(0.0)

    @property
    def spread(self) -> float:
        """sqrt(2 sigma^2 (ln 2 - ln delta)), the share of the noise in an error of a local mean (13)."""
        sf2 = self.signal_variance
        sigma = sf2 * math.sqrt(self.noise_greatest) / (sf2 + self.noise_least)
        return sigma * math.sqrt(2.0 * (math.log(2.0) - math.log(self.delta)))

    def local_error(self, dispersion: float) -> float:
        """Theta(d): bound of the error of an honest local mean, with probability 1 - delta (Lemma 4)."""
        sf2 = self.signal_variance
        shrink = 1.0 - self.kappa(dispersion) / (sf2 + self.noise_greatest)
        slope = sf2 * self.lipschitz * dispersion / (sf2 + self.noise_least)
        return shrink * self.sup_norm + slope + self.spread

    def attack_error(self, dispersion: float) -> float:
        """Delta(d): what the liars can add to it (Theorem 1, part I)."""
        sf2, worst, best = self.signal_variance, self.noise_greatest, self.noise_least
        alpha = self.beta if self.alpha is None else self.alpha
        ratio = (sf2**2 + sf2 * worst - self.kappa(dispersion) ** 2) / (sf2 * best)
        return ratio * 2.0 * alpha / (1.0 - 4.0 * self.beta) * self.local_error(dispersion)

    def variance_bounds(self, dispersion: float) -> tuple[float, float]:
        """Least and greatest fused variance (Theorem 1, part II; Theorem 2, part III)."""
        sf2, worst, best = self.signal_variance, self.noise_greatest, self.noise_least
        low = (1.0 - 2.0 * self.beta) * sf2 * best / (sf2 + worst)
        return low, (sf2 - self.kappa(dispersion) ** 2 / (sf2 + worst)) / (1.0 - 4.0 * self.beta)


def dispersion(Z: Array, region: Array) -> float:
    """Largest distance from a point of ``region`` (g, d) to the nearest row of ``Z`` (n, d): d^[i](t)."""
    if region.shape[0] == 0:
        raise ValueError("a region without points has no dispersion")
    if Z.shape[0] == 0:
        return math.inf
    from scipy.spatial import cKDTree  # a fifth of a second to import, for studies alone

    distance, _ = cKDTree(Z).query(region)
    return float(np.max(distance))


def estimate_lipschitz(Z: Array, y: Array, noise_variance: float) -> float:
    """Largest slope between two observations that their noise does not explain.

    The noise of the largest of p differences of two observations is about ``2 sigma_e sqrt(ln p)``; that much is
    taken off every difference. At most 1,500 rows, evenly spread, are compared.

    Parameters
    ----------
    Z : (n, d)
        Inputs.
    y : (n,)
        Observations there.
    noise_variance
        Variance of their noise.
    """
    if not 0.0 <= noise_variance < math.inf or not np.isfinite(y).all():
        raise ValueError(f"need finite observations and a noise variance that is one, got {noise_variance}")
    if len(y) < 2:
        return 0.0
    rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), _SLOPE_ROWS)).astype(np.intp))
    Zs, ys = Z[rows], y[rows]
    pairs = len(ys) * (len(ys) - 1) / 2
    explained = 2.0 * math.sqrt(noise_variance * math.log(pairs + 1.0))
    steepest = 0.0
    for i in range(len(ys) - 1):
        apart = np.sqrt(((Zs[i + 1 :] - Zs[i]) ** 2).sum(axis=1))
        rise = np.abs(ys[i + 1 :] - ys[i]) - explained
        slope = np.divide(rise, apart, out=np.zeros_like(rise), where=apart > 0)
        steepest = max(steepest, float(slope.max()))
    return steepest
