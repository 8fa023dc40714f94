"""The network layer in the cloud: takes in errors in event-time order, and corrects what each asker said itself."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias, final

from msgspec import UNSET, structs

from streamgp.fusion.asked import Asked, Correction, known_places
from streamgp.fusion.network import NetworkLayer
from streamgp.roles.kept_settings import of_network, tell
from streamgp.roles.plain import restoring
from streamgp.roles.settings import NetworkSection
from streamgp.roles.window import Closed
from streamgp.wire.records import Forecast, Query

VERSION = 1
#: errors of event times ahead of the windows that may wait
REMEMBERED = 100_000
#: event time, lead, station, whether there is an error, the error
_Told: TypeAlias = tuple[int, int, str, bool, float]


@final
class Foretelling:
    """Feeds a :class:`~streamgp.fusion.network.NetworkLayer` from queries and windows.

    A query of event time t carries its station's last error. It is taken in when the first window of event time t or
    later is concluded; by then the queries of all stations up to t are known, since each had to answer. So every
    forecast is corrected by the same errors, in whatever order records came and over whatever log. What a deadline
    left out is taken in later and serves later forecasts.

    Examples
    --------
    >>> told = Foretelling(NetworkSection())
    >>> told.heard(Query(id="A:1", station="A", time_ms=1, target_ms=2, points=((0.0,),), innovation=0.5))
    >>> told.learn_up_to(0), told.learn_up_to(1), told.layer.stations
    (None, None, ['A'])
    """

    def __init__(self, settings: NetworkSection) -> None:
        self._settings = settings
        self._told: list[_Told] = []
        self.layer = NetworkLayer(settings.learning(), coordinates=settings.places)

    def heard(self, query: Query) -> None:
        """A query was read; its error waits for its event time."""
        if not self._settings.enabled or query.station is None:
            return
        error = query.innovation
        lead_ms = query.target_ms - query.time_ms
        heapq.heappush(self._told, (query.time_ms, lead_ms, query.station, error is not None, error or 0.0))
        if len(self._told) > REMEMBERED:
            heapq.heappop(self._told)

    def learn_up_to(self, time_ms: int) -> None:
        """Take in the errors of this event time and before."""
        told: list[_Told] = []
        while self._told and self._told[0][0] <= time_ms:
            told.append(heapq.heappop(self._told))
        for (at_ms, lead_ms), errors in groupby(told, key=lambda t: t[:2]):
            known = [(station, error if there else None) for _, _, station, there, error in errors]
            admitted = self._admitted({station for station, _ in known})
            self.layer.hear(at_ms, [pair for pair in known if pair[0] in admitted], horizon_ms=lead_ms)
            self.layer.advance(at_ms)

    def _admitted(self, stations: set[str]) -> set[str]:
        """Those that are known, and as many new ones as there is room for: names are cheap, and memory is not."""
        new = sorted(s for s in stations if not self.layer.knows(s))
        room = max(0, self._settings.most_stations - len(self.layer.stations))
        return stations - set(new[room:])

    def corrected(self, windows: Sequence[Closed], forecasts: Sequence[Forecast]) -> list[Forecast]:
        """The forecasts of windows of one event time, with the network's beside the product where it can be made."""
        if not self._settings.enabled:
            return list(forecasts)
        asked: dict[int, Asked] = {}
        for i, (closed, forecast) in enumerate(zip(windows, forecasts, strict=True)):
            own = _own(closed, forecast)
            if own is not None:
                asked[i] = own
        admitted = self._admitted({a.station for a in asked.values()})
        asked = {i: a for i, a in asked.items() if a.station in admitted}
        told = list(forecasts)
        answers = self.layer.answer(windows[0].query.time_ms, list(asked.values())) if asked else []
        for i, answer in zip(asked, answers, strict=True):
            told[i] = _with(told[i], answer)
        return told

    def dropped(self) -> dict[str, list[str]]:
        """Station to those that leave it out at present."""
        return self.layer.dropped()

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return {"v": VERSION, "layer": self.layer.state(), "told": [list(t) for t in self._told]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        with restoring("network", state, VERSION):
            self.layer = NetworkLayer.from_state(dict(state["layer"]))
            tell("cloud", of_network(self._settings, state["layer"]))
            known = {name: at for name, at in self.layer.coordinates.items() if self.layer.knows(name)}
            said = known_places(self._settings.places)
            self.layer.coordinates = {n: at for n, at in said.items() if not self.layer.knows(n)} | known
            self._told = [(t, lead, station, there, error) for t, lead, station, there, error in state["told"]]


def _own(closed: Closed, forecast: Forecast) -> Asked | None:
    """What the asker answered itself; None where that is not one usable number."""
    query = closed.query
    if query.station is None or len(query.points) != 1 or query.station in forecast.refused:
        return None
    own = closed.answers.get(query.station)
    if own is None or own.abstained is not UNSET:
        return None
    return Asked(
        station=query.station,
        target_ms=query.target_ms,
        mean=own.mean[0],
        variance=own.variance[0],
        noise_variance=own.noise_variance[0],
        level=None if query.scale is None else query.scale.mean,
        spread=None if query.scale is None else query.scale.std,
        fused_mean=None if forecast.mean is None else forecast.mean[0],
    )


def _with(forecast: Forecast, answer: Correction) -> Forecast:
    return structs.replace(
        forecast,
        network_mean=(answer.mean,),
        network_variance=(answer.variance,),
        network_noise_variance=(answer.noise_variance,),
        network_silent=answer.silent,
        network_dropped=answer.dropped,
    )
