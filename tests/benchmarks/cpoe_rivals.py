"""The rivals of the correlated experts on one data set, each timed with its hyperparameters, fit and prediction."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.linalg import blas, lapack
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from streamgp.gp.kernels import compile_kernel
from streamgp.gp.projections import Approximation
from streamgp.models.cpoe.training import Hyper, bounds, exact_evidence, maximise
from streamgp.models.experts import CPoERegressor

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Score:
    """RMSE and NLPD of y, coverage of the 95% interval, wall and CPU seconds."""

    name: str
    rmse: float
    nlpd: float
    coverage: float
    seconds: float
    cpu: float

    def __str__(self) -> str:
        return (
            f"{self.name:34s} RMSE {self.rmse:.4f}  NLPD {self.nlpd:7.3f}  95% {self.coverage:.3f}"
            f"  {self.seconds:7.1f} s  (cpu {self.cpu:7.1f} s)"
        )


def timed(name: str, run: Callable[[], tuple[np.ndarray, np.ndarray]], truth: np.ndarray) -> Score:
    """Run to a predictive mean and variance of y."""
    wall, cpu = time.perf_counter(), time.process_time()
    mean, variance = run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    error = truth - mean
    nlpd = float(np.mean(0.5 * np.log(2 * np.pi * variance) + 0.5 * error**2 / variance))
    covered = float(np.mean(np.abs(error) < 1.959964 * np.sqrt(variance)))
    score = Score(name, float(np.sqrt(np.mean(error**2))), nlpd, covered, wall, cpu)
    print(score, flush=True)
    return score


def ours(data: Data, **settings: object) -> Score:
    """CPoERegressor with its default kernel."""
    X, y, Xs, truth = data

    def run() -> tuple[np.ndarray, np.ndarray]:
        model = CPoERegressor(random_state=0, **settings).fit(X, y)
        mean, std = model.predict(Xs, return_std=True)
        return mean, std**2

    return timed(f"CPoE {settings}", run, truth)


def exact(data: Data, *, rows: int, tile: int = 2048) -> Score:
    """The full GP, its hyperparameters from the exact evidence of ``rows`` random rows, by a tiled Cholesky."""
    X, y, Xs, truth = data

    def run() -> tuple[np.ndarray, np.ndarray]:
        d = X.shape[1]
        kernel = compile_kernel(ConstantKernel(1.0) * RBF(np.full(d, np.sqrt(d))))
        hyper = Hyper(kernel, 0.1, Approximation("fitc"))
        rng = np.random.default_rng(0)
        for n, steps in ((500, 60), (rows, 30)):
            some = rng.choice(len(X), min(n, len(X)), replace=False)
            evaluate = exact_evidence(X[some], y[some, None])
            box = bounds(hyper, y)
            hyper = maximise(evaluate, hyper, log_bounds=box, max_iter=steps, prior=None).hyper
        L = tiled_cholesky(hyper, X, tile)
        z = tiled_solve(L, y[:, None], tile)
        mean, variance = np.empty(len(Xs)), np.empty(len(Xs))
        for start in range(0, len(Xs), 1000):
            part = slice(start, start + 1000)
            half = tiled_solve(L, hyper.kernel(X, Xs[part]), tile)
            mean[part] = half.T @ z[:, 0]
            variance[part] = hyper.kernel.variance(Xs[part]) - np.sum(half * half, axis=0)
        return mean, variance + hyper.noise_variance

    return timed(f"exact GP, hyperparameters of {rows}", run, truth)


def tiled_cholesky(hyper: Hyper, X: np.ndarray, tile: int) -> np.ndarray:
    """Lower factor of K + s I in place, left-looking, tile by tile: LAPACK's own fails at 36,000 rows on some
    builds."""
    n = len(X)
    L = np.empty((n, n), order="F")
    for start in range(0, n, tile):
        stop = min(start + tile, n)
        column = hyper.kernel(X[start:], X[start:stop])
        column[: stop - start].flat[:: stop - start + 1] += hyper.noise_variance
        column -= L[start:, :start] @ L[start:stop, :start].T
        corner, info = lapack.dpotrf(column[: stop - start], lower=1, clean=1)
        assert info == 0
        L[start:stop, start:stop] = corner
        L[:start, start:stop] = 0.0
        if stop < n:
            L[stop:, start:stop] = blas.dtrsm(1.0, corner, column[stop - start :].T, lower=1).T
    return L


def tiled_solve(L: np.ndarray, B: np.ndarray, tile: int) -> np.ndarray:
    """``L^-1 B``."""
    out = np.array(B)
    for start in range(0, len(L), tile):
        stop = min(start + tile, len(L))
        out[start:stop] = blas.dtrsm(1.0, L[start:stop, start:stop], out[start:stop], lower=1)
        out[stop:] -= L[stop:, start:stop] @ out[start:stop]
    return out


def vecchia(data: Data, *, neighbours: int) -> Score:
    """GPBoost's Vecchia approximation, anisotropic Gaussian kernel."""
    gpboost = pytest.importorskip("gpboost", reason="pip install gpboost (extra bench)")
    X, y, Xs, truth = data

    def run() -> tuple[np.ndarray, np.ndarray]:
        model = gpboost.GPModel(
            gp_coords=X,
            cov_function="gaussian_ard",
            likelihood="gaussian",
            gp_approx="vecchia",
            num_neighbors=neighbours,
            seed=0,
        )
        model.fit(y=y)
        found = model.predict(gp_coords_pred=Xs, predict_var=True, predict_response=True)
        return np.asarray(found["mu"]), np.asarray(found["var"])

    return timed(f"GPBoost Vecchia m = {neighbours}", run, truth)


def svgp(data: Data, *, inducing: int = 512, epochs: int = 150) -> Score:
    """GPyTorch's stochastic variational GP."""
    torch = pytest.importorskip("torch", reason="pip install torch gpytorch (extra bench)")
    gpytorch = pytest.importorskip("gpytorch", reason="pip install torch gpytorch (extra bench)")
    X, y, Xs, _ = (torch.as_tensor(a, dtype=torch.float32) for a in data)
    torch.manual_seed(0)

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, points):
            distribution = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            strategy = gpytorch.variational.VariationalStrategy(self, points, distribution)
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ZeroMean()
            base = gpytorch.kernels.RBFKernel(ard_num_dims=points.shape[1])
            self.covar_module = gpytorch.kernels.ScaleKernel(base)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def run() -> tuple[np.ndarray, np.ndarray]:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        model = Model(X[torch.randperm(len(X))[:inducing]].clone())
        loss = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
        optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
        for _ in range(epochs):
            order = torch.randperm(len(X))
            for rows in order.split(1024):
                optimiser.zero_grad()
                (-loss(model(X[rows]), y[rows])).backward()
                optimiser.step()
        with torch.no_grad():
            found = likelihood(model(Xs))
            return found.mean.numpy().astype(float), found.variance.numpy().astype(float)

    return timed(f"GPyTorch SVGP {inducing}", run, data[3])
