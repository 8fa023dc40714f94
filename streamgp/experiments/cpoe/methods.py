"""The methods that the paper compares, thin, on our own pieces: all take the same fitted hyperparameters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgp.fusion import bcm, gpoe, grbcm, min_variance, rbcm
from streamgp.gp.gaussian import Array
from streamgp.models.experts import CPoERegressor


@dataclass(frozen=True, slots=True)
class Belief:
    """Latent mean and variance at the test points, noise variance, log evidence (nan: none), seconds."""

    method: str
    mean: Array
    variance: Array
    noise: float
    evidence: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Problem:
    """One split with the hyperparameters that every method uses."""

    X: Array
    y: Array
    Xs: Array
    truth: Array
    kernel: Any
    noise: float
    n_experts: int
    seed: int

    def model(self, **settings: Any) -> CPoERegressor:
        """CPoE at the problem's hyperparameters."""
        settings = {"n_experts": self.n_experts, "correlation": 1, **settings}
        return CPoERegressor(self.kernel, self.noise, optimizer=None, random_state=self.seed, **settings)


def run_cpoe(problem: Problem, name: str, **settings: Any) -> Belief:
    """One CPoE, all regions predicting."""
    start = time.perf_counter()
    model = problem.model(n_predict_experts=10**6, **settings).fit(problem.X, problem.y)
    mean, std = model.predict(problem.Xs, return_std=True, latent=True)
    seconds = time.perf_counter() - start
    return Belief(name, mean, std**2, problem.noise, model.log_marginal_likelihood_value_, seconds)


def full_gp(problem: Problem) -> Belief:
    """One expert that keeps all rows."""
    return run_cpoe(problem, "fullGP", n_experts=1)


def sparse_gp(problem: Problem, inducing: int) -> Belief:
    """Global sparse GP: one expert, a random subset of its rows inducing, VFE."""
    share = min(1.0, inducing / len(problem.X))
    return run_cpoe(problem, f"SGP({inducing})", n_experts=1, sparsity=share, approximation="vfe")


def committees(problem: Problem) -> Iterator[Belief]:
    """minVar, GPoE, BCM, RBCM over independent experts, and GRBCM over experts that share a communication set."""
    start = time.perf_counter()
    model = problem.model().fit(problem.X, problem.y)
    means, variances, _ = model.predict_regions(problem.Xs)
    prior = np.asarray(problem.kernel.diag(problem.Xs), dtype=np.float64)
    shared = time.perf_counter() - start
    M = means[:, :, 0]
    evidence = model.log_marginal_likelihood_value_
    beta = 0.5 * np.log(prior / variances)
    fused = {
        "minVar": min_variance(M, variances),
        "GPoE": gpoe(M, variances, beta / beta.sum(axis=0)),
        "BCM": bcm(M, variances, prior_variance=prior),
        "RBCM": rbcm(M, variances, prior_variance=prior),
    }
    for name, f in fused.items():
        yield Belief(name, f.mean, f.variance, problem.noise, evidence, shared)
    start = time.perf_counter()
    rows = model.experts_
    talk = rows[0]
    answers = [
        problem.model(n_experts=1)
        .fit(problem.X[part], problem.y[part])
        .predict(problem.Xs, return_std=True, latent=True)
        for part in (talk, *(np.concatenate([talk, r]) for r in rows[1:]))
    ]
    if len(answers) > 1:
        f = grbcm(np.array([m for m, _ in answers]), np.array([s**2 for _, s in answers]), prior_variance=prior)
        yield Belief("GRBCM", f.mean, f.variance, problem.noise, evidence, time.perf_counter() - start)
