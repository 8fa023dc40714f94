"""The sizes of targets, and the default kernel at the data's own scales."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from streamgp.gp.gaussian import Array
from streamgp.gp.hyperparameters import LEAST_SQUARE, mean_square_of, spread_of
from streamgp.gp.kernels import compile_kernel
from streamgp.models.cpoe.training import Hyper

#: how far the default kernel's hyperparameters may go from the data's scales, or from 1 if that is farther
WIDE = 1e20


def says_something(y: Array) -> bool:
    """Whether targets have a size: they are not all zero, or below 1e-100."""
    return float(np.mean(y * y)) >= LEAST_SQUARE


def default_kernel(d: int, *, power: float = 1.0, lengths: Array | None = None) -> Any:
    """``ConstantKernel() * RBF`` with a length-scale a column, free over twenty orders of magnitude about 1 and about
    the scales given."""
    scales = np.ones(d) if lengths is None else lengths
    low, high = np.minimum(1.0, scales) / WIDE, np.maximum(1.0, scales) * WIDE
    constant = ConstantKernel(power, (min(1.0, power) / WIDE, max(1.0, power) * WIDE))
    if np.all(low == 1.0 / WIDE) and np.all(high == WIDE):
        return constant * RBF(scales, (1.0 / WIDE, WIDE))
    return constant * RBF(scales, np.column_stack([low, high]))


def lengths_of(X: Array) -> Array:
    """(d,) logarithms of the lengths that the data have."""
    return np.asarray(np.log(spread_of(X) * np.sqrt(X.shape[1])))


def data_scaled(hyper: Hyper, X: Array, y: Array) -> Hyper:
    """The default kernel started at the data's own scales, and a tenth of the targets' mean square as noise."""
    power = mean_square_of(y)
    theta = np.append(np.log(power), lengths_of(X))
    source = default_kernel(X.shape[1], power=power, lengths=np.exp(theta[1:]))
    noise = 0.1 * power if says_something(y) else hyper.noise_variance
    return Hyper(compile_kernel(source).with_theta(theta), noise, hyper.approximation)
