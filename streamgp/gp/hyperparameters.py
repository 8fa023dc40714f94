"""Fitting a kernel and a noise variance to a sample: where to begin, within which bounds, and what if it fails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.evidence import Sample, log_evidence, search
from streamgp.gp.gaussian import Array

# Relative to the mean square of the targets.
NOISE_BOUNDS = (1e-6, 1e1)


@dataclass(frozen=True, slots=True)
class LogNormalPrior:
    """Independent normal beliefs about the logarithms of the hyperparameters.

    Attributes
    ----------
    mean : (p,)
    precision : (p,)
        Inverse variances; 0 where nothing is believed.

    Examples
    --------
    >>> import numpy as np
    >>> LogNormalPrior(np.zeros(2), np.array([1.0, 0.0])).penalty(np.array([2.0, 9.0]))
    (2.0, array([2., 0.]))
    """

    mean: Array
    precision: Array

    def penalty(self, parameters: Array) -> tuple[float, Array]:
        """Minus the log density up to a constant, and its gradient (p,)."""
        pull = self.precision * (parameters - self.mean)
        return 0.5 * float(pull @ (parameters - self.mean)), pull


@dataclass(frozen=True, slots=True)
class Fit:
    """Hyperparameters after a fit.

    Attributes
    ----------
    kernel, noise_variance
        Fitted, or the ones held before if nothing better was found.
    log_evidence : float
        Of the sample, there; the prior's density comes on top, if there is one.
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
    prior: LogNormalPrior | None = None,
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
    prior
        Of (theta, log noise variance); None fits the evidence alone.
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
        if prior is not None:
            penalty, pull = prior.penalty(np.append(theta, np.log(noise) if noise > 0 else prior.mean[-1]))
            value, gradient = value - penalty, gradient - pull
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


#: standard deviation, in log units, of what is believed of a hyperparameter by the end of its name
_SPREAD = {"length_scale": 0.8, "length_scales": 0.8, "constant_value": 1.5, "noise_level": 1.5}


def data_prior(kernel: CompiledKernel, sample: Sample) -> LogNormalPrior:
    """A weak belief in the data's own units: smooth functions are likelier, all within a factor of a few.

    Length-scales are believed to be about four times what :func:`data_start` calls long, since few observations
    always leave room for a crooked function, and noise to have a third of the targets' mean square. That keeps a
    fit to few observations from explaining them without noise, and a length-scale that no data speak about from
    running away; a few hundred observations overrule it. Nothing is believed of hyperparameters of other names.
    """
    deviations: list[Array] = [np.full(h.size, _spread_of(h.name)) for h in kernel.free]
    sd = np.concatenate([np.zeros(0), *deviations, [1.5]])
    mean_square = mean_square_of(sample.y)
    mean = np.append(data_start(kernel, sample, 4.0), np.log(0.3 * mean_square))
    return LogNormalPrior(mean, sd**-2.0)


def _spread_of(name: str) -> float:
    return next((sd for end, sd in _SPREAD.items() if name.endswith(end)), np.inf)


def data_start(kernel: CompiledKernel, sample: Sample, reach: float) -> Array:
    """(p,) theta with length-scales ``reach`` times the data's own spread, and variances of the data's size.

    Every free hyperparameter whose name ends in ``length_scale``, ``length_scales``, ``constant_value`` or
    ``noise_level`` is set; others stay as they are.
    """
    spread = spread_of(sample.X) * np.sqrt(sample.X.shape[1])
    mean_square = mean_square_of(sample.y)
    parts: list[Array] = []
    at = 0
    theta = kernel.theta
    for h in kernel.free:
        n = h.size
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


def within_sight(kernel: CompiledKernel, X: Array, reach: float) -> Array:
    """(p,) theta, a length-scale a column being at most ``reach`` times the standard deviation of its column."""
    theta, at = kernel.theta, 0
    d = X.shape[1]
    for h in kernel.free:
        part = slice(at, at + h.size)
        if d > 1 and h.size == d and h.name.endswith("length_scale"):
            theta[part] = np.minimum(theta[part], np.log(reach * spread_of(X)))
        at += h.size
    return theta


def spread_of(X: Array) -> Array:
    """(d,) standard deviation of each column of X; 1 for one that varies by no more than rounding does."""
    spread = np.std(X, axis=0)
    return np.asarray(np.where(spread > 1e-12 * np.abs(X).max(axis=0), spread, 1.0))


#: a mean square below this is as good as none: its products with itself are no numbers
LEAST_SQUARE = 1e-200


def mean_square_of(y: Array) -> float:
    """Mean square of targets; 1 where they say nothing of their size, being all zero (or below 1e-100)."""
    power = float(np.mean(y**2))
    return power if power >= LEAST_SQUARE else 1.0
