"""The rows of the experts, side by side in expert order, with their inducing inputs and their graph."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from streamgp.gp.cliques import Positions
from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.gaussian import Array
from streamgp.gp.projections import Approximation
from streamgp.models.cpoe.graph import Clique


@dataclass(frozen=True, slots=True)
class Model:
    """Hyperparameters: kernel, variance s of an observation (white noise included), line of Table 5.

    ``jitter`` is the noise that inducing values are seen through, relative to their prior variance.
    """

    kernel: CompiledKernel
    noise: float
    approximation: Approximation
    jitter: float = 0.0

    def prior(self, A: Array) -> Array:
        """(n, n) prior covariance of the inducing values at A (n, d)."""
        K = self.kernel(A, A)
        if self.jitter > 0.0:
            K.flat[:: len(K) + 1] *= 1.0 + self.jitter
        return K

    def variance(self, A: Array) -> Array:
        """(n,) its diagonal."""
        return self.kernel.variance(A) * (1.0 + self.jitter)


@dataclass(frozen=True, slots=True)
class Past:
    """What forgotten rows say about the first clique's separator: (Lambda, packed), eta, and log constant."""

    Lam: Array
    eta: Array
    log: float


@dataclass(slots=True)
class Experts:
    """Per expert: inputs (B, d), targets (B, q), inducing inputs (L, d); exact = every row is an inducing
    point."""

    X: list[Array]
    y: list[Array]
    A: list[Array]
    exact: bool
    past: Past | None = None

    @property
    def n_outputs(self) -> int:
        """q."""
        return int(self.y[0].shape[1])

    @property
    def n_rows(self) -> int:
        """N."""
        return sum(len(X) for X in self.X)

    def inducing(self, clique: Clique) -> Array:
        """(n, d) inducing inputs of a clique, separator first."""
        return np.concatenate([self.A[e] for e in clique.members])

    def separator_size(self, clique: Clique) -> int:
        """Number of values in the separator."""
        return sum(len(self.A[e]) for e in clique.separator)

    def rows(self, clique: Clique) -> tuple[Array, Array, list[slice]]:
        """Inputs, targets and the row range of each expert of a clique's residual."""
        ends = np.cumsum([0, *(len(self.X[e]) for e in clique.residual)])
        groups = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        X = np.concatenate([self.X[e] for e in clique.residual])
        return X, np.concatenate([self.y[e] for e in clique.residual]), groups

    def positions(self, clique: Clique, experts: tuple[int, ...]) -> Positions:
        """Where the values of ``experts`` stand among a clique's values."""
        start, where = 0, {}
        for e in clique.members:
            where[e] = np.arange(start, start + len(self.A[e]))
            start += len(self.A[e])
        parts = [where[e] for e in experts]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
