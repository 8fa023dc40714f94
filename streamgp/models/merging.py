"""How coarsely rows may be told apart without the noise noticing.

Rows of one cell are learned as one place with a count. What that costs is the variance of the function within a
cell; cells are chosen so that it stays below a small share of the noise variance. Where noise rules, few places then
stand for many observations and k neighbours for many more than k; where there is no noise, nothing is merged.
"""

from __future__ import annotations

import numpy as np

from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.gaussian import Array

_HALVINGS = 40


def cells(kernel: CompiledKernel, noise_variance: float, d: int, share: float) -> Array | None:
    """(d,) side of a cell in every column, powers of two so that finer cells fit into coarser ones.

    Parameters
    ----------
    kernel, noise_variance
        Hyperparameters now.
    d
        Columns of a row.
    share
        Of the noise variance, that all columns together may cost.

    Returns
    -------
    (d,) or None
        None where nothing may be merged: no noise, or a kernel that falls with no distance.
    """
    precision = kernel.precision(d)
    if share <= 0.0 or precision is None or not (precision > 0).all():
        return None
    origin = np.zeros((1, d))
    noise = noise_variance + float(kernel.nugget(origin)[0])
    if noise <= 0.0:
        return None
    # A row is at most half a cell from its place, and c / sqrt(12) in root mean square.
    sides = 2.0 ** np.floor(-0.5 * np.log2(precision) + 2.0)[:, None] * 2.0 ** -np.arange(_HALVINGS)
    moved = np.zeros((d, _HALVINGS, d))
    columns = np.arange(d)
    moved[columns, :, columns] = sides / np.sqrt(12.0)
    variance = float(kernel.variance(origin)[0])
    cost = 2.0 * (variance - kernel(moved.reshape(-1, d), origin).reshape(d, _HALVINGS))
    allowed = cost <= share * noise / d
    if not allowed.any(axis=1).all():
        return None
    return np.asarray(sides[columns, np.argmax(allowed, axis=1)])


def snapped(z: Array, cell: Array) -> Array:
    """The middle of the cell of a row z (d,)."""
    return np.asarray(np.rint(z / cell) * cell)
