"""What every fusion rule takes and gives: the checks at the door, and the value handed on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgp.errors import NoQuorumError
from streamgp.gp.gaussian import Array

Mask: TypeAlias = NDArray[np.bool_]

#: A variance outside these, or a mean beyond the limit, is no answer of any model: the square of the one and the
#: ratio of two of the other are the largest numbers that a rule computes, and must stay finite.
VARIANCE_LIMITS = (1e-150, 1e150)
MEAN_LIMIT = 1e150

MEAN_NOT_FINITE = "mean is not finite"
MEAN_ABSURD = "mean is absurd"
VARIANCE_NOT_FINITE = "variance is not finite"
VARIANCE_NOT_POSITIVE = "variance is not positive"
VARIANCE_ABSURD = "variance is absurd"


@final
@dataclass(frozen=True, slots=True)
class Fused:
    """What the cloud concludes at m points.

    Parameters
    ----------
    mean : (m,)
        Fused mean, in the units of the answers.
    variance : (m,)
        Fused variance of the latent function.
    kept : (n_agents, m)
        True where an agent's answer has a share in the result.
    note
        What the variance takes for granted; empty if nothing.

    Examples
    --------
    >>> import numpy as np
    >>> Fused(np.zeros(1), np.ones(1), np.array([[True], [False]])).counts
    array([1])
    """

    mean: Array
    variance: Array
    kept: Mask
    note: str = ""

    @property
    def counts(self) -> NDArray[np.int64]:
        """(m,) number of agents behind each point."""
        return np.asarray(self.kept.sum(axis=0), dtype=np.int64)


@final
@dataclass(frozen=True, slots=True)
class Usable:
    """Which answers may be fused at all.

    Parameters
    ----------
    mask : (n_agents, m)
        True where mean and variance are finite, positive and of a size that a model could give.
    reasons
        One text an agent: empty, or why some of its points are not usable.

    Examples
    --------
    >>> u = usable([[1.0], [float("nan")]], [[1.0], [1.0]])
    >>> u.agents, u.reasons
    (array([ True, False]), ('', 'mean is not finite'))
    """

    mask: Mask
    reasons: tuple[str, ...]

    @property
    def agents(self) -> Mask:
        """(n_agents,) True for those whose whole answer is usable."""
        return np.asarray(self.mask.all(axis=1))

    def counts(self) -> dict[str, int]:
        """How many agents were refused for each reason, in alphabetical order."""
        return dict(sorted(Counter(r for r in self.reasons if r).items()))


def usable(means: ArrayLike, variances: ArrayLike) -> Usable:
    """Tell answers that can be fused from those that cannot, before anything is sorted or compared.

    Parameters
    ----------
    means, variances : (n_agents, m)
        As they came; NaN and infinities allowed.
    """
    M, V = as_answers(means, variances)
    checks = (
        (MEAN_NOT_FINITE, ~np.isfinite(M)),
        (VARIANCE_NOT_FINITE, ~np.isfinite(V)),
        (VARIANCE_NOT_POSITIVE, np.isfinite(V) & (V <= 0)),
        (MEAN_ABSURD, np.isfinite(M) & (np.abs(M) > MEAN_LIMIT)),
        (VARIANCE_ABSURD, np.isfinite(V) & (V > 0) & ((VARIANCE_LIMITS[0] > V) | (VARIANCE_LIMITS[1] < V))),
    )
    failed = {reason: np.asarray(bad.any(axis=1)) for reason, bad in checks}
    reasons = tuple(", ".join(r for r, bad in failed.items() if bad[i]) for i in range(M.shape[0]))
    return Usable(usable_mask(M, V), reasons)


def usable_mask(M: Array, V: Array) -> Mask:
    """(n_agents, m) the mask of :func:`usable` alone; a NaN compares false."""
    ok: Mask = np.abs(M) <= MEAN_LIMIT
    ok &= VARIANCE_LIMITS[0] <= V
    ok &= VARIANCE_LIMITS[1] >= V
    return ok


def as_answers(means: ArrayLike, variances: ArrayLike) -> tuple[Array, Array]:
    """Both arguments as float64 arrays of one shape (n_agents, m).

    Raises
    ------
    ValueError
        If they are not numbers, not two-dimensional, differ in shape, or hold no agent.
    """
    M, V = numbers(means, "means"), numbers(variances, "variances")
    if M.ndim != 2 or M.shape != V.shape:
        raise ValueError(f"means and variances must both be (n_agents, m), got {M.shape} and {V.shape}")
    if M.shape[0] == 0:
        raise NoQuorumError("no agent answered")
    return M, V


def numbers(values: ArrayLike, name: str) -> Array:
    """``values`` as a float64 array; what a masked array hides is NaN.

    Raises
    ------
    ValueError
        If they are not real numbers, or rows of different lengths.
    """
    try:
        array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of numbers: {error}") from error
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be real numbers, got dtype {array.dtype}")
    if isinstance(array, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(array.astype(np.float64), np.nan))
    return np.asarray(array, dtype=np.float64)


def open_door(means: ArrayLike, variances: ArrayLike) -> tuple[Array, Array, Mask]:
    """Answers ready for a rule: unusable ones have mean 0 and variance infinity, and are false in the mask.

    Raises
    ------
    NoQuorumError
        If a point has no usable answer.
    """
    M, V = as_answers(means, variances)
    ok = usable_mask(M, V)
    if not ok.all():
        empty = np.flatnonzero(~ok.any(axis=0))
        if empty.size:
            raise NoQuorumError(f"no usable answer at {empty.size} of {ok.shape[1]} points, first at {empty[0]}")
        M, V = np.where(ok, M, 0.0), np.where(ok, V, np.inf)
    return M, V, ok


def per_point(value: ArrayLike, m: int, name: str) -> Array:
    """A variance, or an (m,) array of them, as an (m,) array."""
    array = numbers(value, name)
    if array.shape not in ((), (m,)):
        raise ValueError(f"{name} must be a number or of shape ({m},), got {array.shape}")
    if not ((array >= VARIANCE_LIMITS[0]).all() and (array <= VARIANCE_LIMITS[1]).all()):
        raise ValueError(f"{name} must be in [{VARIANCE_LIMITS[0]:g}, {VARIANCE_LIMITS[1]:g}]")
    return np.broadcast_to(array, (m,)).astype(np.float64)


def alone(fused: Fused, M: Array, V: Array, ok: Mask) -> Fused:
    """``fused``, but a point that one agent alone answered is that answer, unchanged."""
    single = ok.sum(axis=0) == 1
    if not single.any():
        return fused
    who = ok.argmax(axis=0)
    points = np.arange(ok.shape[1])
    return Fused(
        np.where(single, M[who, points], fused.mean),
        np.where(single, V[who, points], fused.variance),
        np.where(single, ok, fused.kept),
        fused.note,
    )
