"""The clique that a stream's rows join: one row costs O(n^2), n the size of the clique."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from streamgp.gp.beliefs import Belief
from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import add_outer
from streamgp.models.cpoe.experts_data import Model


@dataclass(slots=True)
class Change:
    """One row's effect on a belief: ``A += w w' / d``, ``alpha += w r' / d`` on the first ``len(w)`` values."""

    w: Array
    r: Array  # (q,)
    d: float


@dataclass(slots=True)
class Hub:
    """Belief of the newest clique, growing: inputs Z, belief, covariances of separator and residual.

    Parameters
    ----------
    Z : (n, d)
        Inducing inputs, separator first.
    n_s
        Size of the separator.
    belief
        Of those n values.
    K : (n, n)
        Their prior covariance.
    capacity
        Values that will come, at most, before the next clique.
    """

    Z: Array
    n_s: int
    belief: Belief
    K: Array
    capacity: int
    n: int = field(init=False)
    changes: list[Change] = field(default_factory=list)
    first: int = 0  # number of the oldest change kept

    def __post_init__(self) -> None:
        self.n = len(self.Z)
        size = self.n + self.capacity
        q = self.belief.alpha.shape[1]
        Z, A, alpha, K = (
            np.zeros((size, self.Z.shape[1])),
            np.zeros((size, size)),
            np.zeros((size, q)),
            np.zeros((self.n_s, size)),
        )
        Z[: self.n], A[: self.n, : self.n] = self.Z, self.belief.full()
        alpha[: self.n], K[:, : self.n] = self.belief.alpha, self.K[: self.n_s]
        self.Z, self.belief, self.K = Z, Belief(A, alpha), K

    @property
    def version(self) -> int:
        """Number of changes so far."""
        return self.first + len(self.changes)

    def current(self) -> Belief:
        """The belief of the values that there are; shares memory with the hub."""
        n = self.n
        return Belief(self.belief.matrix[:n, :n], self.belief.alpha[:n])

    def observe(self, model: Model, x: Array, y: Array) -> float | None:
        """Take a row in (x (1, d), y (q,)) as a new inducing point; the log density that it had, over outputs.

        None, and nothing taken in, where rounding has eaten the digits: less would be uncertain than noise alone.
        """
        n, s = self.n, model.noise
        k = model.kernel(x, self.Z[:n])[0]
        A, alpha = self.belief.matrix, self.belief.alpha
        Ak = A[:n, :n] @ k
        prior = float(model.variance(x)[0])
        d = s + prior - float(k @ Ak)
        least = s + model.jitter * prior
        if not d >= 0.5 * least:
            return None
        d = max(d, least)
        r = y - k @ alpha[:n]
        w = np.append(-Ak, 1.0)
        whole = np.zeros((len(A), 1))
        whole[: n + 1, 0] = w
        add_outer(A, whole, np.array([d]))
        alpha[: n + 1] += np.multiply.outer(w, r / d)
        self.Z[n] = x[0]
        self.K[:, n] = k[: self.n_s]
        self.n = n + 1
        self.changes.append(Change(w, r, d))
        return float(-0.5 * (r @ r / d + len(y) * np.log(2 * np.pi * d)))
