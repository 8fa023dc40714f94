"""Local predictions (Prop. 9) and their weighted product (Prop. 8, Def. 10)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.beliefs import Belief
from streamgp.gp.gaussian import Array


def local_prediction(k: Array, belief: Belief, prior_variance: Array) -> tuple[Array, Array]:
    """Mean (m, q) and variance (m,) of the latent function by one region; k is (m, n) its prior covariances.

    ``h mu = k alpha`` and ``h Sigma h' + v* = k** - k A k'`` (Proof 38).
    """
    variance = prior_variance - belief.explained(k)
    return k @ belief.alpha, resolved(variance, prior_variance, len(belief.alpha))


def resolved(variance: Array, prior_variance: Array, n: int) -> Array:
    """Variances as they are; one that rounding hides (about n eps of the prior's) becomes the least one that
    shows.

    Raises
    ------
    NotPositiveDefiniteError
        If a variance is negative beyond what rounding explains.
    """
    least = np.finfo(np.float64).eps * max(n, 1) * prior_variance
    low = ~(variance >= least)
    if np.any(low):
        if not np.all(variance >= -1e-4 * prior_variance):
            raise NotPositiveDefiniteError(
                "a predictive variance is negative: the kernel matrix is too ill-conditioned"
            )
        variance = np.where(low, least, variance)
    return variance


def log_weights(variances: Array, prior_variance: Array, sharpness: float) -> Array:
    """Logarithms of the normalised weights of Def. 10, (W, m).

    ``beta_j`` is the gain in entropy ``log(v0 / v_j) / 2`` to the power Z; with Z = log(N) C it overflows as a
    number, so the normalisation is done on logarithms. Where no region has gained anything, all weigh the same.
    """
    gain = 0.5 * (np.log(prior_variance) - np.log(variances))
    with np.errstate(divide="ignore"):
        log_gain = np.log(np.maximum(gain, 0.0))
    nobody = ~np.any(gain > 0.0, axis=0)
    log_gain[:, nobody] = 0.0
    scaled = np.zeros_like(log_gain) if sharpness == 0.0 else sharpness * log_gain
    scaled -= scaled.max(axis=0)
    return np.asarray(scaled - np.log(np.sum(np.exp(scaled), axis=0)))


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Mean (m, q), variance (m,), and the weights (W, m) behind them."""

    mean: Array
    variance: Array
    weights: Array


def aggregate(means: Array, variances: Array, *, prior_variance: Array, sharpness: float) -> Aggregate:
    """Prop. 8: means (W, m, q) and variances (W, m) of W regions a point, as one Gaussian a point.

    Where the prior variance is zero (a kernel of white noise alone), the function is known: it is zero.
    """
    known = prior_variance == 0.0
    if known.any():
        variances, prior_variance = np.where(known, 1.0, variances), np.where(known, 1.0, prior_variance)
    beta = np.exp(log_weights(variances, prior_variance, sharpness))
    ratio = beta / variances
    variance = 1.0 / ratio.sum(axis=0)
    mean = variance[:, None] * np.einsum("wm,wmq->mq", ratio, means)
    if known.any():
        variance = np.where(known, 0.0, variance)
    return Aggregate(mean, variance, beta)
