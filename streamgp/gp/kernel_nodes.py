"""Kernels as small immutable trees: value, gradient as a contraction, diagonal, and the nugget kept apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, final

import numpy as np

from streamgp.errors import SettingsError
from streamgp.gp.gaussian import Array

#: W (..., n, m) -> sum_ij W_ij dK_ij / dtheta, (p,), summed over the stack as well
Pull: TypeAlias = Callable[[Array], Array]

EMPTY: Array = np.zeros(0)


class Node(Protocol):
    """A kernel on rows. A nugget (white noise) acts on the diagonal of K(X) alone and is not part of ``cross``."""

    def cross(self, X: Array, Y: Array) -> Array:
        """(..., n, m) covariances without any nugget; X (..., n, d), Y (..., m, d)."""

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        """``cross`` and its gradient with respect to ``theta`` as a contraction."""

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        """(..., n) variances, with or without the nugget, and the gradient of ``sum_i w_i k(x_i, x_i)``."""

    def theta(self) -> Array:
        """(p,) logarithms of the free hyperparameters, in scikit-learn's order."""

    def with_theta(self, theta: Array) -> Node:
        """The same tree at other hyperparameters."""

    def precision(self, d: int) -> Array | None:
        """(d,) inverse squared length-scales of the metric that k falls with; None if it falls with no metric."""


@final
@dataclass(frozen=True, slots=True)
class Constant:
    """``value`` everywhere (scikit-learn's ConstantKernel)."""

    value: float
    free: bool

    def cross(self, X: Array, Y: Array) -> Array:
        return np.full((*np.broadcast_shapes(X.shape[:-2], Y.shape[:-2]), X.shape[-2], Y.shape[-2]), self.value)

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        return self.cross(X, Y), self._pull

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        return np.full(X.shape[:-1], self.value), self._pull

    def _pull(self, W: Array) -> Array:
        return np.array([self.value * float(W.sum())]) if self.free else EMPTY

    def theta(self) -> Array:
        return np.log([self.value]) if self.free else EMPTY

    def with_theta(self, theta: Array) -> Constant:
        return replace(self, value=float(np.exp(theta[0]))) if self.free else self

    def precision(self, d: int) -> Array | None:
        return np.zeros(d)


@final
@dataclass(frozen=True, slots=True)
class White:
    """``level`` where a row meets itself (scikit-learn's WhiteKernel): nothing but nugget."""

    level: float
    free: bool

    def cross(self, X: Array, Y: Array) -> Array:
        return np.zeros((*np.broadcast_shapes(X.shape[:-2], Y.shape[:-2]), X.shape[-2], Y.shape[-2]))

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        return self.cross(X, Y), lambda W: np.zeros(int(self.free))

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        level = self.level if nugget else 0.0
        return np.full(X.shape[:-1], level), lambda w: np.array([level * float(w.sum())]) if self.free else EMPTY

    def theta(self) -> Array:
        return np.log([self.level]) if self.free else EMPTY

    def with_theta(self, theta: Array) -> White:
        return replace(self, level=float(np.exp(theta[0]))) if self.free else self

    def precision(self, d: int) -> Array | None:
        return np.zeros(d)


def _split(nodes: tuple[Node, Node], theta: Array) -> tuple[Node, Node]:
    size = len(nodes[0].theta())
    return nodes[0].with_theta(theta[:size]), nodes[1].with_theta(theta[size:])


def _add_precisions(a: Array | None, b: Array | None) -> Array | None:
    return None if a is None or b is None else a + b


@final
@dataclass(frozen=True, slots=True)
class Sum:
    """``a + b``."""

    a: Node
    b: Node

    def cross(self, X: Array, Y: Array) -> Array:
        if isinstance(self.a, White):
            return self.b.cross(X, Y)
        K = self.a.cross(X, Y)
        if not isinstance(self.b, White):
            K += self.b.cross(X, Y)
        return K

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        Ka, pull_a = self.a.vjp(X, Y)
        Kb, pull_b = self.b.vjp(X, Y)
        return Ka + Kb, lambda W: np.concatenate([pull_a(W), pull_b(W)])

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        ka, pull_a = self.a.diag(X, nugget=nugget)
        kb, pull_b = self.b.diag(X, nugget=nugget)
        return ka + kb, lambda w: np.concatenate([pull_a(w), pull_b(w)])

    def theta(self) -> Array:
        return np.concatenate([self.a.theta(), self.b.theta()])

    def with_theta(self, theta: Array) -> Sum:
        return Sum(*_split((self.a, self.b), theta))

    def precision(self, d: int) -> Array | None:
        return _add_precisions(self.a.precision(d), self.b.precision(d))


@final
@dataclass(frozen=True, slots=True)
class Product:
    """``a * b``; a constant factor costs one scaling and no matrix of its own."""

    a: Node
    b: Node

    def cross(self, X: Array, Y: Array) -> Array:
        if isinstance(self.a, Constant):
            K = self.b.cross(X, Y)
            K *= self.a.value
            return K
        K = self.a.cross(X, Y)
        K *= self.b.value if isinstance(self.b, Constant) else self.b.cross(X, Y)
        return K

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        a, b = self.a, self.b
        if isinstance(a, Constant) or isinstance(b, Constant):
            return self._scaled(X, Y)
        Ka, pull_a = a.vjp(X, Y)
        Kb, pull_b = b.vjp(X, Y)
        return Ka * Kb, lambda W: np.concatenate([pull_a(W * Kb), pull_b(W * Ka)])

    def _scaled(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        first = isinstance(self.a, Constant)
        factor, other = (self.a, self.b) if first else (self.b, self.a)
        assert isinstance(factor, Constant)
        value, free = factor.value, factor.free
        K, pull_other = other.vjp(X, Y)

        def pull(W: Array) -> Array:
            own = np.array([value * float(np.vdot(W, K))]) if free else EMPTY
            rest = value * pull_other(W)
            return np.concatenate([own, rest] if first else [rest, own])

        return value * K, pull

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        ka, pull_a = self.a.diag(X, nugget=nugget)
        kb, pull_b = self.b.diag(X, nugget=nugget)
        return ka * kb, lambda w: np.concatenate([pull_a(w * kb), pull_b(w * ka)])

    def theta(self) -> Array:
        return np.concatenate([self.a.theta(), self.b.theta()])

    def with_theta(self, theta: Array) -> Product:
        return Product(*_split((self.a, self.b), theta))

    def precision(self, d: int) -> Array | None:
        return _add_precisions(self.a.precision(d), self.b.precision(d))


@final
@dataclass(frozen=True, slots=True)
class Power:
    """``base ** exponent`` (scikit-learn's Exponentiation)."""

    base: Node
    exponent: float

    def cross(self, X: Array, Y: Array) -> Array:
        return np.asarray(self.base.cross(X, Y) ** self.exponent)

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        K, pull = self.base.vjp(X, Y)
        return self._raise(K, pull)

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        k, pull = self.base.diag(X, nugget=nugget)
        return self._raise(k, pull)

    def _raise(self, K: Array, pull: Pull) -> tuple[Array, Pull]:
        p = self.exponent
        return np.asarray(K**p), lambda W: pull(W * p * K ** (p - 1.0))

    def theta(self) -> Array:
        return self.base.theta()

    def with_theta(self, theta: Array) -> Power:
        return replace(self, base=self.base.with_theta(theta))

    def precision(self, d: int) -> Array | None:
        return self.base.precision(d) if self.exponent > 0 else None


@final
@dataclass(frozen=True, slots=True)
class Columns:
    """``base`` on the chosen columns."""

    base: Node
    columns: tuple[int, ...]

    def _pick(self, X: Array) -> Array:
        self._check_width(X.shape[-1])
        return X[..., list(self.columns)]

    def _check_width(self, d: int) -> None:
        if not all(-d <= c < d for c in self.columns):
            raise SettingsError(f"the kernel looks at columns {list(self.columns)}, X has {d} of them")

    def cross(self, X: Array, Y: Array) -> Array:
        return self.vjp(X, Y)[0]

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        Xs = self._pick(X)
        return self.base.vjp(Xs, Xs if Y is X else self._pick(Y))

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        return self.base.diag(self._pick(X), nugget=nugget)

    def theta(self) -> Array:
        return self.base.theta()

    def with_theta(self, theta: Array) -> Columns:
        return replace(self, base=self.base.with_theta(theta))

    def precision(self, d: int) -> Array | None:
        self._check_width(d)
        inner = self.base.precision(len(self.columns))
        if inner is None:
            return None
        full = np.zeros(d)
        np.add.at(full, list(self.columns), inner)
        return full
