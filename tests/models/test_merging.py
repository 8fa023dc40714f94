"""How coarsely rows are told apart: what it costs stays below the share of the noise that was allowed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from streamgp.gp.kernels import compile_kernel
from streamgp.models.merging import cells, snapped
from streamgp.models.nearest import NearestNeighborGP

KERNELS = [
    2.0 * RBF([0.5, 3.0]),
    ConstantKernel(0.1) * Matern([10.0, 0.01], nu=2.5),
    Matern([1.0, 1.0], nu=0.5),
    RBF([1.0, 2.0]) + WhiteKernel(0.5),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("share", [0.3, 0.01])
def test_what_merging_costs_stays_below_its_share(kernel: object, share: float) -> None:
    """Mean of the variance of f(z) - f(middle) over rows anywhere in a cell, against share x noise."""
    compiled, noise = compile_kernel(kernel), 0.2
    cell = cells(compiled, noise, 2, share)
    assert cell is not None
    Z = np.random.default_rng(0).uniform(-0.5, 0.5, size=(4000, 2)) * cell
    origin = np.zeros((1, 2))
    apart = 2.0 * (compiled.variance(origin)[0] - compiled(Z, origin)[:, 0])
    assert apart.mean() <= 1.05 * share * (noise + compiled.nugget(origin)[0])
    assert np.all(np.log2(cell) == np.round(np.log2(cell)))  # so that finer cells fit into coarser ones


def test_a_smaller_share_makes_no_coarser_cells() -> None:
    kernel = compile_kernel(Matern([0.3, 7.0], nu=1.5))
    sides = [cells(kernel, 0.1, 2, share) for share in (0.5, 0.1, 0.02, 0.004)]
    for coarse, fine in pairwise(sides):
        assert coarse is not None
        assert fine is not None
        assert (fine <= coarse).all()


def test_nothing_is_merged_without_noise_or_share_or_a_kernel_that_falls() -> None:
    rbf = compile_kernel(RBF([1.0]))
    assert cells(rbf, 0.0, 1, 0.1) is None
    assert cells(rbf, 0.1, 1, 0.0) is None
    assert cells(compile_kernel(ConstantKernel(1.0)), 0.1, 1, 0.1) is None


def test_a_row_moves_to_the_middle_of_its_cell_and_stays_there() -> None:
    cell = np.array([0.25, 2.0])
    z = np.array([0.3, -1.2])
    assert snapped(z, cell).tolist() == [0.25, -2.0]
    assert snapped(snapped(z, cell), cell).tolist() == [0.25, -2.0]
    assert z.tolist() == [0.3, -1.2]


def test_a_merged_stream_forecasts_no_worse_from_fewer_places() -> None:
    """Noise as large as the signal: 32 merged neighbours stand for more observations than 32 single ones."""
    rng = np.random.default_rng(1)
    X, Z = rng.uniform(-2, 2, size=(400, 1)), rng.uniform(-2, 2, size=(50, 1))
    y = np.sin(X[:, 0]) + rng.normal(size=400)
    plain = NearestNeighborGP().partial_fit(X, y)
    merged = NearestNeighborGP().merge_rows(0.02).partial_fit(X, y)
    assert len(merged.model_.places) < 0.5 * len(plain.model_.places)
    errors = [np.sqrt(np.mean((model.predict(Z) - np.sin(Z[:, 0])) ** 2)) for model in (merged, plain)]
    assert errors[0] <= 1.05 * errors[1]
