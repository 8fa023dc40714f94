"""Incremental inference: the tree is rooted at the clique that grows, so all messages towards it stand still.

A row changes the newest clique (the hub) alone. What it does to the belief of another clique is one rank-one term
that travels along the path from the hub, at O(n^2) a clique; cliques that no query has asked for wait. When a new
clique opens under a parent p, messages are turned round on the path from the old hub to p and no others; where the
stream is ordered p is the old hub, so that a step's cost does not depend on how many cliques there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

import numpy as np

from streamgp.gp.beliefs import Belief
from streamgp.gp.cliques import Elimination, Info, Positions, eliminate, log_integral, pack, settle, unpack
from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import Factor, add_outer
from streamgp.models.cpoe.experts_data import Experts, Model, Past
from streamgp.models.cpoe.graph import Clique
from streamgp.models.cpoe.hub import Change, Hub
from streamgp.models.cpoe.tree import Message, Own, outward, prepare

#: bytes of beliefs that are kept up to date
ACTIVE_BYTES = 3e8
NOBODY = -1


@dataclass(slots=True)
class Way:
    """How a change of belief on the hub's side comes into a clique, as matrices to multiply with.

    A change w of the source is ``w_s = w_shared + K_ss^-1 u``, ``u = K_s,rest w_rest``, on what is shared, and
    ``[w_s - F' w_e, w_e]``, ``w_e = -back K_ss w_s``, in the clique; ``K_ss w_s = K_ss w_shared + u``.
    """

    order: Positions  # shared values first
    K_ss: Array
    factor: Factor  # of K_ss: its explicit inverse would lose the digits of a smooth kernel
    into: Array  # (n, s): what K_ss w_s adds
    source: tuple[Positions, Positions, Array] | None = None  # in the clique it comes from, once that is no hub

    @classmethod
    def of(cls, e: Elimination, order: Positions, K_ss: Array) -> Way:
        """From the clique's elimination towards its source."""
        back = e.back()
        return cls(order, K_ss, e.K_ss, np.concatenate([e.F.T @ back, -back]))

    def change(self, shared: Array, u: Array) -> Array:
        """(n,) the change in the clique, shared values first."""
        w = self.into @ (self.K_ss @ shared + u)
        w[: len(shared)] += shared + self.factor.solve_vector(u)
        return w


@dataclass(slots=True)
class Active:
    """A clique that is kept up to date: belief, prior covariance, changes since ``first``, the way into it."""

    belief: Belief
    K: Array
    version: int
    way: Way | None = None
    changes: list[Change] = field(default_factory=list)
    first: int = 0


@final
class Stream:
    """Beliefs of all cliques while rows join the last of them.

    Parameters
    ----------
    model, experts, cliques
        The tree as it stands; the last clique is the one that grows.
    capacity
        Inducing points that the last clique may still take in.
    keep_all
        Keep every clique up to date, change by change: for few cliques. Then the numbers are the same to the bit
        whatever was asked and when.
    """

    def __init__(
        self, model: Model, experts: Experts, cliques: list[Clique], *, capacity: int, keep_all: bool = False
    ) -> None:
        self.keep_all = keep_all
        self.model = model
        self.experts = experts
        self.cliques = cliques
        self.toward = [NOBODY] * len(cliques)
        empty: Message = (np.zeros(0), np.zeros((0, experts.n_outputs)))
        self.messages: list[Message] = [empty] * len(cliques)
        self.active: OrderedDict[int, Active] = OrderedDict()
        self.log_evidence = 0.0
        self.rows_seen = 0
        self.stale = False
        self._dynamic: dict[tuple[int, int], tuple[int, Message]] = {}
        self._root_everywhere()
        self._make_hub(capacity)
        if keep_all:
            for c in range(len(cliques) - 1):
                self._sync(c)

    # -- the tree

    @property
    def hub_clique(self) -> int:
        """Number of the clique that grows."""
        return len(self.cliques) - 1

    def neighbours(self, c: int) -> Iterator[int]:
        """Children, then the parent."""
        yield from self.cliques[c].children
        if self.cliques[c].parent >= 0:
            yield self.cliques[c].parent

    def shared(self, c: int, other: int) -> Positions:
        """Positions of clique c's values that its neighbour ``other`` shares."""
        lower = c if self.cliques[c].parent == other else other
        return self.experts.positions(self.cliques[c], self.cliques[lower].separator)

    def told(self, c: int, own: Own, *, but: int = NOBODY, hub_side: Message | None = None) -> Info:
        """Everything told to clique c except by ``but``; ``hub_side`` is what its hub-side neighbour says."""
        info, n_s = own.info, self.experts.separator_size(self.cliques[c])
        for other in self.neighbours(c):
            message = hub_side if other == self.toward[c] else self.messages[other]
            if other != but and message is not None:
                info = info.plus(unpack(message[0]), message[1], at=self.shared(c, other), n_s=n_s)
        past = self.experts.past
        if past is not None and c == 0 and n_s > 0:
            info = info.plus(unpack(past.Lam), past.eta, at=np.arange(n_s), n_s=n_s)
        return info

    def _send(self, c: int, to: int) -> tuple[Elimination, Own]:
        """Static message from c to ``to``, all its other neighbours' being towards c."""
        K, own = prepare(self.model, self.experts, self.cliques[c])
        n_s = self.experts.separator_size(self.cliques[c])
        self.toward[c] = to
        e = outward(K, self.told(c, own, but=to), n_s, self.shared(c, to))
        self.messages[c] = (pack(e.M), e.eta)
        return e, own

    def _root_everywhere(self) -> None:
        """All messages towards the last clique, and what they leave of the evidence."""
        order, seen = [self.hub_clique], {self.hub_clique}
        for c in order:
            for other in self.neighbours(c):
                if other not in seen:
                    seen.add(other)
                    order.append(other)
                    self.toward[other] = c
        for c in reversed(order[1:]):
            e, own = self._send(c, self.toward[c])
            self.log_evidence += e.log_z + own.log_density
        for c in range(len(self.cliques)):
            if c not in seen:  # a tree of its own (C = 1)
                K, own = prepare(self.model, self.experts, self.cliques[c])
                self.log_evidence += own.log_density + eliminate(K, own.info, 0).log_z
        if self.experts.past is not None:
            self.log_evidence += self.experts.past.log

    # -- the hub

    def _make_hub(self, capacity: int) -> None:
        """The hub's belief from its rows and its neighbours at once."""
        c = self.hub_clique
        clique = self.cliques[c]
        K, own = prepare(self.model, self.experts, clique)
        n_s = self.experts.separator_size(clique)
        info = self.told(c, own)
        Lam, eta = info.dense(n_s)
        self.log_evidence += own.log_density + log_integral(K, Lam, eta)
        self.hub = Hub(self.experts.inducing(clique), n_s, settle(K, info, n_s), K, capacity)

    def observe(self, x: Array, y: Array) -> bool:
        """A row (1, d), (q,) that has just joined the newest expert as an inducing point.

        False where the beliefs have lost too many digits to take it in: everything is to be made again then.
        """
        gained = self.hub.observe(self.model, x, y)
        if gained is None:
            return False
        self.log_evidence += gained
        self.rows_seen += 1
        return True

    def touch(self) -> None:
        """The newest clique's rows or inducing points changed otherwise: beliefs are made again when needed."""
        self.rows_seen += 1
        self.stale = True

    def _renew(self) -> None:
        if not self.stale:
            return
        self.stale = False
        self.active.clear()
        clique = self.cliques[self.hub_clique]
        K, own = prepare(self.model, self.experts, clique)
        n_s = self.experts.separator_size(clique)
        belief = settle(K, self.told(self.hub_clique, own), n_s)
        self.hub = Hub(self.experts.inducing(clique), n_s, belief, K, 0)

    def open(self, clique: Clique, *, capacity: int) -> None:
        """The next clique begins, its expert still without rows."""
        self._renew()
        self._flush()
        parent = clique.parent
        self.cliques.append(clique)
        self.toward.append(NOBODY)
        self.messages.append((np.zeros(0), np.zeros((0, self.experts.n_outputs))))
        hub, c = self.hub, self.hub_clique
        old = c - 1
        self.active[old] = Active(
            Belief(hub.current().matrix.copy(), hub.current().alpha.copy()), _covariance(self, old), 0
        )
        self._turn(old, parent, c)
        Z = self.experts.inducing(clique)
        n_s = self.experts.separator_size(clique)
        K = self.model.prior(Z)
        q = self.experts.n_outputs
        belief = Belief(np.zeros((0, 0)), np.zeros((0, q)))
        if n_s > 0:
            Lam, eta = self.messages[parent]
            belief = settle(K[:n_s, :n_s], Info(unpack(Lam), eta), 0)
        self.hub = Hub(Z, n_s, belief, K, capacity)

    def _turn(self, old: int, parent: int, new: int) -> None:
        """Messages from the old hub to ``parent`` and from there to the new one; no others change."""
        if parent < 0:
            return
        self.cliques[parent].children.append(new)
        path = [parent]
        while path[-1] != old:
            path.append(self.toward[path[-1]])
        for c, to in zip(path[::-1], [*path[::-1][1:], new], strict=True):
            e, _ = self._send(c, to)
            if c in self.active:
                self.active[c].way = self._way(c, to, e)
        self._trim()

    def _flush(self) -> None:
        """Bring the cliques in use up to date and start counting changes afresh; drop the others."""
        if not self.keep_all:
            for c in [c for c, a in self.active.items() if a.version == 0 and self.hub.version > 0]:
                del self.active[c]
        for c in list(self.active):
            if c in self.active:
                self._sync(c)
        for a in self.active.values():
            a.version, a.first, a.changes = 0, 0, []
        self._dynamic.clear()

    # -- beliefs of other cliques

    def belief(self, c: int) -> Belief:
        """The belief of clique c, brought up to date along its path."""
        self._renew()
        if c == self.hub_clique:
            return self.hub.current()
        self._sync(c)
        self.active.move_to_end(c)
        return self.active[c].belief

    def _sync(self, c: int) -> None:
        path = [c]
        while self.toward[path[-1]] not in (NOBODY, self.hub_clique):
            path.append(self.toward[path[-1]])
        connected = self.toward[path[-1]] == self.hub_clique
        for x in reversed(path):
            known = self.active.get(x)
            if known is not None and (not connected or known.version == self.hub.version):
                continue
            if known is None or not self._follow(x, known):
                self._activate(x)
        self._trim(keep=set(path))

    def _way(self, c: int, source: int, e: Elimination) -> Way:
        K = self.active[c].K
        at = self.shared(c, source)
        order = np.concatenate([at, np.setdiff1d(np.arange(len(K)), at)])
        return Way.of(e, order, K[np.ix_(at, at)])

    def _follow(self, c: int, a: Active) -> bool:
        """Apply the changes of the hub-side neighbour since c was last up to date; False if they are not kept."""
        source = self.toward[c]
        if source == self.hub_clique:
            first, changes = self.hub.first, self.hub.changes
        else:
            first, changes = self.active[source].first, self.active[source].changes
        if a.version < first or a.way is None:
            return False
        way, new = a.way, changes[a.version - first :]
        W = np.zeros((len(a.K), len(new)))
        for i, change in enumerate(new):
            W[way.order, i] = way.change(*self._on_separator(source, c, way, change.w))
        d = np.array([change.d for change in new])
        r = np.array([change.r for change in new])
        for at in [[i] for i in range(len(new))] if self.keep_all else [range(len(new))]:
            add_outer(a.belief.matrix, W[:, at], d[at])
            a.belief.alpha[...] += W[:, at] @ (r[at] / d[at, None])
        a.changes += [Change(W[:, i].copy(), change.r, change.d) for i, change in enumerate(new)]
        a.version += len(new)
        return True

    def _on_separator(self, source: int, c: int, way: Way, w: Array) -> tuple[Array, Array]:
        """``w`` of the source clique on the values that it shares with c, and what its others say about them, u."""
        if source == self.hub_clique:  # what is shared is its separator
            n_s = self.hub.n_s
            return w[:n_s], self.hub.K[:, n_s : len(w)] @ w[n_s:]
        if way.source is None:
            at = self.shared(source, c)
            rest = np.setdiff1d(np.arange(len(w)), at)
            way.source = (at, rest, self.active[source].K[np.ix_(at, rest)])
        at, rest, K = way.source
        return w[at], K @ w[rest]

    def restore(self, c: int, belief: Belief, version: int, first: int, changes: list[Change]) -> None:
        """Put an up-to-date clique of a snapshot back."""
        K, own = prepare(self.model, self.experts, self.cliques[c])
        self.active[c] = Active(belief, K, version, changes=changes, first=first)
        source = self.toward[c]
        if source != NOBODY:
            n_s = self.experts.separator_size(self.cliques[c])
            e = outward(K, self.told(c, own, but=source), n_s, self.shared(c, source))
            self.active[c].way = self._way(c, source, e)

    def _activate(self, c: int) -> None:
        """The belief of c from messages, those on the path from the hub made now."""
        K, own = prepare(self.model, self.experts, self.cliques[c])
        n_s = self.experts.separator_size(self.cliques[c])
        source = self.toward[c]
        hub_side = None if source == NOBODY else self._from_hub(source, c)
        belief = settle(K, self.told(c, own, hub_side=hub_side), n_s)
        now = self.hub.version
        self.active[c] = Active(Belief(belief.full(), belief.alpha), K, now, first=now)
        if source != NOBODY:
            e = outward(K, self.told(c, own, but=source), n_s, self.shared(c, source))
            self.active[c].way = self._way(c, source, e)

    def _from_hub(self, c: int, to: int) -> Message:
        """Message from c away from the hub, to ``to``: it changes with every row."""
        path = [to, c]
        while path[-1] != self.hub_clique:
            path.append(self.toward[path[-1]])
        hub_side: Message | None = None
        for x, y in zip(path[:0:-1], path[-2::-1], strict=True):
            known = self._dynamic.get((x, y))
            if known is None or known[0] != self.rows_seen:
                K, own = prepare(self.model, self.experts, self.cliques[x])
                info = self.told(x, own, but=y, hub_side=hub_side)
                e = outward(K, info, self.experts.separator_size(self.cliques[x]), self.shared(x, y))
                known = (self.rows_seen, (pack(e.M), e.eta))
                self._dynamic[x, y] = known
            hub_side = known[1]
        assert hub_side is not None
        return hub_side

    def _trim(self, *, keep: set[int] | None = None) -> None:
        total = sum(2 * a.K.nbytes for a in self.active.values())
        for c in list(self.active):
            if total <= ACTIVE_BYTES or self.keep_all:
                return
            if c != self.hub_clique - 1 and not (keep and c in keep):
                total -= 2 * self.active.pop(c).K.nbytes

    # -- forgetting

    def forget(self) -> None:
        """Drop clique 0 of a chain and its first expert; what it said to clique 1 stays."""
        first = self.cliques[0]
        K, own = prepare(self.model, self.experts, first)
        n_s = self.experts.separator_size(first)
        info = self.told(0, own)
        past, log = self.experts.past, own.log_density
        if past is not None:
            log += past.log
        if self.toward[0] == NOBODY:
            log += eliminate(K, info, 0).log_z
            Lam, eta = pack(np.zeros((0, 0))), np.zeros((0, self.experts.n_outputs))
        else:
            e = outward(K, info, n_s, self.shared(0, 1))
            Lam, eta = pack(e.M), e.eta
            log += e.log_z
        e_experts = self.experts
        e_experts.past = Past(Lam, eta, log)
        for part in (e_experts.X, e_experts.y, e_experts.A):
            del part[0]
        self.cliques[:] = [_shifted(c) for c in self.cliques[1:]]
        self.cliques[0].parent = NOBODY
        self.toward[:] = [t - 1 if t > 0 else NOBODY for t in self.toward[1:]]
        del self.messages[0]
        self.active = OrderedDict((c - 1, a) for c, a in self.active.items() if c > 0)
        self._dynamic.clear()


def _shifted(clique: Clique) -> Clique:
    return Clique(
        tuple(e - 1 for e in clique.separator),
        tuple(e - 1 for e in clique.residual),
        clique.parent - 1,
        [c - 1 for c in clique.children],
    )


def _covariance(stream: Stream, c: int) -> Array:
    A = stream.experts.inducing(stream.cliques[c])
    return stream.model.prior(A)
