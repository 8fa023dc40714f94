"""The k nearest places of any point, in an index that grows and forgets (the logarithmic method).

A few KD-trees of geometrically growing sizes hold the older places and a short tail, searched by brute force,
the newest. Merging trees costs O(log n) a place over its life, a search visits O(log n) trees. Places that are
forgotten are marked, and a tree that is half dead is built again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from streamgp.gp.gaussian import Array
from streamgp.models.places import Ints, Places

TAIL = 128  # places searched by brute force before they become a tree
GROWTH = 8  # a tree is at least this many times larger than the next


@dataclass(slots=True)
class _Block:
    tree: cKDTree
    slots: Ints
    serials: Ints
    ranked: Ints  # the serials in order
    dead: int = 0


@final
class NeighbourIndex:
    """Exact nearest neighbours among the places, at equal distance the one that came first.

    Parameters
    ----------
    places
        Where the rows are; :meth:`insert` and :meth:`remove` follow its changes.
    scale : (d,)
        Every column is multiplied by it before distances are taken; 0 leaves a column out.

    Examples
    --------
    >>> import numpy as np
    >>> places = Places(1, 1)
    >>> index = NeighbourIndex(places, np.ones(1))
    >>> for x in (0.0, 1.0, 5.0):
    ...     index.insert(places.add(np.array([x]), np.zeros(1)).slot)
    >>> slots, squared = index.query(np.array([[4.0]]), 2)
    >>> places.rows[slots[0], 0], squared[0]
    (array([1., 5.]), array([9., 1.]))
    """

    def __init__(self, places: Places, scale: Array) -> None:
        self.places = places
        self.scale = scale
        self._blocks: list[_Block] = []
        self._tail: list[int] = []
        self._gather(places.live())

    def insert(self, slot: int) -> None:
        """A place that is new in this slot."""
        self._tail.append(slot)

    def remove(self, slot: int, serial: int) -> None:
        """The place with this serial, in this slot, is no more."""
        for i, block in enumerate(self._blocks):
            at = int(np.searchsorted(block.ranked, serial))
            if at < len(block.ranked) and block.ranked[at] == serial:
                block.dead += 1
                if 2 * block.dead >= len(block.serials):
                    self._rebuild(i)
                return
        self._tail.remove(slot)

    def _rebuild(self, i: int) -> None:
        block = self._blocks.pop(i)
        slots = self._alive(block)
        if len(slots):
            self._blocks.insert(i, self._block(slots))

    def _alive(self, block: _Block) -> Ints:
        alive: Ints = block.slots[self.places.serial[block.slots] == block.serials]
        return alive

    def _block(self, slots: Ints) -> _Block:
        # once to find the tree's own order, once with rows in it: a leaf's rows then lie side by side in memory
        slots = slots[np.asarray(cKDTree(self.places.rows[slots] * self.scale).indices)]
        serials = self.places.serial[slots]
        return _Block(cKDTree(self.places.rows[slots] * self.scale), slots, serials, np.sort(serials))

    def _gather(self, slots: Ints) -> None:
        """Make a tree of these newest places, and of the smaller trees before them."""
        while self._blocks and len(self._blocks[-1].slots) < GROWTH * len(slots):
            slots = np.concatenate([self._alive(self._blocks.pop()), slots])
        if len(slots):
            self._blocks.append(self._block(slots))

    def query(self, Z: Array, k: int) -> tuple[Ints, Array]:
        """Nearest places of points Z (m, d).

        Returns
        -------
        slots : (m, min(k, places))
            Those of a point stand in the order in which they came, not by distance.
        squared : (m, min(k, places))
            Squared scaled distances, up to rounding (:meth:`squared_to` gives those that decide ties).
        """
        if len(self._tail) > TAIL:
            self._gather(np.array(self._tail, dtype=np.int64))
            self._tail = []
        k = min(k, len(self.places))
        Zs = Z * self.scale
        found = [self._search(block, Zs, k) for block in self._blocks]
        if self._tail:
            found.append(self._search_tail(Zs))
        slots, squared, horizon = found[0]
        if len(found) > 1:
            slots = np.concatenate([f[0] for f in found], axis=1)
            squared = np.concatenate([f[1] for f in found], axis=1)
            horizon = np.minimum.reduce([f[2] for f in found])
        row = np.arange(len(Z))[:, None]
        if slots.shape[1] > k:
            slots, squared = self._nearest(row, slots, squared, k, horizon, Zs)
        order = np.argsort(self.places.serial[slots], axis=1)
        return slots[row, order], squared[row, order]

    def squared_to(self, slots: Ints, Zs: Array) -> Array:
        """Squared distances (m, c) from scaled points to the places in slots (m, c): the ones that decide ties."""
        difference = self.places.rows[slots]
        difference *= self.scale
        difference -= Zs[:, None, :]
        squared: Array = np.einsum("mcd,mcd->mc", difference, difference)
        return squared

    def _search(self, block: _Block, Zs: Array, k: int) -> tuple[Ints, Array, Array]:
        """Slots and squared distances of the k nearest live places of one tree at least.

        Dead ones among them are infinitely far. The third array says how far out (squared) none is missing.
        """
        n = len(block.slots)
        wanted = min(k + 1, n)
        while True:
            answer = block.tree.query(Zs, np.arange(1, wanted + 1))
            squared, at = np.asarray(answer[0]) ** 2, np.asarray(answer[1])
            slots: Ints = block.slots[at]
            horizon = squared[:, -1] if wanted < n else np.full(len(Zs), np.inf)
            if not block.dead:
                return slots, squared, horizon
            dead = self.places.serial[slots] != block.serials[at]
            squared[dead] = np.inf
            if wanted == n or wanted - int(dead.sum(axis=1).max(initial=0)) >= min(k, n - block.dead):
                return slots, squared, horizon
            wanted = min(2 * wanted, n)

    def _search_tail(self, Zs: Array) -> tuple[Ints, Array, Array]:
        tail = np.array(self._tail, dtype=np.int64)
        squared = np.asarray(cdist(Zs, self.places.rows[tail] * self.scale, "sqeuclidean"))
        return np.broadcast_to(tail, squared.shape), squared, np.full(len(Zs), np.inf)

    def _nearest(self, row: Ints, slots: Ints, squared: Array, k: int, horizon: Array, Zs: Array) -> tuple[Ints, Array]:
        """The k nearest of the candidates; where the k-th is as good as tied, all of that distance are looked at."""
        pick = np.argpartition(squared, k, axis=1)
        chosen, near = slots[row, pick[:, :k]], squared[row, pick[:, :k]]
        limit = near.max(axis=1)
        rival = np.minimum(squared[row[:, 0], pick[:, k]], horizon)
        for i in np.flatnonzero(rival <= limit * (1.0 + 1e-9)):
            every = self._within(Zs[i], float(np.sqrt(limit[i])))
            own = self.squared_to(every[None], Zs[i : i + 1])[0]
            order = np.lexsort((self.places.serial[every], own))[:k]
            chosen[i], near[i] = every[order], own[order]
        return chosen, near

    def _within(self, z: Array, radius: float) -> Ints:
        """All live slots within a hair more than the radius of z (d,)."""
        found: list[NDArray[np.int64]] = [np.array(self._tail, dtype=np.int64)]
        for block in self._blocks:
            at = np.array(block.tree.query_ball_point(z, radius * (1.0 + 1e-8)), dtype=np.int64)
            slots = block.slots[at]
            found.append(slots[self.places.serial[slots] == block.serials[at]])
        return np.concatenate(found)
