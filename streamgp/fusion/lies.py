"""Lies that need no look at the others' answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from streamgp.errors import SettingsError
from streamgp.fusion.liar import Answer, Scene

_UNUSABLE_MEANS = (np.nan, np.inf, -np.inf, 1e300)
_UNUSABLE_VARIANCES = (np.nan, np.inf, 0.0, -1.0, 1e-300, 1e300)


class _Alone:
    """A lie that is the same with or without a look at the others."""

    __slots__ = ()

    @property
    def needs_others(self) -> bool:
        """False."""
        return False


@final
@dataclass(frozen=True, slots=True)
class SameValue(_Alone):
    """Same-value attack (Li et al. 2019; section 6.1.1): every mean is ``magnitude``, variances stay."""

    magnitude: float = 100.0

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """One answer of one value."""
        return [answer.but(mean=np.full_like(answer.mean, self.magnitude))]


@final
@dataclass(frozen=True, slots=True)
class GaussianLie(_Alone):
    """Gaussian attack (Li et al. 2019): means drawn from N(0, magnitude^2), variances stay."""

    magnitude: float = 100.0

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """One answer of noise."""
        return [answer.but(mean=self.magnitude * scene.dice.standard_normal(answer.mean.shape))]


@final
@dataclass(frozen=True, slots=True)
class BitFlip(_Alone):
    """Bit-flipped attack (Karimireddy et al. 2022): the sign bit of every mean is flipped, times ``magnitude``."""

    magnitude: float = 1.0

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """One answer of the wrong sign."""
        return [answer.but(mean=-self.magnitude * answer.mean)]


@final
@dataclass(frozen=True, slots=True)
class WrongVariance(_Alone):
    """A mean that is wrong by ``magnitude`` standard deviations, with a variance scaled by ``variance_factor``.

    A tiny factor buys the liar nearly all of the weight of a plain product; a huge one hides its error from every
    check that divides by the claimed variance.
    """

    magnitude: float = 10.0
    variance_factor: float = 1e-6

    def __post_init__(self) -> None:
        if not 0.0 < self.variance_factor < np.inf:
            raise SettingsError(f"variance_factor must be positive and finite, got {self.variance_factor}")

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """One answer that is off by much and claims to be sure, or unsure."""
        return [
            answer.but(
                mean=answer.mean + self.magnitude * answer.spread, variance=answer.variance * self.variance_factor
            )
        ]


@final
@dataclass(frozen=True, slots=True)
class PerQuery(_Alone):
    """A different lie per query: direction, size up to ``magnitude`` standard deviations, and claimed variance."""

    magnitude: float = 20.0

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """One answer, off by the throw of this query's dice."""
        dice = scene.dice
        off = dice.choice((-1.0, 1.0)) * dice.uniform(0.1, 1.0) * self.magnitude
        factor = 10.0 ** dice.uniform(-3.0, 1.0)
        return [answer.but(mean=answer.mean + off * answer.spread, variance=answer.variance * factor)]


@final
@dataclass(frozen=True, slots=True)
class Silence(_Alone):
    """No answer at all."""

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """Nothing."""
        return []


@final
@dataclass(frozen=True, slots=True)
class Flood(_Alone):
    """``copies`` different wrong answers to the query, and ``unasked`` ones to queries that nobody asked."""

    copies: int = 20
    unasked: int = 5
    magnitude: float = 10.0

    def __post_init__(self) -> None:
        if self.copies < 0 or self.unasked < 0:
            raise SettingsError("copies and unasked must not be negative")

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """Many answers."""
        sent = []
        for k in range(self.copies + self.unasked):
            off = self.magnitude * scene.dice.standard_normal(answer.mean.shape) * answer.spread
            name = answer.query_id if k < self.copies else f"{answer.query_id}-unasked-{k - self.copies}"
            sent.append(answer.but(mean=answer.mean + off, query_id=name))
        return sent


@final
@dataclass(frozen=True, slots=True)
class NotANumber(_Alone):
    """NaN, infinities, and variances that are zero, negative or absurd, at a random half of the points or more."""

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """One answer that cannot be used."""
        dice, shape = scene.dice, answer.mean.shape
        hit = dice.random(shape) < 0.5
        if not hit.any() and hit.size:
            hit[dice.integers(hit.size)] = True
        in_mean = dice.random(shape) < 0.5
        mean = np.where(hit & in_mean, dice.choice(_UNUSABLE_MEANS, size=shape), answer.mean)
        variance = np.where(hit & ~in_mean, dice.choice(_UNUSABLE_VARIANCES, size=shape), answer.variance)
        return [answer.but(mean=mean, variance=variance)]
