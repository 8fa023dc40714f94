"""The word that a station gives to the event-time merge of the others: how far it is, and what it has asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, final

from streamgp.wire.records import Progress

State: TypeAlias = Literal["busy", "idle", "gone"]

#: observations worked on at once: so many are a backlog, and the others hear so often how far it is worked off
BACKLOG, PROMISE_EVERY_S = 100, 0.1
#: questions that one promise names at most, before it is given all the same
MOST_CLAIMED = 256
#: how long an input must be empty before the station says that it is idle
IDLE_AFTER_S = 0.2


@final
class Promises:
    """What a station last promised, and when the next promise is due. Pure: the caller brings the time.

    A promise is given at once whenever others may wait for it. While a backlog is worked off nobody does for long, and
    each promise is a request to the broker: then there are ten a second.

    Examples
    --------
    >>> promises = Promises("A")
    >>> promises.asked("A:5:1")
    >>> promises.due(0.0, head_ms=None, last_ms=5, empty_since_s=None)
    Progress(v=1, station='A', time_ms=6, queries=('A:5:1',), state='busy')
    >>> promises.due(0.0, head_ms=None, last_ms=5, empty_since_s=None) is None
    True
    """

    def __init__(self, station: str) -> None:
        self._station = station
        self._asked: list[str] = []
        self._told: tuple[int | None, str] | None = None
        self._told_at_s: float | None = None
        self._backlog = False

    def asked(self, query_id: str) -> None:
        """The station has asked this; the next promise names it."""
        self._asked.append(query_id)

    def worked(self, count: int, *, more: bool) -> None:
        """So many observations were worked on since the last look at the input, and there may be more."""
        self._backlog = more or count >= BACKLOG

    def due(
        self, now_s: float, *, head_ms: int | None, last_ms: int | None, empty_since_s: float | None
    ) -> Progress | None:
        """The promise to give now, if one is due.

        Parameters
        ----------
        now_s
            The caller's time.
        head_ms, last_ms
            Event times of the observation to be learned next, where it is here, and of the last one learned.
        empty_since_s
            Since when the input has been empty, if it is.
        """
        if now_s < self._due_s() and len(self._asked) < MOST_CLAIMED:
            return None
        self._told_at_s = now_s
        told = self._told and self._told[0]
        if head_ms is not None:
            return self.promise(head_ms, "busy")
        if last_ms is not None and (told is None or told < last_ms):
            return self.promise(last_ms + 1, "busy")  # learned as soon as it was read: the others wait for this word
        if empty_since_s is not None and now_s - empty_since_s >= IDLE_AFTER_S:
            return self.promise(None if last_ms is None else last_ms + 1, "idle")
        return None

    def promise(self, time_ms: int | None, state: State) -> Progress | None:
        """This word, unless it was the last one given."""
        if self._told == (time_ms, state):
            return None
        self._told = (time_ms, state)
        queries = tuple(self._asked)
        self._asked.clear()
        return Progress(station=self._station, time_ms=time_ms, queries=queries, state=state)

    def wake_s(self, now_s: float, *, empty_since_s: float | None) -> float | None:
        """Seconds until a promise is due by time alone, where no observation waits; None if only a record can."""
        times = [self._due_s()] if self._backlog else []
        if empty_since_s is not None and (self._told is None or self._told[1] == "busy"):
            times.append(empty_since_s + IDLE_AFTER_S)
        return max(0.0, min(times) - now_s) if times else None

    def _due_s(self) -> float:
        return self._told_at_s + PROMISE_EVERY_S if self._backlog and self._told_at_s is not None else 0.0

    # -- the state

    def state(self) -> dict[str, Any]:
        """Plain values."""
        told = None if self._told is None else list(self._told)
        return {"asked": list(self._asked), "told": told, "pace": [self._told_at_s, self._backlog]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self._asked = list(state["asked"])
        self._told = None if state["told"] is None else (state["told"][0], state["told"][1])
        self._told_at_s, self._backlog = state["pace"]
