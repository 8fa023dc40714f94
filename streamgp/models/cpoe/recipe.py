"""The way to good hyperparameters in little time: the exact evidence of a small random subset first, then more."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streamgp.gp.block_evidence import Block, conditional_evidence
from streamgp.gp.gaussian import Array
from streamgp.gp.hyperparameters import mean_square_of, within_sight
from streamgp.models.cpoe.graph import parts_of
from streamgp.models.cpoe.layout import Layout, arrange, metric
from streamgp.models.cpoe.options import LBFGS_ITERATIONS, Options
from streamgp.models.cpoe.partition import kd_partition
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

#: rows of the subset whose exact evidence gives the first values, and iterations spent on it
SUBSET = (400, 60)
#: share of rows that are copies of others, targets included, from which on they are seen once
COPIES = 0.1
#: up to this many rows the evidence of the model itself is maximised: where every row is inducing, and where not or
#: iterations were asked for
WHOLE, WHOLE_SPARSE = 2000, 4000
#: beyond it, exact conditionals of small blocks given their nearest block are climbed: rows at most, and iterations.
#: On kin40k, J = 24, the subset leaves an RMSE of 0.22, 3,000 rows by blocks bring it to 0.147 in 0.8 s, all 10,000 to
#: 0.144 in 2 s; the exact evidence of 1,000 random rows takes 1.4 s and ends at 0.160.
CLIMBS = ((3000, 8), (12_000, 14), (40_000, 5))
BLOCK = 128
#: the only climb of a model that cannot afford a second one
ALONE = (3000, 20)
#: such a climb may cost about as much as the model itself; the first one has at least this many rows
LEAST_CLIMB = 1500
#: length-scales that begin such a climb, in standard deviations of their columns, at most
SIGHT = 4.0


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
    region = min(options.correlation, n_experts) * len(X) / n_experts
    if takes_all(options, len(X)):
        if taken > 0:
            evaluate = _near_blocks(hyper, X, y, len(X), rng=rng)
            done = _climb(options, evaluate, hyper, y, len(X), box=box, iterations=CLIMBS[0][1])
            hyper, taken = done.hyper, taken + done.iterations
        layout = _arranged(options, hyper, X, n_experts=n_experts, rng=rng)
        experts = layout.experts(X, y, exact=options.sparsity >= 1.0)
        evaluate = graph_evidence(experts, *parts_of(layout.predecessors))
        iterations = options.iterations if options.max_iter is not None else whole_iterations(len(X))
        done = _climb(options, evaluate, hyper, y, len(X), box=box, iterations=iterations)
        hyper, taken = done.hyper, taken + done.iterations
    else:
        hyper = _in_sight(hyper, X, box)
        for rows, iterations in climbs(len(X), region=region):
            evaluate = _near_blocks(hyper, X, y, rows, rng=rng)
            done = _climb(options, evaluate, hyper, y, len(X), box=box, iterations=iterations)
            hyper, taken = done.hyper, taken + done.iterations
    say(done)
    return hyper, taken


def without_copies(X: Array, y: Array) -> tuple[Array, Array]:
    """The rows that hyperparameters are learned from: each once, where at least ``COPIES`` of them are copies.

    Taken as observations of their own, copies speak for no noise at all: the evidence has no bound as the noise falls,
    and a climb ends there, at a function that is zero between the rows. Where a row comes back with another target
    even once, rows that agree may do so by chance and stay.
    """
    _, first = np.unique(X, axis=0, return_index=True)
    if len(first) > (1.0 - COPIES) * len(X) or len(np.unique(np.column_stack([X, y]), axis=0)) > len(first):
        return X, y
    first = np.sort(first)
    return X[first], y[first]


def _in_sight(hyper: Hyper, X: Array, box: Array) -> Hyper:
    """Columns that a few hundred rows could not see, given back a slope: the evidence has none at long length-scales.

    On casp the subset loses up to four of nine columns for good without this: NLPD 0.97 to 1.02 by seed, 0.94 to 0.95
    with it.
    """
    theta = within_sight(hyper.kernel, X, SIGHT)
    return hyper.at(np.clip(np.append(theta, np.log(hyper.noise_variance)), box[:, 0], box[:, 1]))


def whole_iterations(n: int) -> int:
    """Iterations on the whole evidence where none are asked for: a subset has done most of the way for many rows."""
    return LBFGS_ITERATIONS if n < 2 * SUBSET[0] else 20


def takes_all(options: Options, n: int) -> bool:
    """Whether the evidence of the model itself is climbed, of all n rows."""
    asked = options.max_iter is not None or options.sparsity < 1.0
    return n <= (WHOLE_SPARSE if asked else WHOLE)


def is_calibrated(options: Options, y: Array) -> bool:
    """Whether the width of intervals is checked by leaving rows out: where parts of the data chose hyperparameters."""
    learned = options.optimizer is not None and options.iterations > 0 and says_something(y)
    return learned and options.prior is None and not takes_all(options, len(y))


def climbs(n: int, *, region: float) -> Iterator[tuple[int, int]]:
    """Rows and iterations of the climbs on blocks, for a model of n rows and ``region`` rows a region.

    A row costs the model time in proportion to ``region ** 2`` and a climb ``(2 BLOCK) ** 2`` an evaluation: a quick
    model does not wait for hyperparameters that it cannot use.
    """
    budget = 8.0 * n * (region / (2 * BLOCK)) ** 2
    most, iterations = CLIMBS[0]
    first = _affordable(budget, n, most, iterations)
    rest = budget - 1.3 * first * iterations
    if _affordable(rest, n, *CLIMBS[1]) < 2 * first:
        yield max(_affordable(budget, n, *ALONE), min(n, LEAST_CLIMB)), ALONE[1]
        return
    yield first, iterations
    before = first
    for most, iterations in CLIMBS[1:]:
        rows = _affordable(rest, n, most, iterations)
        if rows < 2 * before:
            return
        yield rows, iterations
        rest -= 1.3 * rows * iterations
        before = rows


def _affordable(budget: float, n: int, most: int, iterations: int) -> int:
    """Rows of a climb of so many iterations, about 1.3 evaluations each, within a budget of rows evaluated."""
    return int(min(most, n, budget / (1.3 * iterations)))


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


def _near_blocks(hyper: Hyper, X: Array, y: Array, rows: int, *, rng: np.random.Generator) -> Evaluate:
    """Conditionals of blocks of all rows given the nearest other block, about ``rows`` rows of them, scaled up to all.

    The blocks stay as dense as the rows are: it is there that the model will predict.
    """
    Z = X * metric(hyper.kernel, X.shape[1])
    cells = kd_partition(Z, -(-len(X) // BLOCK))
    centres = np.array([Z[r].mean(axis=0) for r in cells])
    some = np.arange(len(cells))
    if rows < len(X):
        some = np.sort(rng.choice(len(cells), -(-rows // BLOCK), replace=False))
    blocks = []
    for j in some:
        distance = np.sum((centres - centres[j]) ** 2, axis=1)
        distance[j] = np.inf
        near = cells[int(np.argmin(distance))]
        both = np.concatenate([near, cells[j]])
        blocks.append(Block(X[both], y[both], len(near)))
    scale = len(cells) / len(some)

    def evaluate(h: Hyper) -> tuple[float, Array]:
        value, gradient = conditional_evidence(h.kernel, h.noise_variance, blocks)
        return scale * value, scale * gradient

    return evaluate


def unit_offset(y: Array, n: int) -> float:
    """What the unit of y adds to the evidence of n rows."""
    return float(-0.5 * n * y.shape[1] * np.log(mean_square_of(y)))


def _stages(options: Options, X: Array, y: Array, *, rng: np.random.Generator) -> Iterator[tuple[Evaluate, int, int]]:
    """Evidence of a subset, iterations to spend on it, and its rows."""
    n, iterations = SUBSET
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
