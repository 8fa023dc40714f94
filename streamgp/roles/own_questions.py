"""A station's own questions, from when they are asked until the cloud has answered or their time is up."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, final

from streamgp.roles.agent import Agent
from streamgp.roles.plain import records_in, records_out
from streamgp.wire.records import Forecast, Query, StationForecast

#: forecasts kept that came before their question was asked
EARLY = 4096


@final
class OwnQuestions:
    """Which of the station's questions are open, since when, and what was answered before it was asked again.

    A predecessor may have asked what this process has yet to come to: its forecast waits here for that.

    Parameters
    ----------
    agent
        Remembers what was asked, and makes the station's forecast of it.
    wait_s
        After so long a question is given up: the station forecasts alone.
    """

    def __init__(self, agent: Agent, *, wait_s: float) -> None:
        self._agent = agent
        self._wait_s = wait_s
        self._prefix = f"{agent.station}:"
        self._open: OrderedDict[str, float] = OrderedDict()
        self._early: OrderedDict[str, Forecast] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def asked(self, queries: list[Query], now_s: float) -> list[StationForecast]:
        """They are open from now on; what is here already is told at once."""
        self._open.update((q.id, now_s) for q in queries if self._agent.remembers(q.id))
        early = [self._early.pop(q.id) for q in queries if q.id in self._early]
        return [told for forecast in early if (told := self._concluded(forecast)) is not None]

    def concerns(self, key: str) -> bool:
        """Whether a forecast of this key is worth reading."""
        return self._agent.remembers(key) or key.startswith(self._prefix)

    def heard(self, key: str, forecast: Forecast) -> StationForecast | None:
        """The cloud's forecast came; the station's own of it, if it is due."""
        if forecast.station != self._agent.station:
            return None
        if self._agent.remembers(key):
            return self._concluded(forecast)
        last_ms = self._agent.last_ms
        if last_ms is None or forecast.time_ms > last_ms:
            self._early.setdefault(forecast.query_id, forecast)
            if len(self._early) > EARLY:
                self._early.popitem(last=False)
        return None

    def _concluded(self, forecast: Forecast) -> StationForecast | None:
        self._open.pop(forecast.query_id, None)
        return self._agent.conclude(forecast)

    def overdue(self, now_s: float) -> list[StationForecast | None]:
        """What the station says alone of the questions whose time is up."""
        told: list[StationForecast | None] = []
        while (wait := self.wake_s(now_s)) is not None and wait <= 0.0:
            query_id, _ = self._open.popitem(last=False)
            told.append(self._agent.alone(query_id))
        return told

    def wake_s(self, now_s: float) -> float | None:
        """Seconds until the oldest question's time is up."""
        if not self._open:
            return None
        return max(0.0, next(iter(self._open.values())) + self._wait_s - now_s)

    # -- the state

    def state(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "open": [[query_id, asked_s] for query_id, asked_s in self._open.items()],
            "early": records_out(self._early.values()),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        asked: Iterable[Any] = state["open"]
        self._open = OrderedDict((query_id, asked_s) for query_id, asked_s in asked)
        self._early = OrderedDict((f.query_id, f) for f in records_in(state["early"], Forecast))
