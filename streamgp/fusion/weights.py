"""Exponents of experts: what is given, what the gain in entropy gives, and what is left when neither does."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgp.errors import NoQuorumError
from streamgp.fusion.fused import VARIANCE_LIMITS, Mask, numbers
from streamgp.gp.gaussian import Array


def exponents(weights: ArrayLike, ok: Mask) -> tuple[Array, NDArray[np.intc]]:
    """Exponents that the caller gave, in units of a power of two of the greatest one's size at each point.

    Parameters
    ----------
    weights : (n,) or (n, m)
        Not negative, at most 1e150; zero for no share.
    ok : (n, m)
        Which answers can be used.

    Returns
    -------
    (n, m)
        Exponents in these units, zero where the answer is not usable, the greatest in [1/2, 1).
    (m,)
        The binary logarithm of the units.
    """
    given = numbers(weights, "weights")
    if given.shape not in ((ok.shape[0],), ok.shape):
        raise ValueError(f"weights must be ({ok.shape[0]},) or {ok.shape}, got {given.shape}")
    greatest = VARIANCE_LIMITS[1]
    if not ((given >= 0) & (given <= greatest)).all():
        raise ValueError(f"weights must be finite and not negative, at most {greatest:g}")
    W = np.where(ok, given[:, None] if given.ndim == 1 else given, 0.0)
    most = W.max(axis=0)
    if not (most > 0).all():
        raise NoQuorumError("at some point no usable answer has a positive weight")
    power = np.frexp(most)[1]
    return np.asarray(np.ldexp(W, -power)), np.asarray(power)


def entropy_gain(V: Array, prior: Array) -> Array:
    """(n, m) difference in entropy before and after the data (Definition 10), 0 for those below the prior."""
    gain = np.log(V)
    np.subtract(np.log(prior), gain, out=gain)
    gain *= 0.5
    return np.asarray(np.maximum(gain, 0.0, out=gain))


def or_equal(W: Array, ok: Mask) -> Array:
    """``W``, but equal weights where no expert has any."""
    some = (W > 0).any(axis=0)
    return W if some.all() else np.where(some, W, ok.astype(np.float64))
