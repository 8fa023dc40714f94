"""Queries at fixed points: their neighbours are kept, and changed at constant cost an observation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.models.neighbour_model import NeighbourModel
from streamgp.models.places import Added, Ints


@final
class StandingQueries:
    """The papers' fixed test set Z*: the belief at points that are asked again and again.

    Equal to a fresh search at every moment. An observation costs one distance a point, whatever the number of
    observations; forgetting one costs a search for the points that it was a neighbour of.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp.models.nearest import NearestNeighborGP
    >>> model = NearestNeighborGP(n_neighbors=1, noise_variance=0.01, optimizer=None)
    >>> queries = model.fit([[0.0]], [5.0]).standing([[0.1], [0.9]])
    >>> _ = model.partial_fit([[1.0]], [2.0])
    >>> bool(np.all(queries.predict() == model.predict([[0.1], [0.9]])))
    True
    """

    def __init__(self, model: NeighbourModel, Z: Array, shaped: Callable[..., Any]) -> None:
        self._model = model
        self._Z = Z.copy()
        self._shaped = shaped
        self.search()
        model.standing.add(self)

    def search(self) -> None:
        """Find all neighbours anew."""
        index, places = self._model.index, self._model.places
        self._scaled = self._Z * index.scale
        k, m = self._model.n_neighbors, len(self._Z)
        self._filled = min(k, len(places))
        self._slots: Ints = np.full((m, k), -1, dtype=np.int64)
        self._squared = np.full((m, k), np.inf)
        if self._filled:
            slots = index.query(self._Z, k)[0]
            self._slots[:, : self._filled] = slots
            self._squared[:, : self._filled] = index.squared_to(slots, self._scaled)

    def follow(self, added: Added) -> None:
        """The model has learned an observation; its index knows already."""
        k = self._slots.shape[1]
        if len(self._model.places) < self._filled:
            self.search()
            return
        lost = np.flatnonzero((self._slots == added.gone).any(axis=1)) if added.gone >= 0 else np.zeros(0, np.int64)
        if added.new and self._filled < k and not len(lost):
            self._slots[:, self._filled], self._squared[:, self._filled] = added.slot, self._distances(added.slot)
            self._filled += 1
        elif added.new and len(lost) < len(self._Z):
            squared = self._distances(added.slot)
            # at equal distance the one that came first stays
            rows = np.flatnonzero(squared < self._squared.max(axis=1))
            if len(rows):
                self._replace_farthest(rows, added.slot, squared[rows])
        if len(lost):
            index, f = self._model.index, self._filled
            slots = index.query(self._Z[lost], k)[0]
            self._slots[lost, :f], self._squared[lost, :f] = slots, index.squared_to(slots, self._scaled[lost])

    def _distances(self, slot: int) -> Array:
        column = np.full((len(self._Z), 1), slot, dtype=np.int64)
        return self._model.index.squared_to(column, self._scaled)[:, 0]

    def _replace_farthest(self, rows: Ints, slot: int, squared: Array) -> None:
        """Of several farthest the one that came last goes."""
        near, serial = self._squared[rows], self._model.places.serial[self._slots[rows]]
        farthest = near == near.max(axis=1)[:, None]
        at = np.argmax(np.where(farthest, serial, -1), axis=1)
        self._slots[rows, at], self._squared[rows, at] = slot, squared

    @property
    def neighbours(self) -> Ints:
        """(m, k) slots of the neighbours now, in the order in which their places came."""
        slots = self._slots[:, : self._filled]
        order = np.argsort(self._model.places.serial[slots], axis=1)
        return np.take_along_axis(slots, order, axis=1)

    def predict(self, return_std: bool = False, latent: bool = False) -> Any:
        """As the estimator's ``predict`` at these points."""
        mean, variance = self._model.believe_given(self._Z, self.neighbours)
        return self._shaped(self._Z, mean, variance, return_std=return_std, latent=latent)
