"""Row by row: which expert a row joins, when a new one opens, and how hyperparameters follow the stream."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from typing_extensions import Self

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.gaussian import Array
from streamgp.models.cpoe.conditioning import is_sound, steadied, with_jitter
from streamgp.models.cpoe.experts_data import Experts, Model
from streamgp.models.cpoe.graph import Clique, parent_of, parts_of
from streamgp.models.cpoe.layout import Layout
from streamgp.models.cpoe.options import Options
from streamgp.models.cpoe.partition import CliqueRule, inducing_count
from streamgp.models.cpoe.stream import Stream


@dataclass(slots=True)
class Learner:
    """Experts that grow. ``stream`` is None while the graph fills in: then the posterior is made when asked for."""

    options: Options
    model: Model
    data: Experts
    rows: list[list[int]]
    pi: list[list[int]]
    scale: Array
    capacity: int  # rows an expert
    n_learned: int
    centres: list[Array] = field(default_factory=list)  # of closed experts, scaled
    stream: Stream | None = None
    rule: CliqueRule = field(init=False)
    forgotten: int = 0  # experts dropped
    waiting: bool = False  # whether a stream is still to be made from a batch

    def __post_init__(self) -> None:
        self.rule = CliqueRule(self.options.correlation)
        for centre, pi in zip(self.centres, self.pi, strict=False):
            self.rule.add(centre, pi)

    @classmethod
    def start(cls, options: Options, model: Model, scale: Array, x: Array, y: Array) -> Self:
        """With one row (1, d), (1, q)."""
        data = Experts([x], [y], [x], options.sparsity >= 1.0)
        learner = cls(options, model, data, [[0]], [[]], scale, options.expert_size, 1)
        learner.restream([Clique((), (0,), -1)])
        return learner

    @classmethod
    def after(cls, options: Options, model: Model, layout: Layout, data: Experts, n: int) -> Self:
        """Going on after a batch."""
        capacity = options.expert_size if options.n_experts is None else max(len(r) for r in layout.rows)
        learner = cls(
            options,
            model,
            Experts(list(data.X), list(data.y), list(data.A), data.exact),
            [[int(i) for i in r] for r in layout.rows],
            [list(p) for p in layout.predecessors],
            layout.scale,
            capacity,
            n,
            [c.copy() for c in layout.centres[:-1]],
        )
        learner.wait()
        return learner

    def wait(self) -> None:
        """A batch is served by its own posterior; messages are turned for a stream at the first row that follows."""
        self.waiting = True

    def restream(self, cliques: list[Clique], *, steady: bool = True) -> Stream:
        """Messages and beliefs from nothing; without ``steady`` under the model as it is."""
        if steady:
            self.model = steadied(self.model, self.data, cliques)
        keep_all = self.options.max_experts is not None
        self.stream = Stream(self.model, self.data, cliques, capacity=self._room(cliques[-1]), keep_all=keep_all)
        return self.stream

    def _room(self, last: Clique) -> int:
        """Inducing points that the last clique may still take in."""
        experts = len(last.residual)
        if len(self.pi) <= self.options.correlation:  # the root may take in further experts whole
            experts += self.options.correlation - len(self.pi)
        return max(0, experts * self.capacity - sum(len(self.data.A[e]) for e in last.residual))

    @property
    def newest_is_full(self) -> bool:
        """Whether the next row opens an expert."""
        return len(self.data.X[-1]) >= self.capacity

    def centre(self) -> Array:
        """Scaled centre of the newest expert's inducing points."""
        return np.asarray(self.data.A[-1].mean(axis=0) * self.scale)

    def learn(self, x: Array, y: Array) -> bool:
        """Take in one row (1, d), (1, q); True if it was the first of a new expert."""
        if self.waiting:
            self.waiting = False
            parts, is_tree = parts_of(self.pi)
            if is_tree:
                self.restream(parts)
        opened = self.newest_is_full
        if opened:
            self._open(x)
        data = self.data
        data.X[-1] = np.concatenate([data.X[-1], x])
        data.y[-1] = np.concatenate([data.y[-1], y])
        self.rows[-1].append(self.n_learned)
        self.n_learned += 1
        if data.exact:
            data.A[-1] = data.X[-1]
            if self.stream is not None and not self.stream.observe(x, y[0]):
                self.model = with_jitter(self.model)
                self.restream(self.stream.cliques)
            return opened
        if inducing_count(len(data.X[-1]), self.options.sparsity) > len(data.A[-1]):
            data.A[-1] = np.concatenate([data.A[-1], x])
        if self.stream is not None:
            self.stream.touch()
        return opened

    def _open(self, x: Array) -> None:
        """Close the newest expert and open the next one, for which x is the first row."""
        C, j = self.options.correlation, len(self.pi)
        self.centres.append(self.centre())
        self.rule.add(self.centres[-1], self.pi[-1])
        pi = self._choose(np.asarray(x[0] * self.scale))
        self.pi.append(pi)
        self.rows.append([])
        for part, width in ((self.data.X, x.shape[1]), (self.data.y, self.data.n_outputs), (self.data.A, x.shape[1])):
            part.append(np.zeros((0, width)))
        if self.stream is None:
            return
        if j < C:
            self.stream.cliques[0].residual += (j,)
            return
        m = min(C, j)
        parent = parent_of(self.stream.cliques, pi, m)
        if parent is None:
            self.stream = None
            return
        if self.model.jitter == 0.0 and not is_sound(self.model, self.data, self.stream.cliques[-1]):
            self.model = with_jitter(self.model)
            self.restream(self.stream.cliques)
        self.stream.open(Clique(tuple(sorted(pi)), (j,), parent), capacity=self.capacity)
        most = self.options.max_experts
        while most is not None and len(self.pi) > most:
            self._forget()

    def _choose(self, first: Array) -> list[int]:
        """pi of the next expert, whose first row (scaled) is given."""
        C, j = self.options.correlation, len(self.pi)
        if self.options.max_experts is not None:
            return list(range(max(0, j - C + 1), j))
        if self.options.predecessors == "nearest":
            distance = np.sum((np.array(self.centres) - first) ** 2, axis=1)
            return [int(i) for i in np.argsort(distance, kind="stable")[: C - 1]]
        return self.rule.choose(first)

    def _forget(self) -> None:
        """Marginalise the oldest expert; numbers of the others fall by one."""
        assert self.stream is not None
        self.stream.forget()
        self.forgotten += 1
        del self.rows[0], self.centres[0], self.pi[0]
        C = self.options.correlation
        self.pi[:] = [list(range(j)) if j < C else [i - 1 for i in pi] for j, pi in enumerate(self.pi)]

    def tune(self, model: Model, scale: Array) -> None:
        """Go on under other hyperparameters: everything is made again from the rows that are kept."""
        before = self.model, self.stream
        self.model = model
        try:
            if self.stream is not None:
                self.restream(self.stream.cliques)
        except NotPositiveDefiniteError:
            self.model, self.stream = before
            raise
        if not np.array_equal(scale, self.scale):
            self.scale = scale
            first = len(self.pi) - len(self.centres) - 1
            self.centres = [A.mean(axis=0) * scale for A in self.data.A[first:-1]]
            self.rule = CliqueRule(self.options.correlation)
            for centre, pi in zip(self.centres, self.pi, strict=False):
                self.rule.add(centre, pi)
