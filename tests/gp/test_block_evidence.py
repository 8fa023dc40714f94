"""Conditionals of blocks: the full GP's own, with their gradient."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from streamgp.gp.block_evidence import Block, conditional_evidence, last_rows_of_inverse
from streamgp.gp.evidence import Sample, log_evidence
from streamgp.gp.kernels import compile_kernel
from streamgp.gp.linalg import safe_cholesky
from tests.tolerances import FACTORED

KERNELS = [
    RBF(0.7),
    ConstantKernel(1.7) * RBF([0.7, 1.3]),
    Matern([0.5, 2.0], nu=1.5) + WhiteKernel(0.05),
    ConstantKernel(0.3, "fixed") * Matern(0.9, nu=2.5),
]


def rows(n, q, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-2, 2, size=(n, 2)), rng.standard_normal((n, q))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("given", [0, 1, 17])
@pytest.mark.parametrize("q", [1, 3])
def test_a_conditional_is_the_joint_density_less_that_of_the_given(kernel, given, q):
    compiled = compile_kernel(kernel)
    X, y = rows(30, q)
    value, gradient = conditional_evidence(compiled, 0.1, [Block(X, y, given)])
    whole, whole_gradient = log_evidence(compiled, 0.1, Sample.of(X, y))
    if given:
        part, part_gradient = log_evidence(compiled, 0.1, Sample.of(X[:given], y[:given]))
        whole, whole_gradient = whole - part, whole_gradient - part_gradient
    np.testing.assert_allclose(value, whole, rtol=FACTORED)
    np.testing.assert_allclose(gradient, whole_gradient, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_gradient_of_several_blocks_by_finite_differences(kernel):
    compiled = compile_kernel(kernel)
    X, y = rows(50, 2)
    blocks = [Block(X[:20], y[:20], 8), Block(X[20:30], y[20:30], 0), Block(X[25:], y[25:], 10)]

    def at(t, part):
        return conditional_evidence(compiled.with_theta(t[:-1]), float(np.exp(t[-1])), blocks)[part]

    t = np.append(compiled.theta, np.log(0.2))
    assert check_grad(lambda t: at(t, 0), lambda t: at(t, 1), t) < 1e-4


def test_conditionals_in_a_chain_that_leaves_nothing_out_add_up_to_the_evidence():
    compiled = compile_kernel(KERNELS[1])
    X, y = rows(40, 1)
    blocks = [Block(X[: i + 10], y[: i + 10], i) for i in range(0, 40, 10)]
    np.testing.assert_allclose(
        conditional_evidence(compiled, 0.3, blocks)[0], log_evidence(compiled, 0.3, Sample.of(X, y))[0], rtol=FACTORED
    )


@pytest.mark.parametrize("m", [0, 1, 6, 7])
def test_the_last_rows_of_the_inverse(m):
    A = np.random.default_rng(1).standard_normal((8, 8))
    L = safe_cholesky(A @ A.T + np.eye(8)).L
    np.testing.assert_allclose(last_rows_of_inverse(L, m), np.linalg.inv(L)[m:], rtol=1e-9, atol=1e-12)
