"""Sparse symmetric matrices of dense blocks: elimination order, Cholesky, solve, determinant, selected inverse.

A.2 of Schürch et al., Correlated Product of Experts: the fill-reducing order is found on the graph of blocks
alone,
the factor is formed column by column with dense products, and the inverse is computed on the factor's pattern
(Takahashi's recursion), which holds every entry that prediction and gradients ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import safe_cholesky, solve_lower, solve_upper


@dataclass(frozen=True, slots=True)
class Symbolic:
    """``order[k]`` is the k-th block eliminated; ``below[k]`` the later ones (as positions) in its column."""

    order: tuple[int, ...]
    below: tuple[tuple[int, ...], ...]

    @property
    def off_diagonal(self) -> int:
        """Off-diagonal blocks of the factor, fill included."""
        return sum(map(len, self.below))


def analyse(n_blocks: int, cliques: Iterable[Sequence[int]]) -> Symbolic:
    """Minimum-degree order of the graph in which every given set of blocks is complete, and the factor's
    pattern."""
    neighbours: list[set[int]] = [set() for _ in range(n_blocks)]
    for clique in cliques:
        for i in clique:
            neighbours[i].update(clique)
    for i in range(n_blocks):
        neighbours[i].discard(i)
    alive = set(range(n_blocks))
    order: list[int] = []
    columns: list[set[int]] = []
    while alive:
        # the later block first among equals: experts are numbered from the middle outwards
        k = min(alive, key=lambda i: (len(neighbours[i]), -i))
        around = neighbours[k]
        for i in around:
            neighbours[i] |= around
            neighbours[i] -= {i, k}
        alive.remove(k)
        order.append(k)
        columns.append(set(around))
    position = {b: p for p, b in enumerate(order)}
    return Symbolic(tuple(order), tuple(tuple(sorted(position[b] for b in column)) for column in columns))


@final
class BlockCholesky:
    """``L L' = A`` for a block-sparse A, in the order of ``symbolic``.

    Parameters
    ----------
    symbolic
        The pattern, from :func:`analyse`.
    sizes
        Rows of every block, by block number.
    blocks
        ``blocks[i, j]`` (size_i, size_j), one of (i, j) and (j, i) for every pair that is not zero.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> f = BlockCholesky(analyse(2, [(0, 1)]), [1, 1], {(0, 0): A[:1, :1], (1, 0): A[1:, :1], (1, 1): A[1:, 1:]})
    >>> round(f.log_det(), 6) == round(float(np.log(8.0)), 6)
    True
    """

    def __init__(self, symbolic: Symbolic, sizes: Sequence[int], blocks: dict[tuple[int, int], Array]) -> None:
        self.symbolic = symbolic
        self.sizes = [sizes[b] for b in symbolic.order]
        place = {b: p for p, b in enumerate(symbolic.order)}
        work: dict[tuple[int, int], Array] = {}
        for (i, j), block in blocks.items():
            p, r = place[i], place[j]
            work[max(p, r), min(p, r)] = np.array(block if p >= r else block.T)
        self.diagonal: list[Array] = []
        self.column: list[Array] = []  # everything below the diagonal of a column, stacked
        for k, below in enumerate(symbolic.below):
            L = safe_cholesky(work.pop((k, k))).L
            rows = [work.pop((i, k), None) for i in below]
            filled = [
                np.zeros((self.sizes[i], self.sizes[k])) if r is None else r for i, r in zip(below, rows, strict=True)
            ]
            B = np.concatenate(filled) if filled else np.zeros((0, self.sizes[k]))
            B = solve_lower(L, B.T).T if len(B) else B
            self.diagonal.append(L)
            self.column.append(B)
            self._subtract(work, below, B @ B.T)

    def _subtract(self, work: dict[tuple[int, int], Array], below: tuple[int, ...], S: Array) -> None:
        cuts = self._cuts(below)
        for a, i in enumerate(below):
            for b, j in enumerate(below[: a + 1]):
                part = S[cuts[a] : cuts[a + 1], cuts[b] : cuts[b + 1]]
                if (i, j) in work:
                    work[i, j] -= part
                else:
                    work[i, j] = -part

    def _cuts(self, below: tuple[int, ...]) -> list[int]:
        return [int(c) for c in np.cumsum([0, *(self.sizes[i] for i in below)])]

    def log_det(self) -> float:
        """``log |A|``."""
        return 2.0 * float(sum(np.sum(np.log(np.diagonal(L))) for L in self.diagonal))

    def solve(self, b: Sequence[Array]) -> list[Array]:
        """``A^-1 b``; b and the answer are lists of (size, q), by block number."""
        order, below = self.symbolic.order, self.symbolic.below
        x = [np.array(b[block]) for block in order]
        for k, rows in enumerate(below):
            x[k] = solve_lower(self.diagonal[k], x[k])
            cuts = self._cuts(rows)
            step = self.column[k] @ x[k]
            for a, i in enumerate(rows):
                x[i] -= step[cuts[a] : cuts[a + 1]]
        for k in range(len(order) - 1, -1, -1):
            rows = below[k]
            if rows:
                x[k] = x[k] - self.column[k].T @ np.concatenate([x[i] for i in rows])
            x[k] = solve_upper(self.diagonal[k], x[k])
        out: list[Array] = [np.zeros(0)] * len(order)
        for k, block in enumerate(order):
            out[block] = x[k]
        return out

    def selected_inverse(self) -> SelectedInverse:
        """Blocks of ``A^-1`` on the factor's pattern."""
        Z: dict[tuple[int, int], Array] = {}
        for k in range(len(self.symbolic.order) - 1, -1, -1):
            rows, L = self.symbolic.below[k], self.diagonal[k]
            half = solve_lower(L, np.eye(len(L)))
            corner = half.T @ half
            if rows:
                G = solve_upper(L, self.column[k].T).T  # B L^-1
                inner = np.block([[Z[i, j] if i >= j else Z[j, i].T for j in rows] for i in rows])
                ZG = inner @ G
                corner = corner + G.T @ ZG
                cuts = self._cuts(rows)
                for a, i in enumerate(rows):
                    Z[i, k] = -ZG[cuts[a] : cuts[a + 1]]
            Z[k, k] = 0.5 * (corner + corner.T)
        return SelectedInverse(Z, {b: p for p, b in enumerate(self.symbolic.order)})


@final
@dataclass(frozen=True, slots=True)
class SelectedInverse:
    """Entries of an inverse on the pattern of its factor."""

    blocks: dict[tuple[int, int], Array]  # by position, lower half
    place: dict[int, int]

    def dense(self, members: Sequence[int]) -> Array:
        """The inverse's rows and columns of some blocks that are complete in the graph."""
        at = [self.place[b] for b in members]
        return np.block([[self.blocks[i, j] if i >= j else self.blocks[j, i].T for j in at] for i in at])
