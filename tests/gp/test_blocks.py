"""Block-sparse Cholesky against the dense matrix."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from streamgp.gp.blocks import BlockCholesky, analyse
from tests.tolerances import FACTORED


def block_matrix(seed, n_blocks=8):
    """A random sparse positive definite matrix with blocks of sizes 1 to 4, and its block graph."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, size=n_blocks)
    ends = np.cumsum([0, *sizes])
    cliques = [tuple(rng.choice(n_blocks, 3, replace=False)) for _ in range(n_blocks)] + [(i,) for i in range(n_blocks)]
    A = np.zeros((ends[-1], ends[-1]))
    for clique in cliques:
        at = np.concatenate([np.arange(ends[i], ends[i + 1]) for i in clique])
        B = rng.standard_normal((len(at), len(at)))
        A[np.ix_(at, at)] += B @ B.T + 0.1 * np.eye(len(at))
    pairs = {(max(i, j), min(i, j)) for clique in cliques for i in clique for j in clique}
    blocks = {(i, j): A[ends[i] : ends[i + 1], ends[j] : ends[j + 1]] for i, j in pairs}
    return A, blocks, [int(s) for s in sizes], ends, cliques


@pytest.mark.parametrize("seed", range(6))
def test_solve_determinant_and_selected_inverse(seed):
    A, blocks, sizes, ends, cliques = block_matrix(seed)
    factor = BlockCholesky(analyse(len(sizes), cliques), sizes, blocks)
    np.testing.assert_allclose(factor.log_det(), np.linalg.slogdet(A)[1], rtol=FACTORED)
    b = np.random.default_rng(seed).standard_normal((len(A), 2))
    x = np.concatenate(factor.solve([b[i:j] for i, j in itertools.pairwise(ends)]))
    np.testing.assert_allclose(x, np.linalg.solve(A, b), atol=FACTORED)
    inverse, selected = np.linalg.inv(A), factor.selected_inverse()
    for clique in cliques:
        at = np.concatenate([np.arange(ends[i], ends[i + 1]) for i in clique])
        np.testing.assert_allclose(selected.dense(clique), inverse[np.ix_(at, at)], atol=FACTORED)


def test_a_chain_and_a_tree_fill_nothing_in_and_a_ring_little():
    chain = [(i, i + 1) for i in range(20)]
    assert analyse(21, chain).off_diagonal == 20
    tree = [((i - 1) // 2, i) for i in range(1, 31)]
    assert analyse(31, tree).off_diagonal == 30
    assert analyse(20, [*chain[:19], (0, 19)]).off_diagonal <= 37


def test_an_order_of_minimum_degree_beats_the_natural_one():
    """A star numbered from its centre: eliminated first, the centre would fill everything."""
    assert analyse(30, [(0, i) for i in range(1, 30)]).off_diagonal == 29
