"""A rule worked out for some points at a time: no point depends on another, and what is in work stays in the cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from streamgp.fusion.fused import Fused, Mask
from streamgp.gp.gaussian import Array

_NUMBERS = 20_000  # in one block of answers: with a dozen arrays of them no page is asked for anew


def blocks(shape: tuple[int, ...], *, numbers: int = _NUMBERS) -> list[slice]:
    """The points of answers of ``shape`` (n, m) in blocks of about ``numbers`` answers; one at least."""
    n, m = shape
    width = max(1, numbers // n)
    return [slice(start, min(start + width, m)) for start in range(0, max(m, 1), width)]


def by_points(shape: tuple[int, ...], rule: Callable[[slice], Fused], *, numbers: int = _NUMBERS) -> Fused:
    """What ``rule`` says of all points of answers of ``shape`` (n, m), asked for blocks of them.

    A rule that holds few arrays at a time may have larger blocks, and so fewer calls.
    """
    parts = [rule(here) for here in blocks(shape, numbers=numbers)]
    if len(parts) == 1:
        return parts[0]
    return Fused(
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.variance for part in parts]),
        np.concatenate([part.kept for part in parts], axis=1),
        parts[0].note,
    )


def least(values: Array, kept: Mask) -> Array:
    """(m,) least of the values (n, m) that are kept; infinity where none is."""
    return np.asarray((values if kept.all() else np.where(kept, values, np.inf)).min(axis=0))


def within(mean: Array, M: Array, kept: Mask) -> Array:
    """``mean`` (m,), no less than the least and no more than the greatest of the means (n, m) that are kept."""
    if kept.all():
        return np.clip(mean, M.min(axis=0), M.max(axis=0))
    return np.clip(mean, np.where(kept, M, np.inf).min(axis=0), np.where(kept, M, -np.inf).max(axis=0))


def middle(ordered: Array, count: NDArray[np.intp], first: NDArray[np.intp] | int = 0) -> Array:
    """(m,) median of ``count`` (m,) of the sorted values (n, m), from row ``first`` (m,) on."""
    points = np.arange(ordered.shape[1])
    return np.asarray(0.5 * (ordered[first + (count - 1) // 2, points] + ordered[first + count // 2, points]))
