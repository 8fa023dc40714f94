"""How far apart clients are: by what was fitted of them, or by the operator of the paper (3.8.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.features import correlation
from streamgp.gp.linalg import safe_cholesky
from streamgp.models.hgp.posterior import ClientPosterior

#: components: difference of the fitted own parts; correlation: whether they go up and down together; operator:
#: 3.8.2 of the paper
Kind: TypeAlias = Literal["components", "correlation", "operator"]
#: a part of a smaller root mean square is none: y has one of 1 in working units, and rounding correlates as well
NONE = 1e-6


def component_distances(posteriors: Sequence[ClientPosterior], X: Array) -> Array:
    """(T, T) root mean square difference, over inputs X (m, d) and outputs, of the (deviation + residual) means.

    The shared layer drops out of it, so that it does not matter how much of what clients have in common was
    attributed to the global layer and how much to their own.
    """
    parts = [p.parts(X) for p in posteriors]
    own = np.stack([(part["deviation"] + part["local"]).ravel() for part in parts])
    return np.stack([np.sqrt(np.mean((own - row) ** 2, axis=1)) for row in own])


def correlation_distances(posteriors: Sequence[ClientPosterior], X: Array) -> Array:
    """(T, T) one less the correlation, over inputs X (m, d) and outputs, of the own parts' means: from 0 to 2.

    What clients of one kind have in common beside the shared layer shows in their own parts, however large these
    are. With three clients or more their average own part is taken off first: it is what all have in common and the
    shared layer left. A part that does not vary is like no other, but clients without a part of their own (less
    than a millionth of y) are like one another.
    """
    parts = [p.parts(X) for p in posteriors]
    own = np.stack([(part["deviation"] + part["local"]).ravel() for part in parts])
    if len(own) > 2:
        own = own - own.mean(axis=0)
    none = np.sqrt(np.mean(own * own, axis=1)) <= NONE
    own = own - own.mean(axis=1, keepdims=True)
    size = np.sqrt((own * own).sum(axis=1))
    least = max(NONE * float(np.sqrt(own.shape[1])), 1e-12 * float(size.max()))
    unit = own / np.where(size > least, size, np.inf)[:, None]
    distance = np.clip(1.0 - unit @ unit.T, 0.0, 2.0)
    distance[np.ix_(none, none)] = 0.0
    np.fill_diagonal(distance, 0.0)
    return np.asarray(distance)


def operator_distances(posteriors: Sequence[ClientPosterior], inputs: Sequence[Array]) -> Array:
    """(T, T) squared Frobenius distances of the trace-normalised operators blockdiag(A_delta, A_loc) of 3.8.2.

    They are made from inputs and kernels alone. With several latents a block is the sum over them, each with its
    total scale. Residual inducing sets differ between clients; smaller operators are filled up with zeros.
    """
    made = [_operator(p, X) for p, X in zip(posteriors, inputs, strict=True)]
    sizes = max(len(local) for _, local in made)
    joint = []
    for deviation, local in made:
        m = len(deviation)
        A = np.zeros((m + sizes, m + sizes))
        A[:m, :m] = deviation
        A[m : m + len(local), m : m + len(local)] = local
        trace = float(np.trace(A))
        joint.append((A / trace if trace > 0.0 else A).ravel())
    flat = np.array(joint)
    squares = (flat * flat).sum(axis=1)
    distance = np.maximum(squares[:, None] + squares - 2.0 * flat @ flat.T, 0.0)
    np.fill_diagonal(distance, 0.0)
    return np.asarray(distance)


def _operator(p: ClientPosterior, X: Array) -> tuple[Array, Array]:
    """(A_delta, A_loc) of a client with rows X (n, d)."""
    scale = np.square(p.scales.W).sum(axis=0)
    rg, rd = p.layout.rank_global, p.layout.rank_deviation
    smooth = [(scale[rg + r], p.scales.global_lengthscale[k]) for r, k in enumerate(p.layout.turn)]
    rough = [(scale[rg + rd + r], ell) for r, ell in enumerate(p.scales.local_lengthscale)]
    return tuple(
        _projection(X, block["inducing"], kernels, p.scales.noise)
        for block, kernels in ((p.shared, smooth), (p.own, rough))
    )  # type: ignore[return-value]  # two blocks go in, so two come out


def _projection(X: Array, Z: Array, kernels: list[tuple[float, Array]], noise: float) -> Array:
    """K(Z, X) (K(X, X) + noise I)^-1 K(X, Z): (M, M)."""
    cross, inner = np.zeros((len(X), len(Z))), np.zeros((len(X), len(X)))
    for scale, ell in kernels:
        cross += scale * correlation(X, Z, ell)
        inner += scale * correlation(X, X, ell)
    inner[np.diag_indices_from(inner)] += noise
    if len(X) == 0:
        return np.zeros((len(Z), len(Z)))
    return np.asarray(cross.T @ safe_cholesky(inner).solve(cross))
