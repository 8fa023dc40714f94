"""The toy function of section 6.1, its data, and the network that learns it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from streamgp.experiments.byzantine.network import Prior, fit_prior, local_answers
from streamgp.gp.gaussian import Array

AGENTS = 40
TEST_POINTS = 120
NOISE_VARIANCE = 0.01


def eta(z: Array, *, shift: float = 0.0) -> Array:
    """The function (32) of Liu et al. (2018) on [0, 1]; ``shift`` is the epsilon' of section 6.1.3."""
    wave = np.sin(12.0 * z) + shift
    return np.asarray((z**3 - 0.5) * np.sin(3.0 * z - 0.5) + 5.0 * z**2 * wave + 4.0 * np.cos(2.0 * z))


@final
@dataclass(frozen=True, slots=True)
class Answers:
    """What an honest network says at some points, and what is true there.

    Parameters
    ----------
    means, variances : (n, m)
        Local predictions.
    truth : (m,)
        The latent function.

    Examples
    --------
    >>> prior = Prior(18.0, np.array([0.18]), 0.01)
    >>> a = toy_answers(400, prior, n_neighbors=1, rng=np.random.default_rng(0))
    >>> a.means.shape, a.truth.shape
    ((40, 120), (120,))
    """

    means: Array
    variances: Array
    truth: Array


def toy_prior(seed: int) -> Prior:
    """Hyperparameters from 300 observations apart from the study's."""
    rng = np.random.default_rng([seed, 61])
    Z = rng.random((300, 1))
    return fit_prior(Z, eta(Z[:, 0]) + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(300), seed=seed)


def toy_data(n_train: int, rng: np.random.Generator, *, shift: float = 0.0) -> tuple[Array, Array, Array]:
    """(n, p, 1) inputs and (n, p) observations of the 40 agents, and (m, 1) test points."""
    p = n_train // AGENTS
    Z = rng.random((AGENTS, p, 1))
    y = eta(Z[:, :, 0], shift=shift) + np.sqrt(NOISE_VARIANCE) * rng.standard_normal((AGENTS, p))
    return Z, y, rng.random((TEST_POINTS, 1))


def toy_answers(
    n_train: int, prior: Prior, *, n_neighbors: int, rng: np.random.Generator, shift: float = 0.0
) -> Answers:
    """One honest network, freshly drawn: ``n_train`` points shared among 40 agents, 120 test points."""
    Z, y, Zs = toy_data(n_train, rng, shift=shift)
    means, variances = local_answers(Z, y, Zs, prior, n_neighbors=n_neighbors)
    return Answers(means, variances, eta(Zs[:, 0], shift=shift))
