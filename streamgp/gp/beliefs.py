"""A posterior of finitely many values, in the form in which it was found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import Factor, solve_lower


@final
@dataclass(frozen=True, slots=True)
class Belief:
    """``A = K^-1 - K^-1 Sigma K^-1`` (n, n) and ``alpha = K^-1 mu`` (n, q) of a clique's posterior, separator first.

    Attributes
    ----------
    matrix : (n, n)
        By ``form``: A itself ("whole"), a lower L with ``A = (L L')^-1`` ("factor"), a Y with ``A = Y' Y`` ("root"), or
        ``R^-T A R^-1`` ("white"), which need not be positive semidefinite. All but the first keep the digits of small
        variances.
    alpha : (n, q)
    form
    whitener : (n, n)
        R of "white", ``K^-1 = R' R``.
    """

    matrix: Array
    alpha: Array
    form: Literal["whole", "factor", "root", "white"] = "whole"
    whitener: Array | None = None

    def spread(self, factor: float) -> Belief:
        """The belief where prior covariances and noise are ``factor`` times as large: the same mean."""
        alpha = self.alpha / factor
        if self.form == "whole":
            return replace(self, matrix=self.matrix / factor, alpha=alpha)
        if self.form == "factor":
            return replace(self, matrix=self.matrix * np.sqrt(factor), alpha=alpha)
        if self.whitener is not None:
            return replace(self, whitener=self.whitener / np.sqrt(factor), alpha=alpha)
        return replace(self, matrix=self.matrix / np.sqrt(factor), alpha=alpha)

    def full(self) -> Array:
        """A, (n, n)."""
        if self.form == "whole":
            return self.matrix
        if self.form == "factor":
            return Factor(self.matrix, 0.0).inverse()
        if self.whitener is not None:
            return np.asarray(self.whitener.T @ self.matrix @ self.whitener)
        return np.asarray(self.matrix.T @ self.matrix)

    def explained(self, k: Array) -> Array:
        """(m,) ``diag(k A k')`` for k (m, n): by how much the prior variance shrinks."""
        left, right = self._halves(k)
        return np.asarray(np.einsum("ij,ij->j", left, right))

    def explained_jointly(self, k: Array) -> Array:
        """(m, m) ``k A k'``, whose diagonal is :meth:`explained`."""
        left, right = self._halves(k)
        return np.asarray(left.T @ right)

    def _halves(self, k: Array) -> tuple[Array, Array]:
        """(n, m) twice, whose product is ``k A k'``."""
        if self.form == "whole":
            return k.T, self.matrix @ k.T
        if self.form == "factor":
            half = solve_lower(self.matrix, k.T)
            return half, half
        if self.whitener is not None:
            half = self.whitener @ k.T
            return half, self.matrix @ half
        half = self.matrix @ k.T
        return half, half
