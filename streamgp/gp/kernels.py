"""Fast forms of scikit-learn's kernel objects, and the kernels that it lacks.

scikit-learn's kernels describe; :func:`compile_kernel` turns any of them into a :class:`CompiledKernel` that takes
stacks of small matrices, and gives gradients as contractions, so that no (n, n, p) array is ever built.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

from streamgp.gp import kernel_leaves as leaves
from streamgp.gp import kernel_nodes as nodes
from streamgp.gp.compiled import CompiledKernel, Free, check_width
from streamgp.gp.kernel_extra import ActiveDims, SpectralMixture
from streamgp.gp.kernel_nodes import Node

__all__ = ["ActiveDims", "CompiledKernel", "SpectralMixture", "check_width", "compile_kernel"]


def compile_kernel(kernel: Any) -> CompiledKernel:
    """The fast form of any scikit-learn kernel; a kernel without a fast path goes through its own methods.

    Parameters
    ----------
    kernel
        A ``sklearn.gaussian_process.kernels.Kernel``, or an already compiled one, which is returned as it is.

    Raises
    ------
    TypeError
        If it is no kernel.
    """
    if isinstance(kernel, CompiledKernel):
        return kernel
    if not isinstance(kernel, sk.Kernel):
        raise TypeError(f"kernel must be a scikit-learn kernel, got {type(kernel).__name__}")
    if isinstance(kernel, sk.CompoundKernel):
        raise TypeError("a CompoundKernel is several kernels side by side, not one: add or multiply them")
    source = clone(kernel)
    bounds = np.asarray(source.bounds, dtype=np.float64).reshape(-1, 2)
    free = tuple(Free(h.name, h.n_elements) for h in source.hyperparameters if not h.fixed)
    return CompiledKernel(partial(clone, source), _build(source), bounds=bounds, free=free)


def _build(kernel: Any) -> Node:
    """The tree of a kernel. By exact type: a subclass may override anything, so it keeps its own methods."""
    kind = type(kernel)
    if kind in (sk.Sum, sk.Product):
        a, b = _build(kernel.k1), _build(kernel.k2)
        return nodes.Sum(a, b) if kind is sk.Sum else nodes.Product(a, b)
    if kind is sk.Exponentiation:
        return nodes.Power(_build(kernel.kernel), float(kernel.exponent))
    if kind is ActiveDims:
        return nodes.Columns(_build(kernel.kernel), tuple(int(c) for c in kernel.columns))
    if kind is SpectralMixture:
        return kernel.node()  # type: ignore[no-any-return]  # narrowed by exact type above
    free = {h.name: not h.fixed for h in kernel.hyperparameters}
    if kind is sk.ConstantKernel:
        return nodes.Constant(float(kernel.constant_value), free["constant_value"])
    if kind is sk.WhiteKernel:
        return nodes.White(float(kernel.noise_level), free["noise_level"])
    if kind in (sk.RBF, sk.Matern):
        scales = np.atleast_1d(np.asarray(kernel.length_scale, dtype=np.float64))
        nu = np.inf if kind is sk.RBF else float(kernel.nu)
        return leaves.Radial(nu, scales, free["length_scale"])
    if kind is sk.RationalQuadratic:
        return leaves.Rational(float(kernel.alpha), float(kernel.length_scale), free["alpha"], free["length_scale"])
    if kind is sk.ExpSineSquared:
        period, scale = float(kernel.periodicity), float(kernel.length_scale)
        return leaves.Periodic(scale, period, free["length_scale"], free["periodicity"])
    if kind is sk.DotProduct:
        return leaves.Linear(float(kernel.sigma_0), free["sigma_0"])
    return leaves.Foreign(kernel)
