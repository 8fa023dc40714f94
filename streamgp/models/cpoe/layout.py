"""From rows to ordered experts: partition, order, predecessors, inducing points (3.6.1), and learning their
sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamgp.errors import SettingsError
from streamgp.gp.blocks import analyse
from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.gaussian import Array
from streamgp.models.cpoe.experts_data import Experts
from streamgp.models.cpoe.partition import (
    Rows,
    clique_predecessors,
    greedy_order,
    inducing_rows,
    kd_partition,
    nearest_predecessors,
)

PREDECESSORS = ("clique", "nearest", "completed")


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of every expert in expert order, which of them are inducing, pi(j), and centres in the scaled
    metric."""

    rows: list[Rows]
    inducing: list[Rows]  # positions within the expert
    predecessors: list[list[int]]
    centres: Array
    scale: Array

    def experts(self, X: Array, y: Array, *, exact: bool) -> Experts:
        """The rows side by side."""
        Xs = [X[r] for r in self.rows]
        A = Xs if exact else [x[i] for x, i in zip(Xs, self.inducing, strict=True)]
        return Experts(Xs, [y[r] for r in self.rows], A, exact)


def metric(kernel: CompiledKernel, d: int) -> Array:
    """(d,) factors that bring the columns to the kernel's own lengths; ones where it has no such metric."""
    precision = kernel.precision(d)
    if precision is None or not np.any(precision > 0) or not np.isfinite(precision).all():
        return np.ones(d)
    return np.sqrt(precision)


def arrange(
    X: Array,
    scale: Array,
    *,
    n_experts: int,
    correlation: int,
    sparsity: float,
    predecessors: str,
    rng: np.random.Generator,
) -> Layout:
    """Partition by KD-tree, order greedily from a random start, choose predecessors and inducing points."""
    Z = X * scale
    cells = kd_partition(Z, n_experts)
    centres = np.array([Z[r].mean(axis=0) for r in cells])
    order = greedy_order(centres, int(rng.integers(n_experts)), tour=predecessors == "chain")
    cells = [cells[i] for i in order]
    centres = centres[order]
    C = min(correlation, n_experts)
    if predecessors == "clique":
        pi = clique_predecessors(centres, C)
    elif predecessors == "nearest":
        pi = nearest_predecessors(centres, C)
    elif predecessors == "chain":
        pi = [list(range(max(0, j - C + 1), j)) for j in range(n_experts)]
    elif predecessors == "completed":
        order, pi = completed(nearest_predecessors(centres, C))
        cells = [cells[i] for i in order]
        centres = centres[order]
    else:
        raise SettingsError(f"predecessors must be one of {', '.join(PREDECESSORS)}, got {predecessors!r}")
    inducing = [inducing_rows(len(r), sparsity, rng) for r in cells]
    if sparsity < 1.0:
        centres = np.array([Z[r[i]].mean(axis=0) for r, i in zip(cells, inducing, strict=True)])
    return Layout(cells, inducing, pi, centres, scale)


def completed(predecessors: Sequence[Sequence[int]]) -> tuple[Rows, list[list[int]]]:
    """The nearest graph with its fill made into correlation: a new order, and pi(j) in that order's numbers.

    Elimination in a fill-reducing order completes the graph; read backwards, every expert's later-eliminated
    neighbours lie in one clique of an earlier expert.
    """
    J = len(predecessors)
    symbolic = analyse(J, [(*pi, j) for j, pi in enumerate(predecessors)])
    order = np.array(symbolic.order[::-1], dtype=np.int64)
    return order, [[J - 1 - p for p in reversed(symbolic.below[J - 1 - j])] for j in range(J)]
