"""A kernel times a number, by its own hyperparameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import kernels as sk

from streamgp.gp.kernels import ActiveDims, CompiledKernel, SpectralMixture


def amplified(kernel: CompiledKernel, factor: float) -> CompiledKernel | None:
    """The kernel whose covariances are ``factor`` times as large; None where its free hyperparameters cannot say so.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel
    >>> from streamgp.gp.kernels import compile_kernel
    >>> amplified(compile_kernel(ConstantKernel(2.0) * RBF(0.5)), 3.0).kernel
    2.45**2 * RBF(length_scale=0.5)
    >>> amplified(compile_kernel(RBF(0.5)), 3.0) is None
    True
    """
    variances = _variances(kernel.source)
    if variances is None:
        return None
    theta = kernel.theta + np.log(factor) * variances
    low, high = kernel.bounds.reshape(-1, 2).T
    return kernel.with_theta(theta) if np.all((low <= theta) & (theta <= high)) else None


def _variances(kernel: Any) -> NDArray[np.bool_] | None:
    """(p,) which entries of theta multiply the whole kernel when they move together; None if none do."""
    if isinstance(kernel, (sk.ConstantKernel, sk.WhiteKernel)):
        return np.ones(1, dtype=np.bool_) if len(kernel.theta) else None
    if isinstance(kernel, SpectralMixture):
        weights = kernel.hyperparameter_weights
        if weights.fixed:
            return None
        return np.asarray(np.arange(len(kernel.theta)) >= len(kernel.theta) - weights.n_elements, dtype=np.bool_)
    if isinstance(kernel, ActiveDims):
        return _variances(kernel.kernel)
    if isinstance(kernel, sk.Sum):
        first, second = _variances(kernel.k1), _variances(kernel.k2)
        return None if first is None or second is None else np.concatenate([first, second])
    if isinstance(kernel, sk.Product):
        first, second = _variances(kernel.k1), _variances(kernel.k2)
        if first is not None:
            return np.concatenate([first, np.zeros(len(kernel.k2.theta), dtype=np.bool_)])
        if second is not None:
            return np.concatenate([np.zeros(len(kernel.k1.theta), dtype=np.bool_), second])
    return None
