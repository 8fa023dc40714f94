"""Where an optimisation begins: inducing inputs, kernels and loadings, from the span of the inputs and a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Layout, softplus_inverse
from streamgp.gp.hierarchy.data import ClientData

#: lengthscales at the start, as shares of the span of the inputs: 2.0 and 0.35 on [0, 10] in the paper (4.2)
GLOBAL_SHARE, LOCAL_SHARE = 0.2, 0.035
#: spread of the log lengthscales between latents of one layer and between random starts
JITTER_SHARE = 0.3
#: pairs of rows that a ring of distance must have for their covariance to be more than chance: where clients' inputs
#: are the same, the first ring has a pair for every one of them; elsewhere it has few, of a few places
ENOUGH_TOGETHER, ENOUGH_APART = 50, 500
#: a mean of so many spreads is the prior's
FAR_FROM_ZERO = 10.0
#: outputs whose sizes, and whose spreads, differ by more are in different units
UNLIKE = 8.0
#: an output of smaller size that is not zero has no size in squares
SMALLEST = 1e-100


@dataclass(frozen=True, slots=True)
class Units:
    """The numbers are worked on as (X - center) / span and Y / scale; predictions are given back in the caller's.

    Nothing is centred in y (the prior mean is zero). All clients of a federation must use the same units.
    """

    center: Array  # (d,)
    span: Array  # (d,)
    scale: float

    def inputs(self, X: Array) -> Array:
        """Rows (n, d) in working units: each column spans about 10."""
        return (X - self.center) * (10.0 / self.span)


def units_of(Xs: Sequence[Array], Ys: Sequence[Array]) -> Units:
    """Units from the rows of all clients: the box of the inputs, the root mean square of the outputs."""
    X = np.concatenate(Xs)
    low, high = X.min(axis=0), X.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    squares = np.concatenate([Y[np.isfinite(Y)] ** 2 for Y in Ys])
    scale = float(np.sqrt(squares.mean())) if len(squares) else 0.0
    return Units(0.5 * (low + high), span, scale if scale >= 1e-100 else 1.0)  # smaller ones have no size in squares


def far_mean(Ys: Sequence[Array]) -> Array:
    """(Q,) means of the outputs of all clients that are more than ten times the spread about them, else zero.

    Such a mean would have to come from the prior's variance, and the digits of everything else with it.
    """
    Y = np.concatenate(Ys)
    known = np.isfinite(Y)
    count = np.maximum(known.sum(axis=0), 1)
    mean = _mean(Y)
    spread = np.sqrt(np.square(np.where(known, Y - mean, 0.0)).sum() / count.sum())
    far = (np.abs(mean) > FAR_FROM_ZERO * spread) & (spread > 1e-15 * np.abs(mean).max())
    return np.where(far, mean, 0.0)


def sizes_of(Ys: Sequence[Array], *, centred: bool) -> tuple[Array, Array]:
    """(Q,) prior means and (Q,) scales of the outputs of all clients; without ``centred`` the former are zero.

    Scales are ones where outputs have sizes alike. Else they are the outputs' root mean squares about their prior
    means: one noise variance and one prior of loadings for all would take the small ones for nothing.

    Raises
    ------
    ValueError
        If an output is so small that its square is no number.
    """
    Y = np.concatenate(Ys)
    size = _root_mean_square(Y)
    for q in np.flatnonzero((size > 0.0) & (size < SMALLEST)):
        raise ValueError(
            f"Y: output {q} has size {size[q]:.3g}: squares of less than {SMALLEST:g} are none; scale it up"
        )
    zero = np.zeros(Y.shape[1])
    mean = far_mean(Ys) if centred else zero
    spread = _root_mean_square(Y - _mean(Y))
    varies = spread > 1e-12 * size
    if _alike(np.where(varies, _root_mean_square(Y - mean), 0.0)) or _alike(np.where(varies, spread, 0.0)):
        return mean, np.ones(Y.shape[1])
    unit = np.where(varies, spread, np.where(size > 0.0, size, 1.0))
    mean = far_mean([y / unit for y in Ys]) * unit if centred else zero
    left = _root_mean_square(Y - mean)
    return mean, np.where(left > 0.0, left, 1.0)


def _alike(sizes: Array) -> bool:
    """Whether sizes (Q,), zeros left out, are within a factor of one another."""
    some = sizes[sizes > 0.0]
    return len(some) < 2 or float(some.max() / some.min()) <= UNLIKE


def _mean(Y: Array) -> Array:
    """(Q,) means of Y (n, Q) where it is known."""
    known = np.isfinite(Y)
    return np.asarray(np.where(known, Y, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))


def _root_mean_square(Y: Array) -> Array:
    """(Q,) of Y (n, Q) where it is known, also where squares are none."""
    known = np.isfinite(Y)
    some = np.where(known, np.abs(Y), 0.0)
    most = some.max(axis=0, initial=0.0)
    shares = some / np.where(most > 0.0, most, 1.0)
    return np.asarray(most * np.sqrt(np.square(shares).sum(axis=0) / np.maximum(known.sum(axis=0), 1)))


def spread_points(X: Array, m: int, rng: np.random.Generator) -> Array:
    """m inducing inputs for rows X (n, d): a grid on one column, else rows chosen far apart, one after another."""
    d = X.shape[1]
    if len(X) == 0:
        return rng.uniform(-5.0, 5.0, (m, d)) if d > 1 else np.linspace(-5.0, 5.0, m)[:, None]
    if d == 1:
        return np.linspace(X.min(), X.max(), m)[:, None]
    distinct = np.unique(X, axis=0)
    if len(distinct) <= m:
        return distinct
    chosen = [int(rng.integers(len(distinct)))]
    nearest = np.full(len(distinct), np.inf)
    for _ in range(m - 1):
        nearest = np.minimum(nearest, np.square(distinct - distinct[chosen[-1]]).sum(axis=1))
        chosen.append(int(np.argmax(nearest)))
    return distinct[chosen]


def shared_reach(data: Sequence[ClientData], rng: np.random.Generator) -> float | None:
    """Distance in working units at which rows of different clients stop to agree, or None if they never do.

    By (35) the covariance of two clients' outputs is that of the global layer alone, whatever their own layers are.
    It is averaged over outputs in rings of distance; with one client its own rows are compared.
    """
    edges = np.concatenate([[0.0], np.geomspace(0.01, 10.0, 21)])
    sums, counts = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    together = 0
    some = [rng.permutation(len(x.X))[:400] for x in data]
    pairs = [(i, j) for i in range(len(data)) for j in range(i)] or [(0, 0)]
    for at in rng.permutation(len(pairs))[:20]:
        i, j = pairs[at]
        a, b = data[i], data[j]
        distance = np.sqrt(((a.X[some[i], None] - b.X[some[j]]) ** 2).sum(axis=2)).ravel()
        together += int(np.count_nonzero(distance == 0.0)) if i != j else 0
        product = (a.Y[some[i]] @ b.Y[some[j]].T).ravel()
        ring = np.searchsorted(edges, distance, side="right") - 1
        inside = (ring >= 0 if i != j else distance > 0.0) & (ring < len(sums))
        ring = np.maximum(ring, 0)
        sums += np.bincount(ring[inside], product[inside], len(sums))
        counts += np.bincount(ring[inside], minlength=len(counts))
    full = counts >= (ENOUGH_TOGETHER if together >= ENOUGH_TOGETHER else ENOUGH_APART)
    if not full.any():
        return None
    covariance, middle = sums[full] / counts[full], np.sqrt(edges[:-1] * edges[1:])[full]
    ended = covariance < 0.6 * covariance[0]
    if covariance[0] < 0.1 * data[0].Y.shape[1] or not ended.any():
        return None
    return float(middle[int(np.argmax(ended))])


def start_shared(
    X: Array,
    layout: Layout,
    m: int,
    rng: np.random.Generator,
    *,
    noise: float = 0.01,
    reach: float | None = None,
) -> dict[str, Array]:
    """A shared block for inputs X (n, d) in working units: all the rows there are, or the corners of their box."""
    d = X.shape[1]
    base = _reach(GLOBAL_SHARE, m, d) if reach is None else reach / np.sqrt(d)
    lengths = base * np.exp(JITTER_SHARE * rng.standard_normal((layout.n_kernels, d)))
    return {
        "inducing": spread_points(X, m, rng),
        "eta_lengthscale": softplus_inverse(lengths * np.sqrt(d)),
        "eta_variance": softplus_inverse(np.full(layout.n_kernels, 0.5)),
        "loadings": start_loadings(layout, layout.rank_global, rng),
        "eta_phi": softplus_inverse(np.array([1.0])),
        "eta_noise": softplus_inverse(np.array([noise])),
    }


def start_own(X: Array, layout: Layout, m: int, rng: np.random.Generator, *, fixed: bool = False) -> dict[str, Array]:
    """A client's own block for its rows X (n, d) in working units.

    With a ``fixed`` budget the residual starts no rougher than m inducing inputs can show: what they miss costs
    the bound so much that the layer would be given up before they can move.
    """
    d, r = X.shape[1], layout.rank_local
    lengths = (_reach(LOCAL_SHARE, m, d) if fixed else 10.0 * LOCAL_SHARE) * np.exp(
        JITTER_SHARE * np.linspace(-1.0, 1.0, r)[:, None] * np.ones(d)
    )
    noise = {"log_noise": np.zeros(1)} if layout.own_noise else {}
    return noise | {
        "inducing": spread_points(X, m, rng),
        "eta_lengthscale": softplus_inverse(lengths * np.sqrt(d)),
        "eta_variance": softplus_inverse(np.full(r, 0.5)),
        "deviation_loadings": start_loadings(layout, layout.rank_deviation, rng),
        "local_loadings": start_loadings(layout, layout.rank_local, rng),
    }


def _reach(share: float, m: int, d: int) -> float:
    """A lengthscale: ``share`` of the span, or the spacing of m inducing inputs in d columns if that is wider."""
    return 10.0 * max(share, float(np.power(m, -1.0 / d)))


def start_loadings(layout: Layout, rank: int, rng: np.random.Generator) -> Array:
    """Loadings (Q, rank) at the start: ones where they are held, else draws of their prior, a little shrunk."""
    if layout.scalar:
        return np.ones((1, rank))
    return 0.7 * rng.standard_normal((layout.n_outputs, rank))
