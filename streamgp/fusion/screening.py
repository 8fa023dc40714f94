"""Who may foretell whom: each station's candidates, their running cross-correlations, and the best of them."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamgp.fusion.table import Table
from streamgp.gp.gaussian import Array

Rows = NDArray[np.intp]

NOBODY = -1
_SHRINK = 30.0  # pairs behind a correlation that halve the pull towards zero
_LOYALTY = 1.25  # how much better a newcomer must correlate than the source it displaces


@final
class Screening:
    """For each row (target station) C candidates with running correlations, and the k sources chosen among them.

    Memory is linear in the stations: nobody keeps a correlation with everybody. While all others fit into C they
    all are candidates. In larger networks half of the places belong to the nearest stations (to the first comers
    where no coordinates are given) and the others are tried in turn: at each review the weaker half of those makes
    room for stations drawn from a sequence that row and review number fix.

    Parameters
    ----------
    n_candidates, n_sources
        C and k.
    forgetting
        Discount of the correlations per learned row.

    Examples
    --------
    >>> import numpy as np
    >>> screening = Screening(n_candidates=2, n_sources=1, forgetting=1.0)
    >>> screening.grow(3, coordinates=np.full((3, 2), np.nan))
    >>> for e in (1.0, -2.0, 0.5, 1.5):
    ...     screening.learn(np.array([0]), np.array([e]), np.array([[0.1, e]]))
    >>> screening.review(0, n_stations=3)
    [(0, 2)]
    >>> int(screening.sources[0, 0])
    2
    """

    def __init__(self, *, n_candidates: int, n_sources: int, forgetting: float) -> None:
        self.n_candidates = n_candidates
        self.n_sources = n_sources
        self.forgetting = forgetting
        self.table = Table(
            {
                "candidates": np.full(n_candidates, NOBODY, dtype=np.intp),
                "sources": np.full(n_sources, NOBODY, dtype=np.intp),
                "places": np.full(n_sources, NOBODY, dtype=np.intp),  # where among the candidates a source stands
                "sums": np.zeros((n_candidates, 4)),  # discounted pairs, e x, x^2, e^2
                "reviews": np.int64(0),
            }
        )

    @property
    def candidates(self) -> Rows:
        """(n, C) stations per row, -1 where a place is empty."""
        return self.table["candidates"]

    @property
    def sources(self) -> Rows:
        """(n, k) stations per row, -1 where a slot is empty."""
        return self.table["sources"]

    def grow(self, n: int, *, coordinates: Array) -> None:
        """Let stations up to n join, with their coordinates (n, 2), NaN where unknown."""
        old = self.table.n
        if n <= old:
            return
        self.table.grow(n)
        for row in self._concerned(old, coordinates[:n]):
            self._enlist(row, old if row < old else 0, n, coordinates)

    def _concerned(self, old: int, coordinates: Array) -> list[int]:
        """The rows that newcomers (rows from ``old`` on) may mean something to."""
        n = len(coordinates)
        gaps = (self.candidates[:old] == NOBODY).any(axis=-1)
        half = self.candidates[:old, : max(1, self.n_candidates // 2)]
        reach = np.max(_distance(coordinates[:old, None], coordinates[half]), axis=-1, initial=0.0)
        nearer = (_distance(coordinates[:old, None], coordinates[None, old:]) < reach[:, None]).any(axis=-1)
        placed = np.isfinite(coordinates[:old]).all(axis=-1)
        return [*np.flatnonzero(gaps | (placed & nearer)).tolist(), *range(old, n)]

    def _enlist(self, row: int, first: int, n: int, coordinates: Array) -> None:
        new = np.arange(first, n)
        new = new[new != row]
        gaps = np.flatnonzero(self.candidates[row] == NOBODY)
        if len(new) > len(gaps) and np.isfinite(coordinates[row]).all():
            new = new[np.argsort(_distance(coordinates[row], coordinates[new]), kind="stable")]
        self.candidates[row, gaps[: len(new)]] = new[: len(gaps)]
        left = new[len(gaps) :]
        if len(left) and np.isfinite(coordinates[row]).all():
            self._prefer_near(row, left, coordinates)
        self._fill_sources(row)

    def _prefer_near(self, row: int, left: Rows, coordinates: Array) -> None:
        """Nearer newcomers displace the farthest candidates among the near half, unless those are sources."""
        half = self.n_candidates // 2
        if half == 0:
            return
        away = _distance(coordinates[row], coordinates[self.candidates[row, :half]])
        away[np.isin(np.arange(half), self.table["places"][row])] = -1.0
        for new in left:
            worst = int(np.argmax(away))
            near = float(_distance(coordinates[row], coordinates[[new]])[0])
            if near < away[worst]:
                self._replace(row, worst, int(new))
                away[worst] = near

    def _replace(self, row: int, place: int, station: int) -> None:
        self.candidates[row, place] = station
        self.table["sums"][row, place] = 0.0

    def _fill_sources(self, row: int) -> None:
        for slot in np.flatnonzero(self.sources[row] == NOBODY):
            free = np.flatnonzero(
                (self.candidates[row] != NOBODY) & ~np.isin(np.arange(self.n_candidates), self.table["places"][row])
            )
            if len(free) == 0:
                return
            self.table["places"][row, slot] = free[0]
            self.sources[row, slot] = self.candidates[row, free[0]]

    def learn(self, rows: Rows, e: Array, x: Array) -> None:
        """Take in errors e (B,) with what the candidates had said before, x (B, C), NaN where they were silent."""
        heard = np.isfinite(x)
        x = np.where(heard, x, 0.0)
        e_heard = np.where(heard, e[:, None], 0.0)
        fresh = np.stack([heard.astype(np.float64), e_heard * x, x * x, e_heard * e_heard], axis=-1)
        self.table["sums"][rows] = self.forgetting * self.table["sums"][rows] + fresh

    def correlation(self, row: int) -> Array:
        """(C,) running correlations of the row's next error with its candidates' innovations, shrunk to zero."""
        pairs, exy, xx, ee = np.moveaxis(self.table["sums"][row], -1, 0)
        scale = np.sqrt(xx * ee)
        plain = np.divide(exy, scale, out=np.zeros_like(exy), where=scale > 0.0)
        return np.asarray(plain * pairs / (pairs + _SHRINK))

    def review(self, row: int, *, n_stations: int) -> list[tuple[int, int]]:
        """Choose the sources anew, and rotate the candidates of a large network; returns (slot, new source)."""
        strength = np.abs(self.correlation(row))
        strength[self.candidates[row] == NOBODY] = -1.0
        chosen = set(self.table["places"][row][self.table["places"][row] != NOBODY].tolist())
        outside = [c for c in np.argsort(-strength, kind="stable").tolist() if c not in chosen and strength[c] >= 0]
        changed: list[tuple[int, int]] = []
        inside = sorted(
            (slot for slot in range(self.n_sources) if self.table["places"][row, slot] != NOBODY),
            key=lambda slot: (strength[self.table["places"][row, slot]], slot),
        )
        for slot, newcomer in zip(inside, outside, strict=False):
            if strength[newcomer] <= _LOYALTY * strength[self.table["places"][row, slot]]:
                break
            self.table["places"][row, slot] = newcomer
            self.sources[row, slot] = self.candidates[row, newcomer]
            changed.append((slot, int(self.sources[row, slot])))
        self.table["reviews"][row] += 1
        if n_stations - 1 > self.n_candidates:
            self._rotate(row, strength, n_stations)
        return changed

    def _rotate(self, row: int, strength: Array, n_stations: int) -> None:
        half = self.n_candidates // 2
        trial = [c for c in range(half, self.n_candidates) if c not in self.table["places"][row]]
        trial.sort(key=lambda c: (strength[c], c))
        present = set(self.candidates[row].tolist()) | {row}
        rng = np.random.Generator(np.random.Philox(key=[row, int(self.table["reviews"][row])]))
        drawn = iter(rng.integers(0, n_stations, size=4 * self.n_candidates).tolist())
        for place in trial[: len(trial) // 2]:
            station = next((s for s in drawn if s not in present), NOBODY)
            if station == NOBODY:
                return
            present.add(station)
            self._replace(row, place, station)

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return self.table.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Become the screening that ``state`` describes."""
        self.table.restore(state)


def _distance(here: Array, there: Array) -> Array:
    """Distance on a sphere, up to a growing function, from (..., 2) latitude and longitude; infinite where unknown."""
    a, b = np.radians(here), np.radians(there)
    apart = b - a
    half = np.sin(0.5 * apart[..., 0]) ** 2 + np.cos(a[..., 0]) * np.cos(b[..., 0]) * np.sin(0.5 * apart[..., 1]) ** 2
    return np.where(np.isfinite(half), half, np.inf)
