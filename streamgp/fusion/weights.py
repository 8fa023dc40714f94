"""Exponents of experts: what is given, what the gain in entropy gives, and what is left when neither does."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from streamgp.errors import NoQuorumError
from streamgp.fusion.fused import VARIANCE_LIMITS, Mask
from streamgp.gp.gaussian import Array


def exponents(weights: ArrayLike | None, ok: Mask) -> Array:
    """(n, m) exponents, zero where the answer is not usable; below 1e-150 they count as zero."""
    if weights is None:
        return ok.astype(np.float64)
    W = np.asarray(weights, dtype=np.float64)
    if W.shape not in ((ok.shape[0],), ok.shape):
        raise ValueError(f"weights must be ({ok.shape[0]},) or {ok.shape}, got {W.shape}")
    least, greatest = VARIANCE_LIMITS
    if not ((W >= 0).all() and (greatest >= W).all()):
        raise ValueError(f"weights must be finite and not negative, at most {greatest:g}")
    W = np.where(least <= W, W, 0.0)
    W = np.where(ok, W[:, None] if W.ndim == 1 else W, 0.0)
    if not (W > 0).any(axis=0).all():
        raise NoQuorumError("at some point no usable answer has a positive weight")
    return W


def entropy_gain(V: Array, prior: Array) -> Array:
    """(n, m) difference in entropy before and after the data (Definition 10), 0 for those below the prior."""
    return np.asarray(np.where(prior > V, 0.5 * (np.log(prior) - np.log(V)), 0.0))


def or_equal(W: Array, ok: Mask) -> Array:
    """``W``, but equal weights where no expert has any."""
    return np.where((W > 0).any(axis=0), W, ok)
