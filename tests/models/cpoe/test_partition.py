"""Partition, order and predecessors (3.6.1)."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.models.cpoe.graph import clique_tree, correlation_sets, root_size
from streamgp.models.cpoe.layout import completed
from streamgp.models.cpoe.partition import (
    clique_predecessors,
    greedy_order,
    inducing_count,
    inducing_rows,
    kd_partition,
    nearest_predecessors,
)


@pytest.mark.parametrize("J", [1, 2, 3, 7, 8, 13, 64, 100])
def test_cells_hold_every_row_once_and_differ_by_one_at_most(J):
    X = np.random.default_rng(J).uniform(size=(100, 3))
    cells = kd_partition(X, J)
    assert sorted(np.concatenate(cells)) == list(range(100))
    sizes = [len(c) for c in cells]
    assert len(cells) == J
    assert max(sizes) - min(sizes) <= 1


def test_cells_are_compact():
    X = np.random.default_rng(0).uniform(size=(1000, 2))
    spread = np.mean([X[c].std(axis=0).mean() for c in kd_partition(X, 16)])
    assert spread < 0.35 * X.std(axis=0).mean()


def test_the_order_goes_on_with_the_nearest_cell():
    centres = np.array([[0.0], [10.0], [1.0], [11.0], [3.0]])
    assert greedy_order(centres, 0).tolist() == [0, 2, 4, 1, 3]


@pytest.mark.parametrize("C", [1, 2, 3, 5, 30])
def test_cliques_never_fill_in(C):
    centres = np.random.default_rng(C).uniform(size=(30, 4))
    pi = clique_predecessors(centres, C)
    assert [len(p) for p in pi] == [min(j, C - 1) for j in range(30)]
    assert all(i < j for j, p in enumerate(pi) for i in p)
    tree = clique_tree(pi)
    assert tree is not None
    assert len(tree) == 30 - C + 1
    for clique in tree[1:]:
        if C > 1:
            assert set(clique.separator) <= set(tree[clique.parent].members)


@pytest.mark.parametrize("d", [1, 2, 8])
def test_correlation_sets_of_the_clique_rule_grow_with_c(d):
    """Props 12 and 13 compare degrees whose sets hold one another."""
    centres = np.random.default_rng(d).uniform(size=(40, d))
    centres = centres[greedy_order(centres, 0)]
    most = clique_predecessors(centres, 7)
    for C in range(1, 7):
        assert clique_predecessors(centres, C) == [p[: C - 1] for p in most]
    distance = np.sum((centres[:, None] - centres) ** 2, axis=2)
    assert [p[0] for p in most[1:]] == [int(np.argmin(distance[j, :j])) for j in range(1, 40)]


def test_nearest_is_nearest_and_may_fill_in():
    centres = np.random.default_rng(3).uniform(size=(40, 6))
    pi = nearest_predecessors(centres, 4)
    for j in range(4, 40):
        distance = np.sum((centres[:j] - centres[j]) ** 2, axis=1)
        assert pi[j] == list(np.argsort(distance, kind="stable")[:3])
    assert clique_tree(pi) is None


def test_the_completed_graph_contains_the_nearest_one_and_is_a_tree_of_cliques():
    centres = np.random.default_rng(4).uniform(size=(40, 6))
    pi = nearest_predecessors(centres, 4)
    order, more = completed(pi)
    assert clique_tree(more) is not None
    edges = {frozenset((int(order[i]), int(order[j]))) for j, p in enumerate(more) for i in p}
    assert {frozenset((i, j)) for j, p in enumerate(pi) for i in p} <= edges


def test_correlation_sets_are_those_of_definition_2():
    """Fig. 8c of the paper, 0-based."""
    pi = [[], [0], [0, 1], [1, 2], [2, 3]]
    assert root_size(pi) == 3
    assert correlation_sets(pi) == [(0, 1, 2), (0, 1, 2), (0, 1, 2), (1, 2, 3), (2, 3, 4)]


def test_inducing_points_are_a_share_of_the_rows():
    rng = np.random.default_rng(0)
    assert [inducing_count(B, 0.7) for B in (1, 2, 10, 30)] == [1, 1, 7, 21]
    rows = inducing_rows(30, 0.7, rng)
    assert len(set(rows.tolist())) == 21
    assert inducing_rows(5, 1.0, rng).tolist() == [0, 1, 2, 3, 4]
