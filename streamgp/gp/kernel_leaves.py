"""The leaves of a kernel tree that depend on the rows: radial, periodic, linear, spectral, and any other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from scipy.special import gamma, kv

from streamgp.errors import SettingsError
from streamgp.gp.distances import squared_distances, weighted_squares
from streamgp.gp.gaussian import Array
from streamgp.gp.kernel_nodes import EMPTY, Pull


def radial_profile(nu: float, D: Array) -> tuple[Array, Array]:
    """Matérn correlation and ``-2 dk/dD`` at squared scaled distances D; nu = inf is the squared exponential.

    The second array, times ``(x_c - y_c)^2 / l_c^2``, is the derivative with respect to ``log l_c``
    (Rasmussen & Williams 2006, eqs (4.9) and (4.14)-(4.17)). D may be overwritten: large arrays are expensive to make.
    """
    if nu == np.inf:
        K = np.exp(-0.5 * D)
        return K, K
    r = np.sqrt(D, out=D)
    if nu == 0.5:
        K = np.exp(-r)
        return K, np.divide(K, r, out=np.zeros_like(K), where=r > 0)
    if nu == 1.5:
        return _matern_three_halves(r)
    if nu == 2.5:
        return _matern_five_halves(r)
    a = np.sqrt(2.0 * nu) * r
    inside = a > 1e-12
    safe = np.where(inside, a, 1.0)
    c = 2.0 ** (1.0 - nu) / gamma(nu)
    K = np.where(inside, c * safe**nu * kv(nu, safe), 1.0)
    # d/da [a^nu K_nu(a)] = -a^nu K_{nu-1}(a); at a = 0 the factor (x_c - y_c)^2 is zero as well.
    slope = np.where(inside, c * 2.0 * nu * safe ** (nu - 1.0) * kv(nu - 1.0, safe), 0.0)
    return K, slope


def _matern_three_halves(r: Array) -> tuple[Array, Array]:
    """``(1 + a) exp(-a)`` and ``3 exp(-a)`` with ``a = sqrt(3) r``; r is overwritten."""
    r *= np.sqrt(3.0)
    e = np.negative(r)
    np.exp(e, out=e)
    r += 1.0
    r *= e
    e *= 3.0
    return r, e


def _matern_five_halves(r: Array) -> tuple[Array, Array]:
    """``(1 + a + a^2 / 3) exp(-a)`` and ``5/3 (1 + a) exp(-a)`` with ``a = sqrt(5) r``; r is overwritten."""
    r *= np.sqrt(5.0)
    e = np.negative(r)
    np.exp(e, out=e)
    slope = r + 1.0
    r *= r
    r /= 3.0
    r += slope
    r *= e
    slope *= 5.0 / 3.0
    slope *= e
    return r, slope


def radial_value(nu: float, D: Array) -> Array:
    """The first half of :func:`radial_profile`, overwriting D where that saves time."""
    if nu == np.inf:
        D *= -0.5
        return np.asarray(np.exp(D, out=D))
    if nu == 0.5:
        np.sqrt(D, out=D)
        np.negative(D, out=D)
        return np.asarray(np.exp(D, out=D))
    if nu == 1.5:
        D *= 3.0
        np.sqrt(D, out=D)
        e = np.exp(-D)
        D += 1.0
        D *= e
        return D
    if nu == 2.5:
        D *= 5.0
        square = D / 3.0
        np.sqrt(D, out=D)
        e = np.exp(-D)
        D += 1.0
        D += square
        D *= e
        return D
    return radial_profile(nu, D)[0]


@final
@dataclass(frozen=True, slots=True)
class Radial:
    """RBF (``nu = inf``) and Matérn; ``scales`` is (1,) or one length-scale a column."""

    nu: float
    scales: Array
    free: bool

    def _scaled(self, X: Array, Y: Array) -> tuple[Array, Array]:
        self._check_width(X.shape[-1])
        Xs = X / self.scales
        return Xs, Xs if Y is X else Y / self.scales

    def cross(self, X: Array, Y: Array) -> Array:
        return radial_value(self.nu, squared_distances(*self._scaled(X, Y)))

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        Xs, Ys = self._scaled(X, Y)
        D = squared_distances(Xs, Ys)
        isotropic = len(self.scales) == 1
        K, slope = radial_profile(self.nu, D.copy() if isotropic else D)

        def pull(W: Array) -> Array:
            if not self.free:
                return EMPTY
            if isotropic:
                return np.array([float(np.vdot(W, slope * D))])
            return weighted_squares(W * slope, Xs, Ys)

        return K, pull

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        return np.ones(X.shape[:-1]), lambda w: np.zeros(len(self.scales) if self.free else 0)

    def theta(self) -> Array:
        return np.log(self.scales) if self.free else EMPTY

    def with_theta(self, theta: Array) -> Radial:
        return replace(self, scales=np.exp(theta)) if self.free else self

    def _check_width(self, d: int) -> None:
        if len(self.scales) not in (1, d):
            raise SettingsError(f"the kernel has {len(self.scales)} length-scales, X has {d} columns")

    def precision(self, d: int) -> Array | None:
        self._check_width(d)
        return np.broadcast_to(self.scales**-2.0, (d,)).copy()


@final
@dataclass(frozen=True, slots=True)
class Rational:
    """Rational quadratic; theta is (log alpha, log length-scale), each where free."""

    alpha: float
    scale: float
    free_alpha: bool
    free_scale: bool

    def cross(self, X: Array, Y: Array) -> Array:
        return self.vjp(X, Y)[0]

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        D = squared_distances(X, Y) / self.scale**2
        base = 1.0 + D / (2.0 * self.alpha)
        K = base**-self.alpha

        def pull(W: Array) -> Array:
            WK = W * K
            gradient = []
            if self.free_alpha:
                gradient.append(float(np.vdot(WK, D / (2.0 * base) - self.alpha * np.log(base))))
            if self.free_scale:
                gradient.append(float(np.vdot(WK, D / base)))
            return np.array(gradient)

        return K, pull

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        return np.ones(X.shape[:-1]), lambda w: np.zeros(self.free_alpha + self.free_scale)

    def theta(self) -> Array:
        return np.log([v for v, free in ((self.alpha, self.free_alpha), (self.scale, self.free_scale)) if free])

    def with_theta(self, theta: Array) -> Rational:
        values = iter(np.exp(theta))
        alpha = float(next(values)) if self.free_alpha else self.alpha
        return replace(self, alpha=alpha, scale=float(next(values)) if self.free_scale else self.scale)

    def precision(self, d: int) -> Array | None:
        return np.full(d, self.scale**-2.0)


@final
@dataclass(frozen=True, slots=True)
class Periodic:
    """Exp-sine-squared of the Euclidean distance; theta is (log length-scale, log period), each where free."""

    scale: float
    period: float
    free_scale: bool
    free_period: bool

    def cross(self, X: Array, Y: Array) -> Array:
        return self.vjp(X, Y)[0]

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        a = (np.pi / self.period) * np.sqrt(squared_distances(X, Y))
        sine = np.sin(a)
        K = np.exp(-2.0 * (sine / self.scale) ** 2)

        def pull(W: Array) -> Array:
            WK = W * K * (4.0 / self.scale**2)
            gradient = []
            if self.free_scale:
                gradient.append(float(np.vdot(WK, sine * sine)))
            if self.free_period:
                gradient.append(float(np.vdot(WK, a * sine * np.cos(a))))
            return np.array(gradient)

        return K, pull

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        return np.ones(X.shape[:-1]), lambda w: np.zeros(self.free_scale + self.free_period)

    def theta(self) -> Array:
        return np.log([v for v, free in ((self.scale, self.free_scale), (self.period, self.free_period)) if free])

    def with_theta(self, theta: Array) -> Periodic:
        values = iter(np.exp(theta))
        scale = float(next(values)) if self.free_scale else self.scale
        return replace(self, scale=scale, period=float(next(values)) if self.free_period else self.period)

    def precision(self, d: int) -> Array | None:
        return None


@final
@dataclass(frozen=True, slots=True)
class Linear:
    """``x . y + sigma^2`` (scikit-learn's DotProduct)."""

    sigma: float
    free: bool

    def cross(self, X: Array, Y: Array) -> Array:
        return np.asarray(np.matmul(X, np.swapaxes(Y, -1, -2)) + self.sigma**2)

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        return self.cross(X, Y), self._pull

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        return np.einsum("...ij,...ij->...i", X, X) + self.sigma**2, self._pull

    def _pull(self, W: Array) -> Array:
        return np.array([2.0 * self.sigma**2 * float(W.sum())]) if self.free else EMPTY

    def theta(self) -> Array:
        return np.log([self.sigma]) if self.free else EMPTY

    def with_theta(self, theta: Array) -> Linear:
        return replace(self, sigma=float(np.exp(theta[0]))) if self.free else self

    def precision(self, d: int) -> Array | None:
        return None


@final
@dataclass(frozen=True, slots=True)
class Foreign:
    """Any other scikit-learn kernel, through its own methods.

    scikit-learn gives gradients of K(X) alone; the gradient of K(X, Y) is a block of that of K of both stacked,
    taken tile by tile so that memory stays bounded.
    """

    kernel: Any
    tile: int = 96

    def cross(self, X: Array, Y: Array) -> Array:
        if X.ndim == 2 and Y.ndim == 2:
            return np.array(self.kernel(X, Y if Y is not X else X.copy()), dtype=np.float64)
        stack = np.broadcast_shapes(X.shape[:-2], Y.shape[:-2])
        Xb = np.broadcast_to(X, (*stack, *X.shape[-2:]))
        Yb = np.broadcast_to(Y, (*stack, *Y.shape[-2:]))
        K = np.empty((*stack, X.shape[-2], Y.shape[-2]))
        for i in np.ndindex(*stack):
            K[i] = self.kernel(Xb[i], Yb[i].copy())
        return K

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        K = self.cross(X, Y)

        def pull(W: Array) -> Array:
            total = np.zeros(self.kernel.n_dims)
            if total.size == 0:
                return total
            Xb = np.broadcast_to(X, (*W.shape[:-2], *X.shape[-2:]))
            Yb = np.broadcast_to(Y, (*W.shape[:-2], *Y.shape[-2:]))
            for i in np.ndindex(*W.shape[:-2]):
                total += self._pull_one(Xb[i], Yb[i], W[i])
            return total

        return K, pull

    def _pull_one(self, X: Array, Y: Array, W: Array) -> Array:
        total = np.zeros(self.kernel.n_dims)
        for i in range(0, len(X), self.tile):
            A = X[i : i + self.tile]
            for j in range(0, len(Y), self.tile):
                _, G = self.kernel(np.vstack([A, Y[j : j + self.tile]]), eval_gradient=True)
                block = G[: len(A), len(A) :]
                total += np.einsum("ij,ijp->p", W[i : i + self.tile, j : j + self.tile], block)
        return total

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        rows = X.reshape(-1, X.shape[-1])
        tiles = [rows[i : i + self.tile] for i in range(0, len(rows), self.tile)]
        if nugget:
            values = np.array(self.kernel.diag(rows), dtype=np.float64)
        else:
            values = np.concatenate([EMPTY, *(np.diagonal(self.kernel(A, A.copy())) for A in tiles)])

        def pull(w: Array) -> Array:
            total = np.zeros(self.kernel.n_dims)
            weights = w.reshape(-1)
            for i, A in enumerate(tiles if total.size else []):
                stacked = A if nugget else np.vstack([A, A])
                _, G = self.kernel(stacked, eval_gradient=True)
                at = np.arange(len(A))
                total += weights[i * self.tile :][: len(A)] @ G[at, at if nugget else at + len(A)]
            return total

        return values.reshape(X.shape[:-1]), pull

    def theta(self) -> Array:
        return np.asarray(self.kernel.theta, dtype=np.float64)

    def with_theta(self, theta: Array) -> Foreign:
        return replace(self, kernel=self.kernel.clone_with_theta(theta))

    def precision(self, d: int) -> Array | None:
        return None
