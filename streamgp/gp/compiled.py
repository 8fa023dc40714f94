"""A kernel at fixed hyperparameters, in the form that computes. It asks for scikit-learn only to show itself.

What describes a kernel to a person is a scikit-learn object; :mod:`streamgp.gp.kernels` turns those into these. To
import scikit-learn costs a second of processor time, and a process that computes with the default kernel needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from streamgp.errors import SettingsError
from streamgp.gp import kernel_leaves as leaves
from streamgp.gp import kernel_nodes as nodes
from streamgp.gp.gaussian import Array
from streamgp.gp.kernel_nodes import Node, Pull


class Free(NamedTuple):
    """A free hyperparameter: its name in the scikit-learn kernel, and how many numbers it is."""

    name: str
    size: int


@final
class CompiledKernel:
    """A kernel at fixed hyperparameters. Made by :func:`streamgp.gp.kernels.compile_kernel`; immutable.

    X is (..., n, d) and Y (..., m, d), with the same leading dimensions (a stack) or ones that broadcast.
    ``Y=None`` means the rows X themselves, where white noise counts; with a Y it does not (scikit-learn's
    convention).

    Attributes
    ----------
    theta : (p,)
        Logarithms of the free hyperparameters, in scikit-learn's order.
    bounds : (p, 2)
        Logarithms of their bounds.
    free
        Name and size of each free hyperparameter, in that order.
    moved
        The theta given to :meth:`with_theta`, to the bit, or None.
    white : bool
        Whether there may be white noise in it; False means that ``nugget`` is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel
    >>> from streamgp.gp.kernels import compile_kernel
    >>> k = compile_kernel(ConstantKernel(4.0) * RBF([1.0, 2.0]))
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> k(X).round(3)
    array([[4.   , 1.472],
           [1.472, 4.   ]])
    >>> k.gradient_dot(X, None, np.ones((2, 2))).round(3)
    array([10.943,  2.943,  2.943])
    """

    __slots__ = ("bounds", "free", "made", "moved", "node", "white")

    def __init__(
        self, made: Callable[[], Any], node: Node, *, bounds: Array, free: tuple[Free, ...], moved: Array | None = None
    ) -> None:
        self.made = made
        self.node = node
        self.bounds = bounds
        self.free = free
        self.moved = moved
        self.white = _has_white(node)

    @property
    def theta(self) -> Array:
        return self.node.theta() if self.moved is None else self.moved.copy()

    @property
    def source(self) -> Any:
        """The scikit-learn kernel that was compiled: a copy."""
        return self.made()

    @property
    def kernel(self) -> Any:
        """A scikit-learn kernel of its own at these hyperparameters."""
        return self.source if self.moved is None else self.source.clone_with_theta(self.moved)

    def with_theta(self, theta: Array) -> CompiledKernel:
        """The same kernel at other hyperparameters (p,)."""
        theta = np.array(theta, dtype=np.float64)
        if theta.shape != self.bounds.shape[:1]:
            raise ValueError(f"theta has shape {theta.shape}, the kernel needs {self.bounds.shape[:1]}")
        return CompiledKernel(self.made, self.node.with_theta(theta), bounds=self.bounds, free=self.free, moved=theta)

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


#: bounds of the default kernel: products of variances, and squares of X / length-scale, stay numbers
_VARIANCE, _LENGTH = (1e-200, 1e200), (1e-50, 1e150)


def default_kernel(d: int) -> CompiledKernel:
    """``ConstantKernel() * Matern(nu=2.5)`` with a length-scale a column, for rows of d columns.

    The same to the bit as the scikit-learn kernel of :func:`default_source`, compiled; made without it.

    Examples
    --------
    >>> default_kernel(2).free
    (Free(name='k1__constant_value', size=1), Free(name='k2__length_scale', size=2))
    """
    node = nodes.Product(nodes.Constant(1.0, True), leaves.Radial(2.5, np.ones(d), True))
    bounds = np.log(np.array([_VARIANCE, *[_LENGTH] * d]))
    free = (Free("k1__constant_value", 1), Free("k2__length_scale", d))
    return CompiledKernel(partial(default_source, d), node, bounds=bounds, free=free)


def default_source(d: int) -> Any:
    """The scikit-learn kernel that :func:`default_kernel` computes."""
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern  # a second to import: for who asks to see it

    return ConstantKernel(1.0, _VARIANCE) * Matern(np.ones(d), _LENGTH, nu=2.5)
