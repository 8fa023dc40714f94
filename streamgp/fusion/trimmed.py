"""The trimmed product of experts, equations (6) and (7) of the Byzantine-resilient paper."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgp.errors import NoQuorumError, SettingsError
from streamgp.fusion.blocks import by_points
from streamgp.fusion.fused import Fused, Mask, open_door
from streamgp.fusion.sums import order_free_sum
from streamgp.gp.gaussian import Array


def n_trim_for(beta: float, n_agents: int) -> int:
    """How many agents to cut at each end: ceil(beta n), so that a beta above 0 always cuts (Assumption 1).

    Parameters
    ----------
    beta
        Upper bound of the fraction of liars, in [0, 1/4).
    n_agents
        Agents that answered.

    Raises
    ------
    SettingsError
        If beta is not in [0, 1/4).
    NoQuorumError
        If no agent answered, or so few that 4 n_trim >= n_agents: Lemma 1 then promises no agent at all.

    Examples
    --------
    >>> n_trim_for(0.15, 40), n_trim_for(0.07, 100), n_trim_for(0.01, 12)
    (6, 7, 1)
    """
    if not (isinstance(beta, (int, float, np.number)) and 0.0 <= beta < 0.25):
        raise SettingsError(f"beta must be a number in [0, 1/4), got {beta!r}")
    if operator.index(n_agents) < 0:
        raise ValueError(f"n_agents must not be negative, got {n_agents}")
    # 0.07 * 100 is a little above 7, and the single-precision 0.1 a little above 0.1
    n_trim = math.ceil(float(beta) * n_agents - 1e-7 * max(1, n_agents))
    n_trim = max(n_trim, int(beta > 0))
    check_quorum(n_agents, n_trim)
    return n_trim


def check_quorum(n_agents: int, n_trim: int) -> None:
    """Refuse a cut that Lemma 1 promises nothing for."""
    if operator.index(n_trim) < 0:
        raise ValueError(f"n_trim must not be negative, got {n_trim}")
    if 4 * n_trim >= n_agents:
        raise NoQuorumError(f"cutting {n_trim} at each end needs more than {4 * n_trim} agents, got {n_agents}")


_BLOCK = 50_000  # answers that are worked on at a time


@final
@dataclass(frozen=True, slots=True)
class Cuts:
    """Who was cut where: four (n_agents, m) masks, one a side of (6).

    Examples
    --------
    >>> cuts = cut_sides([[1.0], [2.0], [3.0], [4.0], [99.0]], [[1.0], [5.0], [2.0], [3.0], [4.0]], 1)
    >>> cuts.mean_high[:, 0].tolist()
    [False, False, False, False, True]
    """

    mean_low: Mask
    mean_high: Mask
    variance_low: Mask
    variance_high: Mask
    usable: Mask

    @property
    def kept(self) -> Mask:
        """(n_agents, m) the set I of Step 3: usable and cut on no side."""
        cut = self.mean_low | self.mean_high
        cut |= self.variance_low
        cut |= self.variance_high
        return np.asarray(self.usable & ~cut)


def trimmed_poe(means: ArrayLike, variances: ArrayLike, n_trim: int) -> Fused:
    """Byzantine-resilient product of experts, (6) and (7): weights 1/|I| over the agents that no side cuts.

    Per point the ``n_trim`` largest and smallest means and variances are cut; the rest is a product with weights
    1/|I|, so its variance is a harmonic mean and takes no independence for granted. Ties in one quantity are
    ordered by the other and then by row, which makes the result independent of the order of the agents.

    Parameters
    ----------
    means, variances : (n_agents, m)
        Answers; those that are not usable are removed before anything is sorted.
    n_trim
        Number cut at each end. An unusable answer is one liar found: where the rest would be too few for the
        full cut, the cut at that point is smaller by the answers removed there.

    Raises
    ------
    NoQuorumError
        If 4 n_trim >= n_agents, or a point has no usable answer.

    Examples
    --------
    >>> f = trimmed_poe([[1.0], [1.2], [0.8], [1.1], [100.0]], [[0.5], [0.4], [0.6], [0.5], [0.5]], 1)
    >>> f.mean.round(3).tolist(), f.variance.tolist(), f.counts.tolist()
    ([1.05], [0.5], [2])
    """
    M, V, ok = open_door(means, variances)
    check_quorum(M.shape[0], n_trim)
    return by_points(M.shape, lambda here: _fuse(M[:, here], V[:, here], ok[:, here], n_trim), numbers=_BLOCK)


def cut_sides(means: ArrayLike, variances: ArrayLike, n_trim: int) -> Cuts:
    """The four sets T of Step 2, for a report on who is cut and where; same arguments as :func:`trimmed_poe`."""
    M, V, ok = open_door(means, variances)
    check_quorum(M.shape[0], n_trim)
    count, cut = _cut_size(ok, n_trim)
    mean_low, mean_high, *_ = _ends(M, V, ok, count, cut)
    variance_low, variance_high, *_ = _ends(V, M, ok, count, cut)
    return Cuts(mean_low, mean_high, variance_low, variance_high, ok)


def _fuse(M: Array, V: Array, ok: Mask, n_trim: int) -> Fused:
    kept, low, high = _cut(M, V, ok, n_trim)
    share = low[1] / V
    share *= kept
    total = order_free_sum(share)
    variance = low[1] * (kept.sum(axis=0) / total)
    share *= M
    mean = order_free_sum(share) / total
    # a mean of numbers in an interval is in the interval: only rounding could say otherwise
    return Fused(np.clip(mean, low[0], high[0]), np.clip(variance, low[1], high[1]), kept)


def _cut(M: Array, V: Array, ok: Mask, n_trim: int) -> tuple[Mask, tuple[Array, Array], tuple[Array, Array]]:
    """The set I, and the least and greatest mean and variance left by either cut."""
    count, cut = _cut_size(ok, n_trim)
    mean_low, mean_high, m_least, m_greatest = _ends(M, V, ok, count, cut)
    variance_low, variance_high, v_least, v_greatest = _ends(V, M, ok, count, cut)
    out = mean_low
    out |= mean_high
    out |= variance_low
    out |= variance_high
    return ok & ~out, (m_least, v_least), (m_greatest, v_greatest)


def _cut_size(ok: Mask, n_trim: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(m,) usable answers and the number to cut at each end, per point."""
    count = ok.sum(axis=0)
    removed = ok.shape[0] - count
    return count, np.where(4 * n_trim < count, n_trim, np.maximum(n_trim - removed, 0))


def _ends(
    values: Array, other: Array, ok: Mask, count: NDArray[np.intp], cut: NDArray[np.intp]
) -> tuple[Mask, Mask, Array, Array]:
    """Masks of the ``cut`` smallest and largest values per point, and the least and greatest value left."""
    points = np.arange(values.shape[1])
    whole = bool(ok.all())
    ordered = np.sort(values if whole else np.where(ok, values, np.inf), axis=0)
    last = count - 1 - cut
    least, greatest = ordered[cut, points], ordered[last, points]
    low, high = values < least, values > greatest
    if not whole:
        low &= ok
        high &= ok
    tied = (cut > 0) & (
        (ordered[cut - 1, points] == least) | (ordered[np.minimum(last + 1, len(ordered) - 1), points] == greatest)
    )
    if tied.any():
        here, there, mask = values[:, tied], other[:, tied], ok[:, tied]
        need = cut[tied] - low[:, tied].sum(axis=0)
        low[:, tied] |= _first(mask & (here == least[tied]), there, need)
        need = cut[tied] - high[:, tied].sum(axis=0)
        high[:, tied] |= _first((mask & (here == greatest[tied]))[::-1], -there[::-1], need)[::-1]
    return low, high, least, greatest


def _first(among: Mask, by: Array, need: NDArray[np.intp]) -> Mask:
    """Per point the ``need`` of these with the smallest ``by``, and of equals those that come first."""
    points = np.arange(by.shape[1])
    ranked = np.where(among, by, np.inf)
    edge = np.sort(ranked, axis=0)[np.maximum(need - 1, 0), points]
    found = ranked < edge
    equal = among & (ranked == edge)
    rest = need - found.sum(axis=0)
    found |= equal & ((equal.sum(axis=0) == rest) | (np.cumsum(equal, axis=0, dtype=np.int32) <= rest))
    return found
