"""The way to good hyperparameters in little time: exact evidence of small random subsets first, then the whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.models.cpoe.graph import parts_of
from streamgp.models.cpoe.layout import Layout, arrange, metric
from streamgp.models.cpoe.options import Options, data_scaled
from streamgp.models.cpoe.training import (
    Evaluate,
    Hyper,
    ascend,
    bounds,
    exact_evidence,
    graph_evidence,
    maximise,
    say,
)

#: rows of the subsets whose exact evidence gives the first values, and iterations spent on each
SUBSETS = ((400, 60), (1200, 30))
#: up to this many rows the whole evidence is maximised; beyond it, it is climbed for a few steps only
WHOLE = 4000
CLIMB = 4


def learn_hyperparameters(
    options: Options, start: Hyper, X: Array, y: Array, *, n_experts: int, rng: np.random.Generator
) -> tuple[Hyper, int]:
    """Kernel and noise variance for a batch, and the iterations taken; those at the start where ``optimizer``
    is None or all fails."""
    if options.optimizer is None or options.iterations == 0:
        return start, 0
    if options.kernel is None:
        start = Hyper(data_scaled(start.kernel, X, y), start.noise_variance, start.approximation)
        power = float(np.mean(y * y))
        if power > 0.0:
            start = start.at(np.append(start.kernel.theta, np.log(0.1 * power)))
    box = bounds(start, y)
    prior = options.log_normal(start.kernel)
    if options.optimizer == "adam":
        layout = _arranged(options, start, X, n_experts=n_experts, rng=rng)
        experts = layout.experts(X, y, exact=options.sparsity >= 1.0)
        done = ascend(experts, start, log_bounds=box, epochs=options.iterations, prior=prior, rng=rng)
        say(done)
        return done.hyper, done.iterations
    hyper, taken = start, 0
    for evaluate, iterations, n in _stages(options, X, y, rng=rng):
        steps = min(iterations, options.iterations)
        done = maximise(evaluate, hyper, log_bounds=box, max_iter=steps, prior=prior, offset=unit_offset(y, n))
        hyper, taken = done.hyper, taken + done.iterations
    layout = _arranged(options, hyper, X, n_experts=n_experts, rng=rng)
    experts = layout.experts(X, y, exact=options.sparsity >= 1.0)
    steps = options.iterations if len(X) <= WHOLE else min(CLIMB, options.iterations)
    evaluate = graph_evidence(experts, *parts_of(layout.predecessors))
    done = maximise(evaluate, hyper, log_bounds=box, max_iter=steps, prior=prior, offset=unit_offset(y, len(X)))
    say(done)
    return (start if done.failed else done.hyper), taken + done.iterations


def unit_offset(y: Array, n: int) -> float:
    """What the unit of y adds to the evidence of n rows."""
    power = float(np.mean(y * y))
    return -0.5 * n * y.shape[1] * float(np.log(power)) if power > 0.0 else 0.0


def _stages(options: Options, X: Array, y: Array, *, rng: np.random.Generator) -> Iterator[tuple[Evaluate, int, int]]:
    """Evidence of a subset, iterations to spend on it, and its rows."""
    for n, iterations in SUBSETS:
        if 2 * n <= len(X):
            rows = rng.choice(len(X), n, replace=False)
            yield exact_evidence(X[rows], y[rows]), iterations, n


def _arranged(options: Options, hyper: Hyper, X: Array, *, n_experts: int, rng: np.random.Generator) -> Layout:
    return arrange(
        X,
        metric(hyper.kernel, X.shape[1]),
        n_experts=n_experts,
        correlation=options.correlation,
        sparsity=options.sparsity,
        predecessors=options.rule,
        rng=rng,
    )
