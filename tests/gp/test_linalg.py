"""Triangular solves and products from either side, in any memory order; messages packed and not."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.gp.beliefs import Belief
from streamgp.gp.cliques import pack, unpack
from streamgp.gp.linalg import lower_times, safe_cholesky, solve_lower, solve_upper, upper_times


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 5), (7, 0)])
@pytest.mark.parametrize("part", ["C", "F", "strided"])
def test_triangular_routines_are_what_they_say(order, shape, part):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((7, 7))
    L = np.array(np.tril(A) + 4 * np.eye(7), order=order)
    b = rng.standard_normal(shape)
    if part == "strided":
        b = np.repeat(b, 2, axis=0)[::2]
    elif b.ndim == 2:
        b = np.array(b, order=part)
    kept, L_kept = b.copy(), L.copy()
    for got, want in (
        (solve_lower(L, b), np.linalg.inv(L) @ b),
        (solve_upper(L, b), np.linalg.inv(L).T @ b),
        (lower_times(L, b), L @ b),
        (upper_times(L, b), L.T @ b),
    ):
        assert got.shape == shape
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(b, kept)
    np.testing.assert_array_equal(L, L_kept)


def test_nothing_is_solved_for_nothing():
    empty = np.zeros((0, 0))
    assert solve_lower(empty, np.zeros((0, 3))).shape == (0, 3)
    assert upper_times(empty, np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_a_packed_matrix_comes_back_to_the_bit(n):
    A = np.random.default_rng(n).standard_normal((n, n))
    M = A + A.T
    for given in (M, np.asfortranarray(M)):
        packed = pack(given)
        assert packed.shape == (n * (n + 1) // 2,)
        np.testing.assert_array_equal(unpack(packed), M)
    assert unpack(M) is M


def test_all_forms_of_a_belief_say_the_same():
    rng = np.random.default_rng(3)
    B, k = rng.standard_normal((6, 6)), rng.standard_normal((4, 6))
    noisy = B @ B.T + np.eye(6)
    A, alpha = np.linalg.inv(noisy), np.zeros((6, 1))
    L = safe_cholesky(noisy).L
    R = rng.standard_normal((6, 6)) + 3 * np.eye(6)
    inside = np.linalg.inv(R).T @ A @ np.linalg.inv(R)
    for belief in (
        Belief(A, alpha),
        Belief(L, alpha, "factor"),
        Belief(np.linalg.inv(L), alpha, "root"),
        Belief(inside, alpha, "white", R),
    ):
        np.testing.assert_allclose(belief.full(), A, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(belief.explained(k), np.diagonal(k @ A @ k.T), rtol=1e-9)
        np.testing.assert_allclose(belief.explained_jointly(k), k @ A @ k.T, rtol=1e-8, atol=1e-12)
