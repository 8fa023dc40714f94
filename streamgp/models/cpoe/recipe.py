"""The way to good hyperparameters in little time: exact evidence of small random subsets first, then the whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hyperparameters import mean_square_of
from streamgp.models.cpoe.graph import parts_of
from streamgp.models.cpoe.layout import Layout, arrange, metric
from streamgp.models.cpoe.options import LBFGS_ITERATIONS, Options
from streamgp.models.cpoe.partition import Rows
from streamgp.models.cpoe.scales import data_scaled, says_something
from streamgp.models.cpoe.training import (
    Evaluate,
    Hyper,
    Outcome,
    ascend,
    bounds,
    exact_evidence,
    graph_evidence,
    maximise,
    say,
)

#: rows of the subsets whose exact evidence gives the first values, and iterations spent on each
SUBSETS = ((400, 60), (1000, 15))
#: up to this many rows the evidence of the model itself is maximised
WHOLE = 4000
#: beyond it, that of pairs of small experts is climbed: rows at most, and iterations. On kin40k six iterations
#: over all 10,000 rows by experts of 156 bring RMSE from 0.148 (exact evidence of 1,200 rows) to 0.138 in half
#: the time that the exact evidence of 2,400 rows takes to bring it to 0.144.
CLIMBS = ((12000, 6), (40000, 3))
SMALL_EXPERT = 128
#: such a climb may cost about as much as the model itself; of fewer rows than this it is left out
LEAST_CLIMB = 1500


def learn_hyperparameters(
    options: Options, start: Hyper, X: Array, y: Array, *, n_experts: int, rng: np.random.Generator
) -> tuple[Hyper, int]:
    """Kernel and noise variance for a batch, and the iterations taken; those at the start where ``optimizer``
    is None or all fails."""
    if options.optimizer is None or options.iterations == 0:
        return start, 0
    if options.kernel is None:
        start = data_scaled(start, X, y)
    if not says_something(y):  # the evidence would end at no signal and no noise: certain of nothing but zeros
        return start, 0
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
        done = _climb(options, evaluate, hyper, y, n, box=box, iterations=iterations)
        hyper, taken = done.hyper, taken + done.iterations
    if len(X) <= WHOLE:
        layout = _arranged(options, hyper, X, n_experts=n_experts, rng=rng)
        experts = layout.experts(X, y, exact=options.sparsity >= 1.0)
        evaluate = graph_evidence(experts, *parts_of(layout.predecessors))
        iterations = options.iterations if options.max_iter is not None else whole_iterations(len(X))
        done = _climb(options, evaluate, hyper, y, len(X), box=box, iterations=iterations)
        hyper, taken = done.hyper, taken + done.iterations
    else:
        for most, iterations in climbs(len(X), region=min(options.correlation, n_experts) * len(X) / n_experts):
            rows = _some(X, most, rng)
            evaluate = _small_experts(hyper, X[rows], y[rows], rng=rng)
            done = _climb(options, evaluate, hyper, y, len(rows), box=box, iterations=iterations)
            hyper, taken = done.hyper, taken + done.iterations
    say(done)
    return hyper, taken


def whole_iterations(n: int) -> int:
    """Iterations on the whole evidence where none are asked for: subsets have done most of the way for many rows."""
    return int(np.clip(80_000 / n, 20, LBFGS_ITERATIONS))


def climbs(n: int, *, region: float) -> Iterator[tuple[int, int]]:
    """Rows and iterations of the climbs on pairs of small experts, for a model of n rows and ``region`` rows a region.

    A row costs the model time in proportion to ``region ** 2`` and a climb ``(2 SMALL_EXPERT) ** 2`` an evaluation:
    a quick model does not wait for hyperparameters that it cannot use.
    """
    budget = 2.0 * n * (region / (2 * SMALL_EXPERT)) ** 2
    for most, iterations in CLIMBS:
        evaluations = 1.6 * iterations
        rows = int(min(most, n, budget / evaluations))
        if rows < LEAST_CLIMB or (most > CLIMBS[0][0] and rows <= CLIMBS[0][0]):
            return
        yield rows, iterations
        budget -= rows * evaluations


def _climb(
    options: Options, evaluate: Evaluate, hyper: Hyper, y: Array, n: int, *, box: Array, iterations: int
) -> Outcome:
    return maximise(
        evaluate,
        hyper,
        log_bounds=box,
        max_iter=min(iterations, options.iterations),
        prior=options.log_normal(hyper.kernel),
        offset=unit_offset(y, n),
    )


def _some(X: Array, most: int, rng: np.random.Generator) -> Rows:
    if len(X) <= most:
        return np.arange(len(X), dtype=np.int64)
    return rng.choice(len(X), most, replace=False).astype(np.int64)


def _small_experts(hyper: Hyper, X: Array, y: Array, *, rng: np.random.Generator) -> Evaluate:
    """Evidence of pairs of small experts that keep all their rows: the nearest thing to the full GP's per flop."""
    layout = arrange(
        X,
        metric(hyper.kernel, X.shape[1]),
        n_experts=-(-len(X) // SMALL_EXPERT),
        correlation=2,
        sparsity=1.0,
        predecessors="clique",
        rng=rng,
    )
    return graph_evidence(layout.experts(X, y, exact=True), *parts_of(layout.predecessors))


def unit_offset(y: Array, n: int) -> float:
    """What the unit of y adds to the evidence of n rows."""
    return float(-0.5 * n * y.shape[1] * np.log(mean_square_of(y)))


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
