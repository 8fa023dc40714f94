"""The spectral mixture as a leaf of a kernel tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.kernel_nodes import Pull

TWO_PI = 2.0 * np.pi


@final
@dataclass(frozen=True, slots=True)
class Spectral:
    """Spectral mixture (Wilson & Adams 2013, eq. (12)).

    ``weights`` (Q,), ``frequencies`` and ``scales`` (Q, d); ``free`` = (weights, frequencies, scales). theta is
    the logarithm of frequencies, scales, weights, in this order, each where free.
    """

    weights: Array
    frequencies: Array
    scales: Array
    free: tuple[bool, bool, bool]

    def _components(self, X: Array, Y: Array) -> Iterator[Array]:
        """(..., n, m) product over columns of every component, unweighted."""
        for q in range(len(self.weights)):
            yield self._damping(X, Y, q) * np.prod([self._wave(X, Y, q, c)[0] for c in self._columns(X)], axis=0)

    def _columns(self, X: Array) -> range:
        d = self.frequencies.shape[1]
        if X.shape[-1] != d:
            raise ValueError(f"the spectral mixture has {d} columns, X has {X.shape[-1]}")
        return range(d)

    @staticmethod
    def _lag(X: Array, Y: Array, c: int) -> Array:
        return np.asarray(X[..., :, None, c] - Y[..., None, :, c])

    def _damping(self, X: Array, Y: Array, q: int) -> Array:
        D: Array = np.sum([(self._lag(X, Y, c) / self.scales[q, c]) ** 2 for c in self._columns(X)], axis=0)
        return np.asarray(np.exp(-0.5 * D))

    def _wave(self, X: Array, Y: Array, q: int, c: int) -> tuple[Array, Array]:
        """Cosine factor of column c, and its derivative with respect to the logarithm of its frequency."""
        a = TWO_PI * self.frequencies[q, c] * self._lag(X, Y, c)
        return np.cos(a), -a * np.sin(a)

    def cross(self, X: Array, Y: Array) -> Array:
        return np.asarray(sum(w * P for w, P in zip(self.weights, self._components(X, Y), strict=True)))

    def slices(self, X: Array, Y: Array) -> Iterator[Array]:
        """(..., n, m) derivatives of ``cross`` with respect to every entry of theta, in its order."""
        Q, columns = range(len(self.weights)), self._columns(X)
        if self.free[1]:
            for q in Q:
                damping = self.weights[q] * self._damping(X, Y, q)
                for c in columns:
                    factors = [self._wave(X, Y, q, o)[int(o == c)] for o in columns]
                    yield damping * np.prod(factors, axis=0)
        components = list(self._components(X, Y)) if self.free[0] or self.free[2] else []
        if self.free[2]:
            for q in Q:
                for c in columns:
                    yield self.weights[q] * components[q] * (self._lag(X, Y, c) / self.scales[q, c]) ** 2
        if self.free[0]:
            for q in Q:
                yield self.weights[q] * components[q]

    def gradient(self, X: Array) -> Array:
        """(n, n, p) as scikit-learn wants it."""
        slices: list[Array] = list(self.slices(X, X))
        return np.stack(slices, axis=-1) if slices else np.zeros((len(X), len(X), 0))

    def vjp(self, X: Array, Y: Array) -> tuple[Array, Pull]:
        return self.cross(X, Y), lambda W: np.array([float(np.vdot(W, G)) for G in self.slices(X, Y)])

    def diag(self, X: Array, *, nugget: bool) -> tuple[Array, Pull]:
        def pull(w: Array) -> Array:
            flat = np.zeros(self.frequencies.size)
            total = float(w.sum())
            parts = [flat] * self.free[1] + [flat] * self.free[2] + [self.weights * total] * self.free[0]
            return np.concatenate([np.zeros(0), *parts])

        return np.full(X.shape[:-1], float(self.weights.sum())), pull

    def theta(self) -> Array:
        parts = [self.frequencies.ravel()] * self.free[1] + [self.scales.ravel()] * self.free[2]
        values: Array = np.concatenate([np.zeros(0), *parts, *[self.weights] * self.free[0]])
        return np.asarray(np.log(values))

    def with_theta(self, theta: Array) -> Spectral:
        values, at, size = np.exp(theta), 0, self.frequencies.size
        frequencies, scales, weights = self.frequencies, self.scales, self.weights
        if self.free[1]:
            frequencies, at = values[at : at + size].reshape(frequencies.shape), at + size
        if self.free[2]:
            scales, at = values[at : at + size].reshape(scales.shape), at + size
        if self.free[0]:
            weights = values[at:]
        return replace(self, weights=weights, frequencies=frequencies, scales=scales)

    def precision(self, d: int) -> Array | None:
        return None
