"""Who is seen to lie in one query: answers that no honest agent is expected to give."""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import ArrayLike

from streamgp.fusion.blocks import blocks, middle
from streamgp.fusion.calibrated import Calibration, in_order, records_of, robust_spread
from streamgp.fusion.fused import Mask, open_door

OUTLYING = 6.0  # robust z-score of an answer that no honest agent is expected to give


def outlying(means: ArrayLike, variances: ArrayLike) -> Mask:
    """(n_agents, m) answers that are unusable, or whose mean lies more than 6 robust standard deviations off."""
    M, V, ok = open_door(means, variances)
    count = ok.sum(axis=0)
    beyond = ~ok
    for here in blocks(M.shape):
        m, used, n = M[:, here], ok[:, here], count[here]
        off = np.abs(m - middle(in_order(m, used), n))
        typical = np.sqrt(middle(np.sort(V[:, here], axis=0), n))
        beyond[:, here] |= off > OUTLYING * robust_spread(off, used, n, typical)
    return beyond


def is_degraded(means: ArrayLike, variances: ArrayLike, n_trim: int, *, calibration: Calibration | None = None) -> bool:
    """Whether more agents than ``n_trim`` are seen to lie at some point: then no rule's promise holds.

    An agent is seen to lie if its answer is unusable or outlying, or if it is barred by its record. Liars that
    agree with each other and outnumber the honest cannot be seen in one query; their records tell, once the truth
    is known.

    Examples
    --------
    >>> is_degraded([[1.0], [1.1], [0.9], [1.0], [1.0], [50.0], [60.0]], [[0.1]] * 7, 1)
    True
    """
    if operator.index(n_trim) < 0:
        raise ValueError(f"n_trim must not be negative, got {n_trim}")
    suspect = outlying(means, variances)
    suspect |= records_of(calibration, len(suspect)).barred[:, None]
    return bool((suspect.sum(axis=0) > n_trim).any())
