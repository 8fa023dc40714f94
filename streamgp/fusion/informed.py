"""Lies of those who have seen the honest answers. Without a look they fall back on their own."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import final

import numpy as np

from streamgp.errors import SettingsError
from streamgp.fusion.liar import Answer, Scene
from streamgp.gp.gaussian import Array


class _Informed:
    """A lie that is the stronger for having seen the honest answers."""

    __slots__ = ()

    @property
    def needs_others(self) -> bool:
        """True."""
        return True


@final
@dataclass(frozen=True, slots=True)
class Alie(_Informed):
    """A little is enough (Baruch et al. 2019): the honest mean, moved by z honest standard deviations.

    Parameters
    ----------
    n_liars
        How many tell this lie; sets z so that the liars and the honest agents beyond them are a majority.
    z
        That number itself, instead.
    """

    n_liars: int = 1
    z: float | None = None

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """One answer inside the honest spread, the same for all liars who saw the same."""
        means, variances = scene.others
        if not len(means):
            return [answer.but(mean=answer.mean - (1.0 if self.z is None else self.z) * answer.spread)]
        z = self._z(len(means) + self.n_liars) if self.z is None else self.z
        return [answer.but(mean=means.mean(axis=0) - z * means.std(axis=0), variance=variances.mean(axis=0))]

    def _z(self, n: int) -> float:
        supporters = n // 2 + 1 - self.n_liars
        share = (n - self.n_liars - supporters) / (n - self.n_liars)
        return max(NormalDist().inv_cdf(min(max(share, 1e-3), 1 - 1e-3)), 0.0)


@final
@dataclass(frozen=True, slots=True)
class Mimic(_Informed):
    """Mimic (Karimireddy et al. 2022): every liar repeats the honest agent that lies farthest from the average."""

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """One copy of an honest answer, or one's own."""
        means, variances = scene.others
        if not len(means):
            return [answer]
        row = int(np.argmax(((means - means.mean(axis=0)) ** 2).sum(axis=1)))
        return [answer.but(mean=means[row].copy(), variance=variances[row].copy())]


@final
@dataclass(frozen=True, slots=True)
class Collusion(_Informed):
    """Colluding just inside the trimming bound: the farthest mean and the least variance that no cut reaches.

    All liars send the same answer. Its mean lies just inside the ``n_trim`` honest means on one side, its variance
    just inside the ``n_trim`` least honest ones: (6) keeps every liar, and (7) gives it the greatest weight.

    Parameters
    ----------
    n_trim
        The cut that is to be survived; by default the largest that n agents allow, (n - 1) // 4.
    n_liars
        How many collude; only used for that default.
    magnitude
        The side: positive for too high, negative for too low.
    """

    n_trim: int | None = None
    n_liars: int = 1
    magnitude: float = 1.0

    def __post_init__(self) -> None:
        if self.magnitude == 0.0 or not np.isfinite(self.magnitude):
            raise SettingsError("magnitude must be finite and not zero: its sign is the side")

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """One answer that a cut of ``n_trim`` keeps."""
        means, variances = scene.others
        side = np.sign(self.magnitude)
        n_trim = (len(means) + self.n_liars - 1) // 4 if self.n_trim is None else self.n_trim
        if len(means) <= n_trim:
            return [answer.but(mean=answer.mean + side * answer.spread)]
        mean = -side * _just_inside(-side * means, n_trim)
        return [answer.but(mean=mean, variance=_just_inside(variances, n_trim))]


def _just_inside(values: Array, n_trim: int) -> Array:
    """(m,) numbers that exactly ``n_trim`` of the (k, m) values lie below, and next to the greatest of those."""
    ordered = np.sort(values, axis=0)
    inner = ordered[n_trim]
    if n_trim == 0:
        return np.asarray(inner)
    outer = ordered[n_trim - 1]
    return np.asarray(outer + 1e-3 * (inner - outer))
