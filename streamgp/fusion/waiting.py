"""Innovations that came before their time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, final

Told = tuple[str, float | None]


@final
class Waiting:
    """Holds (station, innovation) pairs back until event time has come to their stamp.

    They come out by time, then horizon, then as they came in.

    Examples
    --------
    >>> waiting = Waiting()
    >>> waiting.put(2000, 1000, [("A", 0.5)])
    >>> waiting.put(1000, 1000, [("B", None), ("A", 0.1)])
    >>> list(waiting.due(1500)), list(waiting.due(1999))
    ([(1000, 1000, [('B', None), ('A', 0.1)])], [])
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, str, float | None]] = []
        self._came = 0

    def put(self, time_ms: int, horizon_ms: int, told: Sequence[Told]) -> None:
        """Keep what is stamped ``time_ms``."""
        for station, innovation in told:
            heapq.heappush(self._heap, (time_ms, horizon_ms, self._came, station, innovation))
            self._came += 1

    def due(self, time_ms: int) -> Iterator[tuple[int, int, list[Told]]]:
        """Take out what is stamped ``time_ms`` or earlier: time, horizon, pairs."""
        out = []
        while self._heap and self._heap[0][0] <= time_ms:
            out.append(heapq.heappop(self._heap))
        for (at_ms, horizon_ms), group in groupby(out, key=lambda entry: entry[:2]):
            yield at_ms, horizon_ms, [(station, innovation) for _, _, _, station, innovation in group]

    def state(self) -> list[list[Any]]:
        """All that waits, in the order in which it will come out."""
        return [[t, h, station, innovation] for t, h, _, station, innovation in sorted(self._heap)]

    def restore(self, state: Sequence[Sequence[Any]]) -> None:
        """Become what ``state`` describes."""
        self._heap, self._came = [], 0
        for t, h, station, innovation in state:
            self.put(int(t), int(h), [(str(station), None if innovation is None else float(innovation))])
