"""One station's rows as sums: what its belief is made of, a row at a time, under fixed blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, Layout
from streamgp.gp.hierarchy.bound import Factors, Shared, client_moments, shared_from_precision, solve_local
from streamgp.gp.hierarchy.data import client_data
from streamgp.gp.hierarchy.features import correlation, features
from streamgp.gp.hierarchy.layers import Design, design
from streamgp.models.hgp.posterior import ClientPosterior


@dataclass(slots=True)
class Moments:
    """Sums over rows of one output: F = Phi^T Phi (D, D) and c = Phi^T y (D,) of :class:`Design`.

    A row costs D^2. The exact natural parameters are the state; a posterior is made of them when it is asked for.
    """

    layout: Layout
    factors: Factors
    shared: Block
    own: Block
    F: Array
    c: Array
    _design: Design
    _bases: tuple[tuple[Array, Array, Array], ...]  # inducing inputs, lengthscale, L^-1 of each kernel

    def add(self, x: Array, y: float) -> None:
        """Take in one row (d,), in working units."""
        parts = [correlation(x[None], Z, ell)[0] @ L_inv.T for Z, ell, L_inv in self._bases]
        cols = self._design.columns
        phi = np.concatenate(parts)[cols.feature] * self._design.scales.W[0, cols.layer]
        self.F += np.outer(phi, phi)
        self.c += phi * y

    def posterior(self, q: Shared | None) -> ClientPosterior:
        """The belief given q(v_g), or given the rows alone where it is None and there is no global layer."""
        d = replace(self._design, F=self.F, c=self.c)
        local = solve_local(d, self.factors)
        given = shared_from_precision(np.zeros((0, 0)), np.zeros(0)) if q is None else q
        mean, cov = client_moments(d, local, given, self.factors)
        return ClientPosterior(self.shared, self.own, self.layout, d.scales, d.columns, mean, cov)


def moments_of(X: Array, y: Array, *, shared: Block, own: Block, layout: Layout, factors: Factors) -> Moments:
    """The sums over rows X (n, d), y (n,) in working units."""
    d = design(client_data(X, y[:, None]), shared, own, layout)
    return moments_from(d.F, d.c, shared=shared, own=own, layout=layout, factors=factors)


def moments_from(F: Array, c: Array, *, shared: Block, own: Block, layout: Layout, factors: Factors) -> Moments:
    """The same from their sums, as a snapshot has them."""
    empty = np.zeros((0, shared["inducing"].shape[1]))
    d = design(client_data(empty, np.zeros((0, 1))), shared, own, layout)
    if F.shape != d.F.shape or c.shape != d.c.shape:
        raise ValueError(f"sums have shapes {F.shape} and {c.shape}, the blocks make {d.F.shape}")
    pairs = [(shared["inducing"], ell) for ell in d.scales.global_lengthscale]
    pairs += [(own["inducing"], ell) for ell in d.scales.local_lengthscale]
    bases = tuple((Z, ell, features(empty, Z, ell).L_inv) for Z, ell in pairs)
    return Moments(layout, factors, shared, own, F.copy(), c.copy(), d, bases)
