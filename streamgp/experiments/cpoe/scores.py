"""The paper's quantities (Appendix F): KL to the full GP, ERR, CRPS, RMSE, ABSE, NLP, COV."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.stats import norm

from streamgp.experiments.cpoe.methods import Belief
from streamgp.gp.gaussian import Array


def kl_to(full: Belief, other: Belief) -> float:
    """Mean KL of the latent marginals, the full GP's first."""
    v, w = full.variance, other.variance
    return float(np.mean(0.5 * (np.log(w / v) + v / w + (full.mean - other.mean) ** 2 / w - 1.0)))


def with_noise(belief: Belief) -> Belief:
    """The prediction of y."""
    return replace(belief, variance=belief.variance + belief.noise)


def scores(full: Belief | None, other: Belief, truth: Array) -> dict[str, float]:
    """All of them, for y where not said otherwise; those against the full GP where there is one.

    ``kl`` is of the latent function, ``kl of y`` of predictions with noise, each with its own (as in the paper).
    """
    sigma = np.sqrt(other.variance + other.noise)
    error = truth - other.mean
    z = error / sigma
    crps = sigma * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    against = {}
    if full is not None:
        against = {
            "kl": kl_to(full, other),
            "kl of y": kl_to(with_noise(full), with_noise(other)),
            "err": float(np.sqrt(np.mean((full.mean - other.mean) ** 2))),
        }
    return against | {
        "crps": float(np.mean(crps)),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "abse": float(np.mean(np.abs(error))),
        "nlp": float(np.mean(0.5 * np.log(2 * np.pi * sigma**2) + 0.5 * z**2)),
        "cov": float(np.mean(np.abs(z) <= 1.96)),
        "lml": other.evidence,
        "seconds": other.seconds,
    }
