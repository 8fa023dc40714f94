"""Partition, order, predecessors and inducing points (3.6.1), all in the metric that the kernel gives, or a
plain one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamgp.gp.gaussian import Array

Rows = NDArray[np.int64]


def kd_partition(X: Array, n_experts: int) -> list[Rows]:
    """Rows in ``n_experts`` cells of a KD-tree whose sizes differ by at most one.

    Every cell is cut across its widest column, at the row that shares its experts out evenly.
    """
    base, extra = divmod(len(X), n_experts)
    out: list[Rows] = []
    stack = [(np.arange(len(X), dtype=np.int64), n_experts, extra)]
    while stack:
        rows, count, larger = stack.pop()
        if count == 1:
            out.append(np.sort(rows))
            continue
        left = count // 2
        # the larger cells are shared out in proportion, so that both halves keep to sizes base and base + 1
        left_larger = min(left, (larger * left + count // 2) // count)
        left_larger = max(left_larger, larger - (count - left))
        size = base * left + left_larger
        cell = X[rows]
        column = int(np.argmax(np.ptp(cell, axis=0)))
        order = np.argpartition(cell[:, column], min(size, len(rows) - 1))
        stack.append((rows[order[size:]], count - left, larger - left_larger))
        stack.append((rows[order[:size]], left, left_larger))
    return out


def greedy_order(centres: Array, first: int, *, tour: bool = False) -> Rows:
    """Cells in an order that starts at ``first`` and goes on with the cell nearest to any that is already in.

    With ``tour`` it goes on with the cell nearest to the last one instead.
    """
    J = len(centres)
    order = np.empty(J, dtype=np.int64)
    best = np.full(J, np.inf)
    j = first
    for i in range(J):
        order[i] = j
        distance = np.sum((centres - centres[j]) ** 2, axis=1)
        best = distance if tour else np.minimum(best, distance)
        best[j] = np.inf
        if i + 1 < J:
            candidate = best.copy()
            candidate[order[: i + 1]] = np.inf
            j = int(np.argmin(candidate))
    return order


def nearest_predecessors(centres: Array, correlation: int) -> list[list[int]]:
    """pi(j): the C - 1 nearest earlier cells (the paper's rule), nearest first."""
    out: list[list[int]] = []
    for j in range(len(centres)):
        distance = np.sum((centres[:j] - centres[j]) ** 2, axis=1)
        out.append([int(i) for i in np.argsort(distance, kind="stable")[: correlation - 1]])
    return out


class CliqueRule:
    """pi(j): C - 1 members of one earlier clique, so that elimination fills nothing in, one for every degree up to C.

    Cells are told one by one; :meth:`choose` answers for the next. Its first predecessor is the nearest earlier cell;
    every further one is the nearest cell that lies in one clique, of that degree, with those chosen before. So the
    first entries of pi(j) are what this rule gives for a smaller C: correlation sets grow with C, as Props 12 and 13
    ask for.
    """

    def __init__(self, correlation: int) -> None:
        self.correlation = correlation
        self._centres: Array = np.zeros((0, 0))
        self._cells = 0
        #: (cells, C): each cell, then its predecessors in their order; itself where it has fewer
        self._members = np.zeros((64, correlation), dtype=np.int64)

    def choose(self, centre: Array) -> list[int]:
        """pi of the next cell, in the order in which degrees add them."""
        j, C = self._cells, self.correlation
        chosen: list[int] = []
        if j == 0:
            return chosen
        distance = np.sum((self._centres[:j] - centre) ** 2, axis=1)
        for degree in range(2, C + 1):
            cliques = self._members[:j, :degree]
            for k in chosen:
                cliques = cliques[np.any(cliques == k, axis=1)]
            others = np.setdiff1d(cliques, chosen)
            if len(others) == 0:
                break
            chosen.append(int(others[np.argmin(distance[others])]))
        return chosen

    def add(self, centre: Array, pi: Sequence[int]) -> None:
        """Tell the cell that came next, with the pi that it has; of a larger one the nearest C - 1 are remembered."""
        j, C = self._cells, self.correlation
        if j == len(self._centres):
            grown = np.zeros((max(64, 2 * j), len(centre)))
            grown[:j] = self._centres[:j] if j else grown[:0]
            self._centres = grown
        if j == len(self._members):
            self._members = np.concatenate([self._members, np.zeros_like(self._members)])
        self._centres[j] = centre
        self._cells += 1
        near = list(pi)
        if len(near) >= C:
            distance = np.sum((self._centres[near] - centre) ** 2, axis=1)
            near = [near[int(i)] for i in np.argsort(distance, kind="stable")[: C - 1]]
        self._members[j] = [j, *near, *[j] * (C - 1 - len(near))]


def clique_predecessors(centres: Array, correlation: int) -> list[list[int]]:
    """pi(j) by :class:`CliqueRule` for all cells at once."""
    rule = CliqueRule(correlation)
    out: list[list[int]] = []
    for centre in centres:
        pi = rule.choose(centre)
        rule.add(centre, pi)
        out.append(pi)
    return out


def inducing_rows(size: int, sparsity: float, rng: np.random.Generator) -> Rows:
    """Which of an expert's rows are inducing: L = max(1, floor(gamma B)) of them at random, all for gamma = 1."""
    if sparsity >= 1.0:
        return np.arange(size, dtype=np.int64)
    count = inducing_count(size, sparsity)
    return np.sort(rng.choice(size, count, replace=False)).astype(np.int64)


def inducing_count(size: int, sparsity: float) -> int:
    """L of Def. 1; a product such as 0.7 * 10 that falls a rounding below an integer counts as that integer."""
    return size if sparsity >= 1.0 else max(1, int(np.floor(sparsity * size + 1e-9)))
