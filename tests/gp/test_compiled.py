"""The default kernel without scikit-learn is the same as with it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from streamgp.gp.compiled import default_kernel, default_source
from streamgp.gp.kernels import compile_kernel


@pytest.mark.parametrize("d", [1, 2, 7])
def test_the_default_kernel_is_the_compiled_scikit_learn_kernel_to_the_bit(d: int) -> None:
    ours, theirs = default_kernel(d), compile_kernel(default_source(d))
    assert ours.node.precision(d).tolist() == theirs.node.precision(d).tolist()  # type: ignore[union-attr]  # radial
    assert ours.bounds.tobytes() == theirs.bounds.tobytes()
    assert ours.free == theirs.free
    assert ours.theta.tobytes() == theirs.theta.tobytes()
    assert ours.kernel == theirs.kernel == ours.source
    X = np.random.default_rng(d).normal(size=(9, d))
    moved = np.linspace(-0.5, 0.5, d + 1)
    for a, b in ((ours, theirs), (ours.with_theta(moved), theirs.with_theta(moved)), (_copied(ours), theirs)):
        assert a(X).tobytes() == b(X).tobytes()
        assert a.gradient_dot(X, None, np.ones((9, 9))).tobytes() == b.gradient_dot(X, None, np.ones((9, 9))).tobytes()
        assert a.kernel == b.kernel


def _copied(kernel: object) -> object:
    return pickle.loads(pickle.dumps(kernel))
