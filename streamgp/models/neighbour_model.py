"""The nearest-neighbour Gaussian process itself, without a public door: learn, believe, snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, final
from weakref import WeakSet

import numpy as np

from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.evidence import Sample
from streamgp.gp.gaussian import Array
from streamgp.gp.local_evidence import Predictive, predictive
from streamgp.gp.neighbourhood import condition, condition_on_all
from streamgp.models.merging import cells, snapped
from streamgp.models.neighbours import NeighbourIndex
from streamgp.models.places import Added, Ints, Places
from streamgp.models.tuning import Seen, Tuner

# Doubles in one stack of neighbourhoods: about 32 MB a temporary.
_STACK = 4_000_000
# The index is built again when the kernel's metric differs from its own by more than this factor in a column.
_METRIC_DRIFT = 1.25
# Targets whose mean is so many times their spread are worked on without it, from so many observations on: else their
# digits would go into a variance that has to hold the mean, and the least noise would be a share of that.
_FAR_FROM_ZERO, _ENOUGH = 10.0, 8


class Follower(Protocol):
    """Who keeps neighbours of its own (:class:`streamgp.models.standing.StandingQueries`) and hears of every change."""

    def follow(self, added: Added) -> None:
        """The model has learned an observation; its index knows already."""

    def search(self) -> None:
        """Distances are measured anew."""


@final
class NeighbourModel:
    """k nearest places, a kernel and a noise variance.

    Rows and targets are finite float64 arrays of the right shape: whoever calls has seen to it. ``offset`` (q,) is the
    prior mean: zero but where the hyperparameters are fitted and :meth:`recentre` found the targets far from it.
    """

    def __init__(
        self,
        kernel: CompiledKernel,
        noise_variance: float,
        places: Places,
        *,
        n_neighbors: int,
        tuner: Tuner | None = None,
        scale: Array | None = None,
        merge: float = 0.0,
    ) -> None:
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.places = places
        self.n_neighbors = n_neighbors
        self.tuner = tuner
        self.merge = merge
        self.cell: Array | None = None
        self.offset: Array = np.zeros(places.q)
        self.index = NeighbourIndex(places, metric(kernel, places.d) if scale is None else scale)
        self.standing: WeakSet[Follower] = WeakSet()

    # -- learning

    def learn(self, Z: Array, y: Array) -> None:
        """Observations Z (n, d), y (n, q), in their order: equal to one by one."""
        for i in range(len(Z)):
            z = Z[i].copy() if self.cell is None else snapped(Z[i], self.cell)
            if self.tuner is None:
                self._add(z, y[i])
                continue
            self.tuner.ahead(self, z, y[i] - self.offset, self.places.learned)
            self._add(z, y[i])
            if self.tuner.behind(self, self.places.learned):
                self.follow_metric()
                if self.merge > 0.0 and len(self.places) > self.n_neighbors > 1:
                    self.cell = cells(self.kernel, self.noise_variance, self.places.d, self.merge)

    def learn_all(self, Z: Array, y: Array) -> None:
        """A batch as a whole: rows first, then one fit of the hyperparameters."""
        for i in range(len(Z)):
            self._add(Z[i], y[i])
        if self.tuner is not None:
            self.tuner.fit(self)
            self.follow_metric()
            if len(self.places) > 2 * self.n_neighbors and self.tuner.polish(self):
                self.follow_metric()

    def _add(self, z: Array, y: Array) -> None:
        places = self.places
        added = places.add(z, y)
        if added.gone >= 0:
            self.index.remove(added.gone, added.gone_serial)
        if added.new:
            self.index.insert(added.slot)
        for query in self.standing:
            query.follow(added)

    def recentre(self) -> bool:
        """Choose the prior mean anew, by all that is kept; True if it moved."""
        p, live = self.places, self.places.live()
        count, before = p.count[live], self.offset
        self.offset = np.zeros(p.q)
        total = float(count.sum())
        if total >= _ENOUGH:
            mean = count @ p.mean[live] / total
            squares = float(p.within[live].sum() + count @ ((p.mean[live] - mean) ** 2).sum(axis=1))
            spread = np.sqrt(squares / (total * p.q))
            if spread > 1e-15 * np.abs(mean).max():  # below that it is what rounding makes of a constant
                self.offset = np.where(np.abs(mean) > _FAR_FROM_ZERO * spread, mean, 0.0)
        return not np.array_equal(before, self.offset)

    def follow_metric(self) -> None:
        """Build the index again if the kernel's length-scales have moved on from those it was built with."""
        scale = metric(self.kernel, self.places.d)
        now, then = np.maximum(scale, 1e-9), np.maximum(self.index.scale, 1e-9)
        if np.max(np.abs(np.log(now / then))) > np.log(_METRIC_DRIFT):
            self.index = NeighbourIndex(self.places, scale)
            for query in self.standing:
                query.search()

    # -- believing

    def believe(self, Z: Array) -> tuple[Array, Array]:
        """Latent mean (m, q) and variance (m,) at Z (m, d)."""
        places, k = self.places, self.n_neighbors
        if len(places) == 0:
            return np.tile(self.offset, (len(Z), 1)), self.kernel.variance(Z)
        if k >= len(places):
            live = places.live()
            mean, variance = condition_on_all(
                self.kernel, self.noise_variance, Z, places.rows[live], self._targets(live), places.count[live]
            )
            return mean + self.offset, variance
        rows = max(1, _STACK // (k + 1) ** 2)
        parts = [
            self.believe_given(Z[i : i + rows], self.index.query(Z[i : i + rows], k)[0]) for i in range(0, len(Z), rows)
        ]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return np.zeros((0, places.q)), np.zeros(0)
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def believe_given(self, Z: Array, slots: Ints) -> tuple[Array, Array]:
        """The same, given which places (m, k) are the neighbours."""
        p = self.places
        mean, variance = condition(
            self.kernel, self.noise_variance, Z, p.rows[slots], self._targets(slots), p.count[slots]
        )
        mean += self.offset
        return mean, variance

    def _targets(self, slots: Ints) -> Array:
        """(..., q) what is learned of these places: their targets' means without the prior's."""
        targets: Array = self.places.mean[slots]
        targets -= self.offset
        return targets

    # -- what the tuner asks for

    def sample(self, size: int, rng: np.random.Generator | None) -> Sample:
        p = self.places
        live = p.live()
        if rng is None:
            live = live[-size:]
        elif len(live) > size:
            live = live[np.sort(rng.choice(len(live), size=size, replace=False))]
        return Sample(p.rows[live], self._targets(live), p.count[live], p.within[live])

    def neighbours_of(self, z: Array, y: Array) -> Seen:
        p, k = self.places, self.n_neighbors
        rows, targets, counts = np.zeros((k, p.d)), np.zeros((k, p.q)), np.zeros(k)
        slots = self.index.query(z[None], k)[0][0]
        found = len(slots)
        rows[:found], targets[:found], counts[:found] = p.rows[slots], self._targets(slots), p.count[slots]
        return Seen(z, y, rows, targets, counts)

    def left_out(self, sample: Sample, kernel: CompiledKernel, noise_variance: float) -> Predictive:
        p, Z = self.places, sample.X
        slots, squared = self.index.query(Z, min(self.n_neighbors + 1, len(p)))
        own = np.array([p.find(z) for z in Z])
        itself = slots == own[:, None]
        # its own place is always among its nearest, but for ties; then the farthest goes
        drop = np.where(itself.any(axis=1), np.argmax(itself, axis=1), np.argmax(squared, axis=1))
        keep = np.arange(slots.shape[1]) != drop[:, None]
        slots = slots[keep].reshape(len(Z), -1)
        return predictive(
            kernel, noise_variance, Z, p.rows[slots], self._targets(slots), p.count[slots], own_counts=sample.counts
        )

    # -- state

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copy: the index is made again, standing queries stay with the original."""
        kept = {k: v for k, v in self.__dict__.items() if k not in ("index", "standing")}
        return {**kept, "scale": self.index.scale}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        scale = kept.pop("scale")
        self.__dict__.update(kept)
        self.index, self.standing = NeighbourIndex(self.places, scale), WeakSet()

    def state(self) -> dict[str, Any]:
        """All of it but the kernel's own form, flat."""
        state: dict[str, Any] = {f"places_{k}": v for k, v in self.places.state().items()}
        state["noise_variance"] = self.noise_variance
        state["scale"] = self.index.scale.copy()
        state["merge"] = self.merge
        state["offset"] = self.offset.copy()
        state["cell"] = np.zeros(0) if self.cell is None else self.cell.copy()
        state["theta"] = np.zeros(0) if self.kernel.moved is None else self.kernel.moved.copy()
        if self.tuner is not None:
            state.update({f"tuner_{k}": v for k, v in self.tuner.state().items()})
        return state

    @classmethod
    def from_state(
        cls, state: Mapping[str, Any], kernel: CompiledKernel, *, n_neighbors: int, max_points: int | None
    ) -> NeighbourModel:
        """The twin; KeyError, TypeError or ValueError if the state is damaged."""

        def part(prefix: str) -> dict[str, Any]:
            return {k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)}

        theta = np.array(state["theta"], dtype=np.float64)
        tuner = Tuner.from_state(part("tuner_")) if "tuner_seed" in state else None
        new = cls(
            kernel.with_theta(theta) if len(theta) else kernel,
            float(state["noise_variance"]),
            Places.from_state(part("places_"), max_points),
            n_neighbors=n_neighbors,
            tuner=tuner,
            scale=np.array(state["scale"], dtype=np.float64),
            merge=float(state["merge"]),
        )
        cell = np.array(state["cell"], dtype=np.float64)
        new.cell = cell if len(cell) else None
        new.offset = np.array(state["offset"], dtype=np.float64).reshape(new.places.q)
        return new


def metric(kernel: CompiledKernel, d: int) -> Array:
    """(d,) factors for the columns, so that distances order rows as the kernel does.

    The kernel's own inverse length-scales up to a common factor (geometric mean 1), so that only their ratios
    count; a column that the kernel does not see gets 0. Plain distances where the kernel falls with no distance.
    """
    precision = kernel.precision(d)
    if precision is None or not (precision > 0).any():
        return np.ones(d)
    scale = np.sqrt(precision)
    seen = scale > 0
    scale[seen] /= np.exp(np.mean(np.log(scale[seen])))
    return scale
