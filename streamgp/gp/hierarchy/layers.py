"""A client's design: Phi^T Phi and Phi^T y of all layers, without ever forming Phi, and the way back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, Layout, Scales, scales, scales_backward, softplus_slope
from streamgp.gp.hierarchy.data import ClientData, Index
from streamgp.gp.hierarchy.features import Features, features, features_backward


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the whitened coordinates stand: ``feature`` maps each to its column of A, ``layer`` to its latent."""

    feature: Index  # (D,)
    layer: Index  # (D,)
    starts: Index  # (R,) first coordinate of each latent
    sizes: Index  # (R,) coordinates of each latent
    n_global: int
    n_deviation: int


def columns(layout: Layout, m_global: int, m_local: int) -> Columns:
    """Coordinates of the layers global, deviation, local on ``m_global`` and ``m_local`` inducing inputs."""
    blocks = [np.arange(m_global) + m_global * r for r in range(layout.rank_global)]
    blocks += [np.arange(m_global) + m_global * r for r in layout.turn]
    offset = layout.n_kernels * m_global
    blocks += [np.arange(m_local) + offset + m_local * r for r in range(layout.rank_local)]
    sizes = np.array([len(b) for b in blocks], dtype=np.intp)
    return Columns(
        np.concatenate(blocks),
        np.repeat(np.arange(len(blocks)), sizes),
        np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp),
        sizes,
        layout.rank_global * m_global,
        layout.rank_deviation * m_global,
    )


@dataclass(frozen=True, slots=True)
class Design:
    """F = Phi^T Phi (D, D), c = Phi^T y (D,) and the residual trace of (10) over all observed outputs."""

    data: ClientData
    scales: Scales
    columns: Columns
    parts: tuple[Features, ...]  # global kernels, then local ones
    A: Array  # (n, P) all features side by side
    grams: tuple[Array, ...]  # one (D, D) a group: A^T A of its rows, at the features of the coordinates
    mixes: tuple[Array, ...]  # one (D, D) a group: W^T W of its outputs, at the latents of the coordinates
    H: Array  # (P, Q) A^T Y
    F: Array
    c: Array
    residual: float

    def outline(self) -> Design:
        """The same without its matrices, which are most of its memory: enough for a belief whose factors are solved."""
        none = np.zeros((0, 0))
        return replace(self, parts=(), A=none, grams=(), mixes=(), H=none, F=none)


def all_features(X: Array, shared: Block, own: Block, s: Scales) -> tuple[Features, ...]:
    """Features of every kernel that a client uses, at rows X (n, d)."""
    parts = [features(X, shared["inducing"], ell) for ell in s.global_lengthscale]
    return (*parts, *(features(X, own["inducing"], ell) for ell in s.local_lengthscale))


def stacked(parts: tuple[Features, ...], n: int) -> Array:
    """(n, P) features side by side."""
    return np.hstack([p.A for p in parts]) if parts else np.zeros((n, 0))


def design(data: ClientData, shared: Block, own: Block, layout: Layout) -> Design:
    """The client's design under its shared and own block. Cost n P^2 a group of outputs."""
    s = scales(shared, own, layout)
    cols = columns(layout, len(shared["inducing"]), len(own["inducing"]))
    parts = all_features(data.X, shared, own, s)
    A = stacked(parts, len(data.X))
    F = np.zeros((len(cols.layer), len(cols.layer)))
    grams, mixes, residual = [], [], 0.0
    for group in data.groups:
        rows = A if group.rows is None else A[group.rows]
        gram = (rows.T @ rows).take(cols.feature, axis=0).take(cols.feature, axis=1)
        W = s.W[group.outputs]
        mix = np.repeat(np.repeat(W.T @ W, cols.sizes, axis=0), cols.sizes, axis=1)
        F += mix * gram
        shown = np.add.reduceat(np.diagonal(gram), cols.starts)
        residual += float((W * W).sum(axis=0) @ (group.count - shown))
        grams.append(gram)
        mixes.append(mix)
    H = A.T @ data.Y
    c = (H[cols.feature] * s.W.T[cols.layer]).sum(axis=1)
    return Design(data, s, cols, parts, A, tuple(grams), tuple(mixes), H, F, c, residual)


def design_backward(
    d: Design,
    shared: Block,
    own: Block,
    layout: Layout,
    *,
    F_bar: Array,
    c_bar: Array,
    residual_bar: float,
    noise_bar: float,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Derivatives by every array of the shared and the own block, given those by F, c, residual and noise."""
    cols, W = d.columns, d.scales.W
    W_bar = np.zeros_like(W)
    A_bar = d.data.Y @ _fold_rows(c_bar[:, None] * W.T[cols.layer], cols, d.A.shape[1]).T
    for group, gram, mix in zip(d.data.groups, d.grams, d.mixes, strict=True):
        own_W = W[group.outputs]
        touch = np.add.reduceat(np.add.reduceat(F_bar * gram, cols.starts, axis=0), cols.starts, axis=1)
        shown = np.add.reduceat(np.diagonal(gram), cols.starts)
        W_bar[group.outputs] += own_W @ (touch + touch.T)
        W_bar[group.outputs] += 2.0 * residual_bar * own_W * (group.count - shown)
        back = F_bar * mix
        back[np.diag_indices_from(back)] -= residual_bar * (own_W * own_W).sum(axis=0)[cols.layer]
        gram_bar = _fold_rows(_fold_rows(back, cols, d.A.shape[1]).T, cols, d.A.shape[1])
        if group.rows is None:
            A_bar += d.A @ (gram_bar + gram_bar.T)
        else:
            A_bar[group.rows] += d.A[group.rows] @ (gram_bar + gram_bar.T)
    by_layer = d.H[cols.feature] * c_bar[:, None]  # (D, Q)
    W_bar += np.add.reduceat(by_layer, cols.starts, axis=0).T
    of_shared, of_own = scales_backward(shared, own, layout, W_bar=W_bar, noise_bar=noise_bar)
    _kernels_backward(d, A_bar, shared=shared, own=own, of_shared=of_shared, of_own=of_own)
    return of_shared, of_own


def _fold_rows(B: Array, cols: Columns, n_features: int) -> Array:
    """Sum the rows of B (D, k) that stand for the same feature: (P, k)."""
    out = np.zeros((n_features, B.shape[1]))
    ends = [*cols.starts[1:], len(B)]
    for start, end in zip(cols.starts, ends, strict=True):
        first = cols.feature[start]
        out[first : first + end - start] += B[start:end]
    return out


def _kernels_backward(
    d: Design,
    A_bar: Array,
    *,
    shared: Block,
    own: Block,
    of_shared: dict[str, Array],
    of_own: dict[str, Array],
) -> None:
    """Add the derivatives by lengthscales and inducing inputs to the two blocks."""
    at = 0
    kernels = [(shared, of_shared, ell) for ell in d.scales.global_lengthscale]
    kernels += [(own, of_own, ell) for ell in d.scales.local_lengthscale]
    lengths: dict[int, list[Array]] = {id(of_shared): [], id(of_own): []}
    of_shared["inducing"] = np.zeros_like(shared["inducing"])
    of_own["inducing"] = np.zeros_like(own["inducing"])
    for part, (block, out, ell) in zip(d.parts, kernels, strict=True):
        width = part.A.shape[1]
        by_ell, by_Z = features_backward(
            part, A_bar[:, at : at + width], X=d.data.X, Z=block["inducing"], lengthscale=ell
        )
        at += width
        lengths[id(out)].append(by_ell)
        out["inducing"] += by_Z
    for block, out in ((shared, of_shared), (own, of_own)):
        eta = block["eta_lengthscale"]
        out["eta_lengthscale"] = np.reshape(lengths[id(out)], eta.shape) * softplus_slope(eta)
