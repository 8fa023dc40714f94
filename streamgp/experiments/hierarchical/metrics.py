"""The metrics of pFedHGP 4.5, averaged over clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import safe_cholesky, solve_lower

METRICS = ("rmse", "nll", "crps", "coverage", "width", "cov_err", "ece")
LEVELS = np.linspace(0.05, 0.95, 19)


def evaluate(
    answers: Sequence[tuple[Array, Array]], Y: Sequence[Array], clean: Sequence[Array], *, noise_std: float
) -> dict[str, float]:
    """All metrics of (43)-(50) and the expected calibration error over nominal levels 5% to 95%.

    ``answers`` holds a client's mean (m, Q) and covariance (m, Q, Q) of y, ``Y`` and ``clean`` its truth (m, Q).
    """
    rows = [_client(m, C, y, f, noise_std) for (m, C), y, f in zip(answers, Y, clean, strict=True)]
    means = {name: float(np.mean([row[name] for row in rows])) for name in METRICS if name != "ece"}
    z = np.concatenate(
        [
            (np.abs(y - m) / np.sqrt(np.diagonal(C, axis1=1, axis2=2))).ravel()
            for (m, C), y in zip(answers, Y, strict=True)
        ]
    )
    inside = [(z <= norm.ppf(0.5 + level / 2.0)).mean() for level in LEVELS]
    means["ece"] = float(np.mean(np.abs(np.array(inside) - LEVELS)))
    return means


def _client(mean: Array, cov: Array, y: Array, clean: Array, noise_std: float) -> dict[str, float]:
    error = y - mean
    sd = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    z = error / sd
    nll = 0.0
    for e, C in zip(error, cov, strict=True):
        factor = safe_cholesky(C)
        nll += 0.5 * (len(e) * np.log(2.0 * np.pi) + factor.log_det() + float(np.sum(solve_lower(factor.L, e) ** 2)))
    half = norm.ppf(0.975)
    crps = sd * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    truth = np.cov(clean.T, bias=True) + noise_std**2 * np.eye(y.shape[1])
    implied = np.cov(mean.T, bias=True) + cov.mean(axis=0)
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "nll": nll / len(error),
        "crps": float(crps.mean()),
        "coverage": float((np.abs(z) <= half).mean()),
        "width": float(2.0 * half * sd.mean()),
        "cov_err": float(np.linalg.norm(implied - truth) / np.linalg.norm(truth)),
    }
