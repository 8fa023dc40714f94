"""Fitting a kernel and a noise variance to a sample: where to begin, within which bounds, and what if it fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgp.gp.evidence import Sample, log_evidence, search
from streamgp.gp.gaussian import Array
from streamgp.gp.kernels import CompiledKernel

# Relative to the mean square of the targets.
NOISE_BOUNDS = (1e-6, 1e1)


@dataclass(frozen=True, slots=True)
class Fit:
    """Hyperparameters after a fit.

    Attributes
    ----------
    kernel, noise_variance
        Fitted, or the ones held before if nothing better was found.
    log_evidence : float
        Of the sample, there.
    converged : bool
        False says that the optimiser stopped early or that the old values were kept; ``message`` says why.
    message : str
    """

    kernel: CompiledKernel
    noise_variance: float
    log_evidence: float
    converged: bool
    message: str


def fit_evidence(
    kernel: CompiledKernel,
    noise_variance: float,
    sample: Sample,
    *,
    bounds: Array | None = None,
    random_starts: int = 0,
    rng: np.random.Generator | None = None,
    max_iter: int = 100,
) -> Fit:
    """Maximise the marginal likelihood of a sample by L-BFGS-B from several starts.

    The starts are the values held, one with length-scales as long as the data and one with short ones, variances
    shared between signal and noise, and as many random ones as asked for.

    Parameters
    ----------
    kernel, noise_variance
        Values held. A noise variance of exactly 0 stays 0.
    sample
        Observations; all of them enter every evaluation, at the cost of their number cubed.
    bounds : (p, 2)
        Logarithms of the bounds of theta; the kernel's own by default.
    random_starts, rng
        Further starts between the bounds, and where they are drawn from.
    max_iter
        Of each start.
    """
    mean_square = float(np.mean(sample.y**2))
    if len(sample.X) < 2 or not np.isfinite(mean_square) or mean_square <= 0.0:
        return Fit(kernel, noise_variance, -np.inf, False, "too little, or nothing but zeros, to fit to")
    noise_log = np.log(mean_square * np.array(NOISE_BOUNDS))
    noise_fixed = noise_variance == 0.0
    if noise_fixed:
        noise_log = np.zeros((0,))
    box = np.vstack([kernel.bounds if bounds is None else bounds, noise_log.reshape(-1, 2)])
    if len(box) == 0:
        value, _ = log_evidence(kernel, noise_variance, sample)
        return Fit(kernel, noise_variance, value, True, "nothing is free")

    def objective(parameters: Array) -> tuple[float, Array]:
        theta = parameters if noise_fixed else parameters[:-1]
        noise = 0.0 if noise_fixed else float(np.exp(parameters[-1]))
        value, gradient = log_evidence(kernel.with_theta(theta), noise, sample)
        return -value, -(gradient[:-1] if noise_fixed else gradient)

    starts = [kernel.theta, *(data_start(kernel, sample, reach) for reach in (1.0, 0.15))]
    noises = [np.log(max(noise_variance, 1e-300)), np.log(0.1 * mean_square), np.log(0.01 * mean_square)]
    points = [s if noise_fixed else np.append(s, n) for s, n in zip(starts, noises, strict=True)]
    rng = np.random.default_rng(0) if rng is None else rng
    points += [rng.uniform(box[:, 0], box[:, 1]) for _ in range(random_starts)]
    found = search(objective, points, box, max_iter=max_iter)
    if found.parameters is points[0] or not np.isfinite(found.value):
        return Fit(kernel, noise_variance, -found.value, False, f"not converged: {found.message}")
    theta = found.parameters if noise_fixed else found.parameters[:-1]
    noise = 0.0 if noise_fixed else float(np.exp(found.parameters[-1]))
    return Fit(kernel.with_theta(theta), noise, -found.value, found.converged, found.message)


def data_start(kernel: CompiledKernel, sample: Sample, reach: float) -> Array:
    """(p,) theta with length-scales ``reach`` times the data's own spread, and variances of the data's size.

    Every free hyperparameter whose name ends in ``length_scale``, ``length_scales``, ``constant_value`` or
    ``noise_level`` is set; others stay as they are.
    """
    spread = np.std(sample.X, axis=0)
    spread = np.where(spread > 0, spread, 1.0) * np.sqrt(sample.X.shape[1])
    mean_square = float(np.mean(sample.y**2))
    parts: list[Array] = []
    at = 0
    theta = kernel.theta
    for h in _free_hyperparameters(kernel.source):
        n = h.n_elements
        part = theta[at : at + n].copy()
        if h.name.endswith(("length_scale", "length_scales")):
            part[:] = np.log(reach * (spread if n == len(spread) else float(np.exp(np.mean(np.log(spread))))))
        elif h.name.endswith("constant_value"):
            part[:] = np.log(mean_square)
        elif h.name.endswith("noise_level"):
            part[:] = np.log(0.1 * mean_square)
        parts.append(part)
        at += n
    return np.concatenate([np.zeros(0), *parts])


def _free_hyperparameters(kernel: Any) -> list[Any]:
    return [h for h in kernel.hyperparameters if not h.fixed]
