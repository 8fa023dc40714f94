"""The posterior of all regions (Prop. 7)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from streamgp.gp.beliefs import Belief
from streamgp.gp.cliques import Info, settle
from streamgp.gp.gaussian import Array
from streamgp.models.cpoe import sparse
from streamgp.models.cpoe.conditioning import steadied
from streamgp.models.cpoe.experts_data import Experts, Model
from streamgp.models.cpoe.graph import Clique
from streamgp.models.cpoe.tree import Messages, Own, downward, prepare, told, upward

#: bytes of beliefs that are held ready for prediction; the others are made when asked for
READY_BYTES = 1.2e9
RECENT_BYTES = 2.5e8
#: bytes of kernel matrices kept between the two passes
KEEP_BYTES = 5e8


@dataclass(slots=True)
class Recent:
    """Beliefs used last, within a budget of bytes."""

    budget: float
    held: OrderedDict[int, Belief] = field(default_factory=OrderedDict)
    used: float = 0.0

    def get(self, c: int) -> Belief | None:
        """The belief of region c if it is held."""
        if c not in self.held:
            return None
        self.held.move_to_end(c)
        return self.held[c]

    def put(self, c: int, belief: Belief) -> None:
        """Hold a belief, dropping the ones unused for longest."""
        self.held[c] = belief
        self.used += belief.matrix.nbytes
        while len(self.held) > 1 and self.used > self.budget:
            self.used -= self.held.popitem(last=False)[1].matrix.nbytes


@final
class Posterior:
    """Inference for a fixed partition and graph: a tree of cliques where the graph is chordal, else block-sparse.

    Parameters
    ----------
    model, experts
        Hyperparameters and data.
    parts, is_tree
        The regions: cliques of a tree, or of a graph that fills in.
    """

    def __init__(self, model: Model, experts: Experts, parts: Sequence[Clique], is_tree: bool) -> None:
        self.model = steadied(model, experts, parts)
        self.experts = experts
        self.is_tree = is_tree
        self.regions = list(parts)
        self.ready: dict[int, Belief] = {}
        self.room = READY_BYTES
        self.recent = Recent(RECENT_BYTES)
        self.messages: Messages | None = None
        if self.is_tree:
            self._pass_messages()
        else:
            symbolic = sparse.pattern(len(experts.A), self.regions)
            solution = sparse.solve(self.model, experts, self.regions, symbolic)
            self._log_evidence: float | None = solution.log_evidence
            self.room = np.inf
            sparse.visit_regions(
                self.model,
                experts,
                self.regions,
                solution,
                visit=lambda c, K, own, belief, outer: self._keep(c, belief),
            )

    def _pass_messages(self) -> None:
        messages, kept = upward(self.model, self.experts, self.regions, keep_bytes=KEEP_BYTES)
        self._log_evidence = messages.log_evidence
        self.messages = messages

        def visit(c: int, K: Array, own: Own, info: Info) -> None:
            if K.nbytes <= self.room:
                self._keep(c, settle(K, info, self.experts.separator_size(self.regions[c])))

        downward(self.model, self.experts, self.regions, messages, kept=kept, visit=visit)

    @property
    def log_evidence(self) -> float:
        """(8)."""
        if self._log_evidence is None:
            if self.is_tree:
                self._log_evidence = upward(self.model, self.experts, self.regions)[0].log_evidence
            else:
                symbolic = sparse.pattern(len(self.experts.A), self.regions)
                self._log_evidence = sparse.solve(self.model, self.experts, self.regions, symbolic).log_evidence
        return self._log_evidence

    def spread(self, model: Model, factor: float) -> None:
        """Go over to a model whose prior covariances and noise are ``factor`` times as large: the same means."""
        self.model = replace(model, jitter=self.model.jitter)
        self._log_evidence = None
        for c in list(self.ready):  # one at a time: together they may be large
            self.ready[c] = self.ready[c].spread(factor)
        self.recent = Recent(RECENT_BYTES)
        if self.messages is not None:
            up, down = (
                [(M / factor, eta / factor) for M, eta in way] for way in (self.messages.up, self.messages.down)
            )
            self.messages = replace(self.messages, up=up, down=down)

    def _keep(self, c: int, belief: Belief) -> None:
        self.room -= belief.matrix.nbytes
        self.ready[c] = belief

    def belief(self, c: int) -> Belief:
        """The belief of region c, made again from its neighbours' messages where it is not at hand."""
        found = self.ready.get(c) or self.recent.get(c)
        if found is None:
            assert self.messages is not None  # block-sparse beliefs are all held
            K, own = prepare(self.model, self.experts, self.regions[c])
            info = told(self.experts, self.regions, self.messages, c, own=own)
            found = settle(K, info, self.experts.separator_size(self.regions[c]))
            self.recent.put(c, found)
        return found
