"""A second robust rule: it cuts what an agent's own record, or the others' answers, do not bear out.

Rule (6) cuts a fixed number at each end of the claimed variances: agents whose noise and length-scales make their
claims always the smallest or the largest are cut at every query, though they never lied. Here a claim is first
corrected by the agent's record of calibration; no claim buys more weight than the honest ones bear out; a mean
loses its weight only as far as it lies outside of what the others say; and a copy of another answer buys no second
vote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgp.fusion.blocks import by_points, middle, within
from streamgp.fusion.fused import VARIANCE_LIMITS, Fused, Mask, alone, numbers, open_door
from streamgp.fusion.sums import coarse_sum, order_free_sum
from streamgp.fusion.trimmed import check_quorum
from streamgp.gp.gaussian import Array

_FULL, _NONE = 2.0, 4.0  # robust z-scores up to which a mean has its full weight, and from which it has none
_TOO_LOW = 5.0  # robust z-score of a claim's logarithm that is out of all proportion
_MOST_OWN_SPREAD = 2.0  # times the typical claim: an agent may be this much farther off than the others, no more
_MAD_TO_SD = 1.4826  # of a Gaussian
_LEAST_LOG_SPREAD = 0.5  # a claim within a factor of 12 of the typical one is nothing strange
_SAME = 1e-6  # of a standard deviation, and of a variance itself: answers this near are copies
_LEAST_SPREAD = 0.25  # of the typical claimed standard deviation: agents that agree closely are not outliers


@final
@dataclass(frozen=True, slots=True)
class Calibration:
    """What the records say of the agents of one query.

    Parameters
    ----------
    factor : (n_agents,)
        Number that the claimed variance of each is to be multiplied with; 1 without a record.
    barred : (n_agents,)
        True for those whose record is so bad that nothing they claim is used.

    Raises
    ------
    ValueError
        If they are not of one length, or a factor is no positive number (of a size that a variance could have).

    Examples
    --------
    >>> Calibration.none(2).factor
    array([1., 1.])
    """

    factor: Array
    barred: Mask

    def __post_init__(self) -> None:
        factor, barred = numbers(self.factor, "factor"), np.asarray(self.barred)
        if factor.ndim != 1 or factor.shape != barred.shape or barred.dtype != np.bool_:
            raise ValueError(
                f"factor and barred must be (n_agents,), of numbers and of booleans, got {factor.shape} and "
                f"{barred.shape} of {barred.dtype}"
            )
        if not ((factor >= VARIANCE_LIMITS[0]) & (factor <= VARIANCE_LIMITS[1])).all():
            raise ValueError(f"factors must be in [{VARIANCE_LIMITS[0]:g}, {VARIANCE_LIMITS[1]:g}], got {factor}")
        for name, values in (("factor", factor.copy()), ("barred", barred.copy())):
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    @classmethod
    def none(cls, n_agents: int) -> Calibration:
        """No records yet: every claim is taken as it is."""
        return cls(np.ones(n_agents), np.zeros(n_agents, dtype=np.bool_))


def calibrated_poe(
    means: ArrayLike, variances: ArrayLike, n_trim: int, *, calibration: Calibration | None = None
) -> Fused:
    """Product of experts on corrected claims, with weights that fade out for means that the others contradict.

    1. A claimed variance is multiplied by the record's factor; a barred agent is out, and so is a claim whose
       logarithm lies more than 5 robust standard deviations below the others'.
    2. The ``n_trim`` smallest corrected variances are raised to the next one: with no more liars than that, the
       weight of a lie is at most that of an honest answer.
    3. Answers that are copies of each other share a vote, up to ``n_trim`` lost votes per point: honest agents with
       independent data seldom agree to the digit, liars who mimic one of them or collude do.
    4. A mean within 2 robust standard deviations of the centre keeps its full weight; from there the weight falls
       linearly to 0 at 4 (Hampel 1974). Centre and spread are the median and the median absolute deviation, the
       centre then improved by the mean of these weights. Deviations are measured in the agent's own claimed standard
       deviation, which counts at most twice the typical one: claiming to be unsure hides no lie.
    5. The rest is (7) with these weights: a weighted harmonic mean of variances, no independence assumed.

    Parameters
    ----------
    means, variances : (n_agents, m)
        Answers; those that are not usable are removed first.
    n_trim
        Number of liars to stand, as in :func:`streamgp.fusion.trimmed.trimmed_poe`.
    calibration
        The agents' records, in the order of the rows.

    Raises
    ------
    NoQuorumError
        If 4 n_trim >= n_agents, or a point has no usable answer.

    Examples
    --------
    >>> f = calibrated_poe([[1.0], [1.2], [0.8], [1.1], [9.0]], [[0.5], [0.4], [0.6], [0.5], [1e-9]], 1)
    >>> f.counts, f.mean.round(1)
    (array([4]), array([1.]))
    """
    M, V, ok = open_door(means, variances)
    n, _ = M.shape
    check_quorum(n, n_trim)
    records = records_of(calibration, n)
    used = ok & ~records.barred[:, None]
    used = np.where(used.any(axis=0), used, ok)  # if every agent is barred, the records cannot tell them apart
    factor = records.factor[:, None]
    fused = by_points(M.shape, lambda here: _fuse(M[:, here], V[:, here], factor, used[:, here], n_trim))
    return alone(fused, M, V, ok)


def records_of(calibration: Calibration | None, n: int) -> Calibration:
    """``calibration``, held to be of n agents; no records without one."""
    if calibration is None:
        return Calibration.none(n)
    if calibration.factor.shape != (n,):
        raise ValueError(f"calibration must be of {n} agents, got {calibration.factor.shape}")
    return calibration


def _fuse(M: Array, V: Array, factor: Array, used: Mask, n_trim: int) -> Fused:
    """The five steps at some points; ``used`` (n, m) has one agent a point at least."""
    v, used, typical = _claims(V, factor, used, n_trim)
    own = np.sqrt(v)
    own /= typical
    np.minimum(own, _MOST_OWN_SPREAD, out=own)
    fade = _faded(M, V, own, used, n_trim, typical)
    surest = v.min(axis=0)
    share = np.divide(surest, v, out=v)
    share *= fade
    total, kept = order_free_sum(share), fade > 0
    share *= M
    # a weighted mean lies among its members: only rounding could say otherwise
    return Fused(within(order_free_sum(share) / total, M, kept), surest * (coarse_sum(fade) / total), kept)


def _claims(V: Array, factor: Array, used: Mask, n_trim: int) -> tuple[Array, Mask, Array]:
    """Corrected claims (n, m) with the boldest raised, infinite where not in use; who is in use; the typical (m,) one.

    Claims that are out of all proportion to the others' are put out of use. The typical one is a standard deviation.
    """
    v = V * factor
    if not used.all():
        v[~used] = np.inf
    ordered, count = np.sort(v, axis=0), used.sum(axis=0)
    bold = used & (v < _least_credible(ordered, count))
    first = bold.sum(axis=0)  # they are the smallest ones
    if first.any():
        used, count = used & ~bold, count - first
        v[bold] = np.inf
    rank = np.minimum(n_trim, (count - 1) // 2)  # the variance that n_trim claim to be below, or the median of few
    np.maximum(v, ordered[first + rank, np.arange(v.shape[1])], out=v)
    return v, used, np.sqrt(middle(ordered, count, first))


def _least_credible(ordered: Array, count: NDArray[np.intp]) -> Array:
    """(m,) a claim below this is out of all proportion to the ``count`` sorted ones."""
    logs = np.log(ordered)
    centre = middle(logs, count)
    limit = centre - _TOO_LOW * _LEAST_LOG_SPREAD
    strange = np.flatnonzero(logs[0] < limit)  # elsewhere nobody is
    if strange.size:
        off = np.sort(np.abs(logs[:, strange] - centre[strange]), axis=0)
        spread = np.maximum(_MAD_TO_SD * middle(off, count[strange]), _LEAST_LOG_SPREAD)
        limit[strange] = centre[strange] - _TOO_LOW * spread
    return np.asarray(np.exp(limit))


def _faded(M: Array, V: Array, own: Array, used: Mask, n_trim: int, typical: Array) -> Array:
    """(n, m) weights that fall from 1 to 0 with the distance from the centre; 0 for those not in use.

    Parameters
    ----------
    M, V : (n, m)
        Answers.
    own : (n, m)
        Claimed standard deviations over the typical one; changed in place.
    used : (n, m)
        Who is in use.
    n_trim
        Number of liars to stand.
    typical : (m,)
        The typical claimed standard deviation.
    """
    by_mean, count = in_order(M, used), used.sum(axis=0)
    votes = _votes(M, V, used, n_trim, by_mean)
    away = M - middle(by_mean, count)
    spread = robust_spread(np.abs(away) / own, used, count, typical)
    away /= spread
    slope = np.divide(-1.0 / (_NONE - _FULL), own, out=own)
    fade = _fade(away, slope, votes)
    for _ in range(2):
        weight = coarse_sum(fade)
        fade *= away
        away -= coarse_sum(fade) / weight
        fade = _fade(away, slope, votes)
    return fade


def _fade(away: Array, slope: Array, votes: Array | None) -> Array:
    fade = np.abs(away)
    fade *= slope
    fade += _NONE / (_NONE - _FULL)
    np.minimum(fade, 1.0, out=fade)
    np.maximum(fade, 0.0, out=fade)
    if votes is not None:
        fade *= votes
    return fade


def _votes(M: Array, V: Array, used: Mask, n_trim: int, by_mean: Array) -> Array | None:
    """(n, m) votes: 1, less for copies, 0 for those not in use; ``by_mean`` are the means in use, sorted.

    None if all are 1.

    Of g copies g - 1 may be echoes of liars, but no more than ``n_trim`` in all: where more answers agree, honest
    agents do (none has data nearby, say), and all copies keep the larger part of their votes.
    """
    whole = bool(used.all())
    close = np.zeros(0, dtype=np.intp)
    if n_trim and len(M) > 1:
        widest = np.sqrt((V if whole else np.where(used, V, 0.0)).max(axis=0))
        with np.errstate(invalid="ignore"):  # inf - inf among those not in use
            close = np.flatnonzero((by_mean[1:] - by_mean[:-1] <= _SAME * widest).any(axis=0))
            if close.size:  # nor are they copies where no two variances are alike
                by_variance = in_order(V[:, close], used[:, close])
                alike = by_variance[1:] - by_variance[:-1] <= _SAME * by_variance[:-1]
                close = close[alike.any(axis=0)]
    if whole and not close.size:
        return None
    votes = used.astype(np.float64)
    if close.size:
        votes[:, close] = _shared(M[:, close], V[:, close], used[:, close], n_trim)
    return votes


def _shared(M: Array, V: Array, used: Mask, n_trim: int) -> Array:
    """The votes at points where some answers may be copies: neighbours in the order of the means."""
    order = np.lexsort((V, M, ~used), axis=0)
    m, v, inside = (np.take_along_axis(a, order, axis=0) for a in (M, np.where(used, V, 1.0), used))
    alike = (m[1:] - m[:-1] <= _SAME * np.sqrt(np.minimum(v[1:], v[:-1]))) & inside[1:]
    alike &= np.abs(v[1:] - v[:-1]) <= _SAME * np.minimum(v[1:], v[:-1])
    start = np.vstack([np.ones_like(alike[:1]), ~alike])
    n, points = start.shape
    group = np.cumsum(start, axis=0) - 1 + n * np.arange(points)
    copies = np.bincount(group.ravel(), minlength=n * points)[group]
    lost = np.minimum(1.0, n_trim / np.maximum(alike.sum(axis=0), 1))
    votes = np.empty(start.shape)
    np.put_along_axis(votes, order, np.where(inside, 1.0 - (1.0 - 1.0 / copies) * lost, 0.0), axis=0)
    return votes


def robust_spread(off: Array, used: Mask, count: NDArray[np.intp], typical: Array) -> Array:
    """(m,) robust standard deviation from absolute deviations, not much less than the typical claim."""
    return np.maximum(_MAD_TO_SD * middle(in_order(off, used), count), _LEAST_SPREAD * typical)


def in_order(values: Array, used: Mask) -> Array:
    """(n, m) values of those in use in ascending order, then infinities."""
    return np.sort(values if used.all() else np.where(used, values, np.inf), axis=0)
