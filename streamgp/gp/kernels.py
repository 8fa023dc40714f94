"""Fast forms of scikit-learn's kernel objects, and the kernels that it lacks.

scikit-learn's kernels describe; :func:`compile_kernel` turns any of them into a :class:`CompiledKernel` that takes
stacks of small matrices, and gives gradients as contractions, so that no (n, n, p) array is ever built.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

from streamgp.errors import SettingsError
from streamgp.gp import kernel_leaves as leaves
from streamgp.gp import kernel_nodes as nodes
from streamgp.gp.gaussian import Array
from streamgp.gp.kernel_extra import ActiveDims, SpectralMixture
from streamgp.gp.kernel_nodes import Node, Pull

__all__ = ["ActiveDims", "CompiledKernel", "SpectralMixture", "check_width", "compile_kernel"]


@final
class CompiledKernel:
    """A kernel at fixed hyperparameters. Made by :func:`compile_kernel`; immutable.

    X is (..., n, d) and Y (..., m, d), with the same leading dimensions (a stack) or ones that broadcast.
    ``Y=None`` means the rows X themselves, where white noise counts; with a Y it does not (scikit-learn's
    convention).

    Attributes
    ----------
    theta : (p,)
        Logarithms of the free hyperparameters, in scikit-learn's order.
    bounds : (p, 2)
        Logarithms of their bounds.
    source
        The scikit-learn kernel that was compiled (a copy).
    moved
        The theta given to :meth:`with_theta`, to the bit, or None.
    white : bool
        Whether there may be white noise in it; False means that ``nugget`` is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel
    >>> k = compile_kernel(ConstantKernel(4.0) * RBF([1.0, 2.0]))
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> k(X).round(3)
    array([[4.   , 1.472],
           [1.472, 4.   ]])
    >>> k.gradient_dot(X, None, np.ones((2, 2))).round(3)
    array([10.943,  2.943,  2.943])
    """

    __slots__ = ("bounds", "moved", "node", "source", "white")

    def __init__(self, source: Any, node: Node, bounds: Array, moved: Array | None = None) -> None:
        self.source = source
        self.node = node
        self.bounds = bounds
        self.moved = moved
        self.white = _has_white(node)

    @property
    def theta(self) -> Array:
        return self.node.theta() if self.moved is None else self.moved.copy()

    @property
    def kernel(self) -> Any:
        """A scikit-learn kernel of its own at these hyperparameters."""
        return clone(self.source) if self.moved is None else self.source.clone_with_theta(self.moved)

    def with_theta(self, theta: Array) -> CompiledKernel:
        """The same kernel at other hyperparameters (p,)."""
        theta = np.array(theta, dtype=np.float64)
        if theta.shape != self.bounds.shape[:1]:
            raise ValueError(f"theta has shape {theta.shape}, the kernel needs {self.bounds.shape[:1]}")
        return CompiledKernel(self.source, self.node.with_theta(theta), self.bounds, theta)

    def __call__(self, X: Array, Y: Array | None = None) -> Array:
        """(..., n, m) covariances."""
        if Y is not None:
            return self.node.cross(X, Y)
        K = self.node.cross(X, X)
        return _add_diagonal(K, self.nugget(X)) if self.white else K

    def diag(self, X: Array) -> Array:
        """(..., n) diagonal of ``self(X)``, white noise included."""
        return self.node.diag(X, nugget=True)[0]

    def variance(self, X: Array) -> Array:
        """(..., n) prior variance of the latent function: the diagonal without white noise."""
        return self.node.diag(X, nugget=False)[0]

    def nugget(self, X: Array) -> Array:
        """(..., n) what white noise adds to the diagonal."""
        return self.diag(X) - self.variance(X) if self.white else np.zeros(X.shape[:-1])

    def gradient_dot(self, X: Array, Y: Array | None, W: Array) -> Array:
        """(p,) ``sum_ij W_ij dK_ij / dtheta`` for ``K = self(X, Y)``, summed over the stack."""
        return self.vjp(X, Y)[1](W)

    def diag_gradient_dot(self, X: Array, w: Array, *, nugget: bool = True) -> Array:
        """(p,) ``sum_i w_i dk(x_i, x_i) / dtheta``, with white noise or without."""
        return self.node.diag(X, nugget=nugget)[1](w)

    def vjp(self, X: Array, Y: Array | None = None) -> tuple[Array, Pull]:
        """The matrix, and its gradient as a function of W; cheaper together than apart.

        Returns
        -------
        K : (..., n, m)
        pull
            W (..., n, m) -> (p,) ``sum_ij W_ij dK_ij / dtheta``.
        """
        if Y is not None:
            return self.node.vjp(X, Y)
        K, pull = self.node.vjp(X, X)
        if not self.white:
            return K, pull
        with_nugget, pull_with = self.node.diag(X, nugget=True)
        without, pull_without = self.node.diag(X, nugget=False)
        nugget = with_nugget - without
        if not nugget.any():
            return K, pull

        def pull_all(W: Array) -> Array:
            w = np.ascontiguousarray(np.diagonal(W, axis1=-2, axis2=-1))
            return pull(W) + pull_with(w) - pull_without(w)

        return _add_diagonal(K, nugget), pull_all

    def precision(self, d: int) -> Array | None:
        """(d,) inverse squared length-scales of the metric with which the covariance falls.

        None where it does not fall with a distance (periodic, linear, spectral, unknown kernels). Zero for a
        column that the kernel does not see. Sums and products add the precisions of their parts.
        """
        return self.node.precision(d)

    def __repr__(self) -> str:
        return f"compile_kernel({self.kernel!r})"


def _has_white(node: Node) -> bool:
    if isinstance(node, (nodes.Sum, nodes.Product)):
        return _has_white(node.a) or _has_white(node.b)
    if isinstance(node, (nodes.Power, nodes.Columns)):
        return _has_white(node.base)
    return isinstance(node, (nodes.White, leaves.Foreign))


def _add_diagonal(K: Array, extra: Array) -> Array:
    if extra.any():
        K = K.copy()
        i = np.arange(K.shape[-1])
        K[..., i, i] += extra
    return K


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
    return CompiledKernel(source, _build(source), bounds)


def check_width(kernel: CompiledKernel, d: int) -> None:
    """See that a kernel takes rows of d columns.

    Raises
    ------
    SettingsError
        If it has length-scales, or looks at columns, of other rows.
    """
    row = np.zeros((1, d))
    try:
        kernel.precision(d)
        kernel(row, row)
    except SettingsError:
        raise
    except (ValueError, IndexError) as error:
        raise SettingsError(f"the kernel {kernel.kernel} takes no X of {d} columns: {error}") from error


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
