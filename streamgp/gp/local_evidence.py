"""The predictive density of targets given their neighbours, and its gradient with respect to the hyperparameters.

Each is one factor of the likelihood written as a product of conditionals, cut to the neighbours (Vecchia 1988).
Shapes as in :mod:`streamgp.gp.neighbourhood`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.gaussian import Array
from streamgp.gp.kernel_nodes import Pull
from streamgp.gp.linalg import forward_stack


@final
@dataclass(frozen=True, slots=True)
class Predictive:
    """N(mean, variance) of an observation at each of m points, and how both move with the hyperparameters.

    Attributes
    ----------
    mean : (m, q)
    variance : (m,)
        Of an observation, noise included.
    """

    mean: Array
    variance: Array
    _kernel: CompiledKernel
    _pull: Pull
    _together: Array
    _weights: Array  # w (m, k), C^-1 k
    _dual: Array  # alpha (m, k, q), C^-1 y
    _counts: Array  # (m, k + 1), the point's own last
    _noise_variance: float

    def gradient(self, by_variance: Array, by_mean: Array) -> Array:
        """Of a function of all means and variances, from its derivatives.

        Parameters
        ----------
        by_variance : (m,)
        by_mean : (m, q)

        Returns
        -------
        (p + 1,)
            With respect to the kernel's theta and the logarithm of the noise variance.
        """
        a, w = by_variance, self._weights
        k = w.shape[1]
        ba = np.einsum("mq,mkq->mk", by_mean, self._dual)
        W = np.zeros((len(w), k + 1, k + 1))
        W[:, :k, :k] = a[:, None, None] * w[:, :, None] * w[:, None, :] - w[:, :, None] * ba[:, None, :]
        W[:, k, :k] = ba - 2.0 * a[:, None] * w
        W[:, k, k] = a
        i = np.arange(k + 1)
        per_noise = W[:, i, i] / self._counts
        gradient = self._pull(W)
        if self._kernel.white:
            for sign, included in ((1.0, True), (-1.0, False)):
                white = self._kernel.diag_gradient_dot(self._together, per_noise, nugget=included)
                gradient = gradient + sign * white
        return np.append(gradient, self._noise_variance * float(per_noise.sum()))


def predictive(
    kernel: CompiledKernel,
    noise_variance: float,
    Z: Array,
    X: Array,
    y: Array,
    counts: Array,
    own_counts: Array | None = None,
) -> Predictive:
    """Predictive distribution at points Z (m, d) given their neighbours, ready for gradients.

    Parameters
    ----------
    kernel, noise_variance
        Hyperparameters.
    Z : (m, d)
    X : (m, k, d)
    y : (m, k, q)
    counts : (m, k)
    own_counts : (m,)
        Observations that the target at each point is the mean of; one each by default.
    """
    m, k = counts.shape
    together = np.concatenate([X, Z[:, None, :]], axis=1)
    own = np.ones(m) if own_counts is None else own_counts
    every = np.concatenate([counts, own[:, None]], axis=1)
    K, pull = kernel.node.vjp(together, together)
    noise = (noise_variance + kernel.nugget(together)) / every
    C = K[:, :k, :k].copy()
    i = np.arange(k)
    C[:, i, i] += noise[:, :k]
    sides = np.concatenate([K[:, k, :k, None], y], axis=2)
    V, jitter = forward_stack(C, sides)
    C[:, i, i] += jitter[:, None]
    solved = np.linalg.solve(C, sides)
    v = V[:, :, 0]
    mean = np.einsum("mk,mkq->mq", v, V[:, :, 1:])
    prior = K[:, k, k] + noise[:, k]
    variance = np.maximum(prior - np.einsum("mk,mk->m", v, v), np.finfo(np.float64).eps * (k + 1) * prior)
    return Predictive(mean, variance, kernel, pull, together, solved[:, :, 0], solved[:, :, 1:], every, noise_variance)


@final
@dataclass(frozen=True, slots=True)
class Density:
    """How likely targets are under a predictive distribution.

    Attributes
    ----------
    nlpd : (m,)
        ``-log N(target | mean, variance)``, summed over outputs.
    held : (m,)
        The same, with a squared surprise (over outputs, in standard deviations) held to the limit.
    by_variance : (m,)
    by_mean : (m, q)
        Derivatives; where the surprise is beyond the limit, those of a target at the limit.
    """

    nlpd: Array
    held: Array
    by_variance: Array
    by_mean: Array


def density(at: Predictive, target: Array, *, limit: float = np.inf) -> Density:
    """Density of targets (m, q); ``limit`` bounds the influence of one, in standard deviations."""
    q = target.shape[1]
    error = target - at.mean
    squares = np.sum(error**2, axis=1) / at.variance
    held = np.minimum(squares, q * limit**2)
    spread = 0.5 * q * np.log(2.0 * np.pi * at.variance)
    shrink = np.sqrt(held / np.maximum(squares, np.finfo(np.float64).tiny)) / at.variance
    return Density(
        spread + 0.5 * squares, spread + 0.5 * held, 0.5 * (q - held) / at.variance, -error * shrink[:, None]
    )
