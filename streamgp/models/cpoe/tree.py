"""Evidence, its gradient and every clique's belief in one upward and one downward pass over the tree of
cliques."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from streamgp.gp.beliefs import Belief
from streamgp.gp.cliques import (
    Elimination,
    Info,
    Positions,
    eliminate,
    eliminate_blocks,
    log_integral,
    pack,
    settle,
    split,
    unpack,
)
from streamgp.gp.gaussian import Array
from streamgp.gp.projections import Projection, project
from streamgp.models.cpoe.experts_data import Experts, Model
from streamgp.models.cpoe.graph import Clique


@dataclass(frozen=True, slots=True)
class Own:
    """What a clique's own rows say: information, log density at zero, and the projection (None where exact)."""

    info: Info
    log_density: float
    projection: Projection | None
    K_xa: Array | None


def own_information(model: Model, experts: Experts, clique: Clique, K: Array) -> Own:
    """Information of a clique's own rows on its values, K being the clique's prior covariance."""
    X, y, groups = experts.rows(clique)
    n_s = experts.separator_size(clique)
    s = model.noise
    if experts.exact:
        constant = -0.5 * (y.size * np.log(2 * np.pi * s) + float(np.sum(y * y)) / s)
        return Own(Info(1.0 / s, y / s), constant, None, None)
    kernel = model.kernel
    A = experts.inducing(clique)
    K_xa = kernel(X, A)
    p = project(
        K,
        K_xa,
        lambda g: kernel(X[g], X[g]),
        variance=kernel.variance(X),
        noise=s,
        groups=groups,
        approximation=model.approximation,
    )
    info = split(p.H.T @ p.noise.solve(p.H), p.H.T @ p.noise.solve(y), n_s)
    return Own(info, p.log_density_at_zero(y), p, K_xa)


Message = tuple[Array, Array]  # Lambda, packed or not, and eta on a separator


@dataclass(slots=True)
class Messages:
    """``up``: of every clique to its parent; ``down``: of its parent to it; and the evidence (8)."""

    up: list[Message]
    down: list[Message]
    log_evidence: float
    packed: bool = True

    def kept(self, M: Array, eta: Array) -> Message:
        """A message in the form that they are kept in."""
        return (pack(M) if self.packed else M), eta

    @property
    def nbytes(self) -> int:
        """Memory that the messages take."""
        return sum(M.nbytes + eta.nbytes for M, eta in (*self.up, *self.down))


def told(
    experts: Experts,
    cliques: Sequence[Clique],
    messages: Messages,
    c: int,
    *,
    own: Own,
    parent: bool = True,
    without: Sequence[int] = (),
) -> Info:
    """Everything told to clique c by its own rows, by its children except ``without``, and by its parent."""
    clique, info = cliques[c], own.info
    n_s = experts.separator_size(clique)
    for child in clique.children:
        if child not in without:
            at = experts.positions(clique, cliques[child].separator)
            M, eta = messages.up[child]
            info = info.plus(unpack(M), eta, at=at, n_s=n_s)
    if parent and n_s > 0:
        M, eta = messages.down[c]
        info = info.plus(unpack(M), eta, at=np.arange(n_s), n_s=n_s)
    return info


#: messages that would take more memory than this, in bytes, are packed
PACKED_BYTES = 3e8

Kept = dict[int, tuple[Array, Own]]


def prepare(model: Model, experts: Experts, clique: Clique) -> tuple[Array, Own]:
    """A clique's prior covariance and its own rows' information."""
    A = experts.inducing(clique)
    K = model.prior(A)
    return K, own_information(model, experts, clique, K)


def upward(
    model: Model, experts: Experts, cliques: Sequence[Clique], *, keep_bytes: float = 0.0
) -> tuple[Messages, Kept]:
    """Messages towards the root, and the evidence; kernel matrices are kept for the way back within a budget.

    Messages are packed where they take much memory.
    """
    empty: Message = (np.zeros(0), np.zeros((0, experts.n_outputs)))
    size = sum(16 * experts.separator_size(c) ** 2 for c in cliques)
    messages = Messages([empty] * len(cliques), [empty] * len(cliques), 0.0, size > PACKED_BYTES)
    kept: Kept = {}
    for c in range(len(cliques) - 1, -1, -1):
        K, own = prepare(model, experts, cliques[c])
        info = told(experts, cliques, messages, c, own=own, parent=False)
        e = eliminate(K, info, experts.separator_size(cliques[c]))
        messages.up[c] = messages.kept(e.M, e.eta)
        messages.log_evidence += own.log_density + e.log_z
        if experts.past is not None and c == 0:
            past, n_s = experts.past, len(e.M)
            messages.down[c] = (past.Lam, past.eta)
            messages.log_evidence += past.log
            if n_s > 0:
                messages.log_evidence += log_integral(K[:n_s, :n_s], e.M + unpack(past.Lam), e.eta + past.eta)
        size = K.nbytes
        if own.projection is not None and own.K_xa is not None:
            size += 3 * own.K_xa.nbytes + K.nbytes
        if size <= keep_bytes:
            keep_bytes -= size
            kept[c] = (K, own)
    return messages, kept


def outward(K: Array, info: Info, n_s: int, at: Positions) -> Elimination:
    """Message of a clique to the neighbour that shares its positions ``at``; info must leave that neighbour
    out."""
    if info.ss is not None and info.eta_s is not None and np.array_equal(at, np.arange(n_s, len(K))):
        return eliminate_blocks(K[n_s:, n_s:], K[n_s:, :n_s], K[:n_s, :n_s], _turned(info))
    Lam, eta = info.dense(n_s)
    order = np.concatenate([at, np.setdiff1d(np.arange(len(K)), at)])
    pair = np.ix_(order, order)
    return eliminate(K[pair], split(Lam[pair], eta[order], len(at)), len(at))


def _turned(info: Info) -> Info:
    """With separator and residual exchanged."""
    assert info.ss is not None
    assert info.eta_s is not None
    ss = info.rr * np.eye(len(info.eta_r)) if isinstance(info.rr, float) else info.rr
    return Info(info.ss, info.eta_s, None if info.rs is None else info.rs.T, ss, info.eta_r)


Visit = Callable[[int, Array, Own, Info], None]


def downward(
    model: Model, experts: Experts, cliques: Sequence[Clique], messages: Messages, *, kept: Kept, visit: Visit
) -> None:
    """Messages from the root, and ``visit(c, K, own, everything told)`` at every clique."""
    for c, clique in enumerate(cliques):
        K, own = kept.pop(c) if c in kept else prepare(model, experts, clique)
        n_s = experts.separator_size(clique)
        groups: dict[tuple[int, ...], list[int]] = {}
        for child in clique.children:
            groups.setdefault(cliques[child].separator, []).append(child)
        for separator, children in groups.items():
            at = experts.positions(clique, separator)
            rest = told(experts, cliques, messages, c, own=own, without=children)
            e = outward(K, rest, n_s, at)
            for child in children:
                others = [messages.up[x] for x in children if x != child]
                M = e.M + sum((unpack(m) for m, _ in others), np.zeros_like(e.M))
                messages.down[child] = messages.kept(M, e.eta + sum((h for _, h in others), np.zeros_like(e.eta)))
        visit(c, K, own, told(experts, cliques, messages, c, own=own))


def separator_belief(K: Array, messages: Messages, c: int, n_s: int) -> Belief:
    """Belief on clique c's separator alone, from both sides' messages."""
    if n_s == 0:
        return Belief(np.zeros((0, 0)), np.zeros((0, messages.up[c][1].shape[1])))
    (up, eta_up), (down, eta_down) = messages.up[c], messages.down[c]
    return settle(K[:n_s, :n_s], Info(unpack(up) + unpack(down), eta_up + eta_down), 0)
