"""The graph of experts: correlation sets (Def. 2), and the tree of cliques where the graph is chordal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Clique:
    """Experts that are correlated as one: ``separator`` is shared with the ``parent`` clique (-1: none)."""

    separator: tuple[int, ...]
    residual: tuple[int, ...]
    parent: int
    children: list[int] = field(default_factory=list)

    @property
    def members(self) -> tuple[int, ...]:
        """Expert numbers in the order of the clique's values."""
        return self.separator + self.residual


def root_size(predecessors: Sequence[Sequence[int]]) -> int:
    """C of Def. 2 as the graph has it: how many first experts are correlated with all experts before them."""
    m = 0
    while m < len(predecessors) and set(predecessors[m]) == set(range(m)):
        m += 1
    return m


def correlation_sets(predecessors: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """psi(j) for every expert: the first C experts share one region, later ones add themselves to pi(j)."""
    m = root_size(predecessors)
    first = tuple(range(m))
    return [first if j < m else (*sorted(pi), j) for j, pi in enumerate(predecessors)]


def regions(predecessors: Sequence[Sequence[int]]) -> list[Clique]:
    """The J2 = J - C + 1 predictive regions (Prop. 8), without regard to a tree."""
    m = root_size(predecessors)
    rest = [Clique(tuple(sorted(pi)), (j,), -1) for j, pi in enumerate(predecessors) if j >= m]
    return [Clique((), tuple(range(m)), -1), *rest]


def parts_of(predecessors: Sequence[Sequence[int]]) -> tuple[list[Clique], bool]:
    """The regions, and whether they form a tree."""
    tree = clique_tree(predecessors)
    return (tree, True) if tree is not None else (regions(predecessors), False)


def parent_of(cliques: Sequence[Clique], pi: Sequence[int], m: int) -> int | None:
    """The clique that contains pi (-1 for an empty pi), or None if none does."""
    if not pi:
        return -1
    last = max(pi)
    holder = 0 if last < m else last - m + 1
    return holder if set(pi) <= set(cliques[holder].members) else None


def clique_tree(predecessors: Sequence[Sequence[int]]) -> list[Clique] | None:
    """The junction tree, clique 0 at its root; None where some pi(j) lies in no earlier clique (there is fill).

    Clique ``j - C + 1`` belongs to expert j; a clique's number is above its parent's.
    """
    m = root_size(predecessors)
    cliques = [Clique((), tuple(range(m)), -1)]
    for j in range(m, len(predecessors)):
        parent = parent_of(cliques, predecessors[j], m)
        if parent is None:
            return None
        cliques.append(Clique(tuple(sorted(predecessors[j])), (j,), parent))
        if parent >= 0:
            cliques[parent].children.append(len(cliques) - 1)
    return cliques
