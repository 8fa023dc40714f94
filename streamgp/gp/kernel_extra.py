"""Kernels that scikit-learn lacks, as its own ``Kernel`` subclasses: spectral mixture, and a kernel on columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from streamgp.gp.gaussian import Array
from streamgp.gp.kernel_spectral import Spectral

Bounds = tuple[float, float] | str


@final
class SpectralMixture(Kernel):  # type: ignore[misc]  # scikit-learn has no types
    """Mixture of Gaussians in the frequency domain (Wilson & Adams 2013, eq. (12)).

    ``k(x, y) = sum_q w_q prod_c exp(-(x_c - y_c)^2 / (2 l_qc^2)) cos(2 pi f_qc (x_c - y_c))``

    Parameters
    ----------
    weights : (n_components,)
        Variance of every component.
    frequencies, length_scales : (n_components * d,)
        Row after row: the d entries of the first component, then those of the second. A single
        component of one column may be a number. Both are positive; a frequency's bound keeps it so.
    weights_bounds, frequencies_bounds, length_scales_bounds
        (low, high), or "fixed".

    Examples
    --------
    >>> import numpy as np
    >>> kernel = SpectralMixture(weights=[1.0, 0.5], frequencies=[0.1, 1.0], length_scales=[10.0, 2.0])
    >>> kernel(np.array([[0.0], [1.0]])).round(3)
    array([[1.5  , 1.246],
           [1.246, 1.5  ]])
    """

    def __init__(
        self,
        weights: ArrayLike = 1.0,
        frequencies: ArrayLike = 1.0,
        length_scales: ArrayLike = 1.0,
        *,
        weights_bounds: Bounds = (1e-5, 1e5),
        frequencies_bounds: Bounds = (1e-5, 1e5),
        length_scales_bounds: Bounds = (1e-5, 1e5),
    ) -> None:
        self.weights = weights
        self.frequencies = frequencies
        self.length_scales = length_scales
        self.weights_bounds = weights_bounds
        self.frequencies_bounds = frequencies_bounds
        self.length_scales_bounds = length_scales_bounds

    def _hyperparameter(self, name: str) -> Hyperparameter:
        value = np.atleast_1d(getattr(self, name))
        return Hyperparameter(name, "numeric", getattr(self, f"{name}_bounds"), len(value))

    # scikit-learn finds hyperparameters by these names, in alphabetical order
    @property
    def hyperparameter_weights(self) -> Hyperparameter:
        return self._hyperparameter("weights")

    @property
    def hyperparameter_frequencies(self) -> Hyperparameter:
        return self._hyperparameter("frequencies")

    @property
    def hyperparameter_length_scales(self) -> Hyperparameter:
        return self._hyperparameter("length_scales")

    def node(self) -> Spectral:
        """The same kernel as a compiled tree."""
        w = np.atleast_1d(np.asarray(self.weights, dtype=np.float64))
        f = np.atleast_1d(np.asarray(self.frequencies, dtype=np.float64))
        s = np.atleast_1d(np.asarray(self.length_scales, dtype=np.float64))
        if len(f) != len(s) or len(f) % len(w):
            raise ValueError(
                f"{len(w)} weights need as many frequencies as length-scales, a multiple of {len(w)}; "
                f"got {len(f)} and {len(s)}"
            )
        free = [h.fixed for h in self.hyperparameters]  # alphabetical: frequencies, length_scales, weights
        shape = (len(w), len(f) // len(w))
        return Spectral(w, f.reshape(shape), s.reshape(shape), (not free[2], not free[0], not free[1]))

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None, eval_gradient: bool = False) -> Any:
        return evaluate_node(self.node(), X, Y, eval_gradient=eval_gradient)

    def diag(self, X: ArrayLike) -> Array:
        return np.full(len(np.atleast_2d(X)), float(np.sum(self.weights)))

    def is_stationary(self) -> bool:
        return True

    def __repr__(self) -> str:
        def show(value: ArrayLike) -> str:
            return "[" + ", ".join(f"{v:.3g}" for v in np.atleast_1d(value)) + "]"

        return (
            f"SpectralMixture(weights={show(self.weights)}, frequencies={show(self.frequencies)}, "
            f"length_scales={show(self.length_scales)})"
        )


@final
class ActiveDims(Kernel):  # type: ignore[misc]  # scikit-learn has no types
    """Another kernel on chosen columns of X.

    Parameters
    ----------
    kernel
        Any scikit-learn kernel.
    columns
        0-based columns that it sees, in the order in which it sees them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> kernel = ActiveDims(RBF(2.0), columns=[1])
    >>> kernel(np.array([[0.0, 1.0], [9.0, 1.0]]))
    array([[1., 1.],
           [1., 1.]])
    """

    def __init__(self, kernel: Any, columns: Sequence[int]) -> None:
        self.kernel = kernel
        self.columns = columns

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params: dict[str, Any] = {"kernel": self.kernel, "columns": self.columns}
        if deep:
            params.update({f"kernel__{k}": v for k, v in self.kernel.get_params().items()})
        return params

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        return [
            Hyperparameter(f"kernel__{h.name}", h.value_type, h.bounds, h.n_elements)
            for h in self.kernel.hyperparameters
        ]

    @property
    def theta(self) -> Array:
        return np.asarray(self.kernel.theta)

    @theta.setter
    def theta(self, theta: Array) -> None:
        self.kernel.theta = theta

    @property
    def bounds(self) -> Array:
        return np.asarray(self.kernel.bounds)

    def _pick(self, X: ArrayLike | None) -> Array | None:
        return None if X is None else np.atleast_2d(np.asarray(X))[:, list(self.columns)]

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None, eval_gradient: bool = False) -> Any:
        return self.kernel(self._pick(X), self._pick(Y), eval_gradient=eval_gradient)

    def diag(self, X: ArrayLike) -> Array:
        return np.asarray(self.kernel.diag(self._pick(X)))

    def is_stationary(self) -> bool:
        return bool(self.kernel.is_stationary())

    @property
    def requires_vector_input(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ActiveDims) and list(self.columns) == list(other.columns) and self.kernel == other.kernel
        )

    __hash__ = None  # type: ignore[assignment]  # mutable, as every scikit-learn kernel

    def __repr__(self) -> str:
        return f"ActiveDims({self.kernel!r}, columns={list(self.columns)})"


def evaluate_node(node: Spectral, X: ArrayLike, Y: ArrayLike | None, *, eval_gradient: bool) -> Any:
    """What scikit-learn's ``kernel(X, Y, eval_gradient)`` returns, from a compiled tree without a nugget."""
    A = np.atleast_2d(np.asarray(X, dtype=np.float64))
    if Y is None:
        K = node.cross(A, A)
        if not eval_gradient:
            return K
        return K, node.gradient(A)
    if eval_gradient:
        raise ValueError("Gradient can only be evaluated when Y is None.")
    return node.cross(A, np.atleast_2d(np.asarray(Y, dtype=np.float64)))
