"""What the readings were, as far as the cloud can tell: from a station's error and its own forecast before."""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from msgspec import UNSET

from streamgp.gp.gaussian import Array
from streamgp.roles.plain import restoring
from streamgp.roles.window import Closed
from streamgp.wire.records import Query

VERSION = 2
#: target times of stations that may wait for their truth
REMEMBERED = 50_000


@final
class Truths:
    """Puts together a station's innovation and its own earlier answer: ``y = mean + innovation * deviation``.

    A query of event time t carries the standardised error of the station's own forecast for t, the one as many steps
    ahead as this query's; the cloud has that forecast, the station's answer to its own earlier question. The result is
    as good as the station is honest: one that lies spoils its own truths and no one else's.

    Examples
    --------
    >>> from streamgp.wire.records import Prediction
    >>> asked = Query(id="A:1", station="A", time_ms=1, target_ms=2, points=((0.0,),))
    >>> own = Prediction(query_id="A:1", agent="A", time_ms=1, mean=(5.0,), variance=(3.0,), noise_variance=(1.0,),
    ...                  learned=9)
    >>> truths = Truths()
    >>> truths.answered(Closed(asked, {"A": own}, ()))
    >>> truths.heard(Query(id="A:2", station="A", time_ms=2, target_ms=3, points=((0.0,),), innovation=0.5))
    >>> truths.up_to(1), [(q, y.tolist()) for q, y in truths.up_to(2)]
    ([], [('A:1', [6.0])])
    """

    def __init__(self) -> None:
        self._own: OrderedDict[tuple[str, int], list[tuple[int, str, float, float]]] = OrderedDict()
        self._told: list[tuple[int, str, int, float]] = []

    def answered(self, closed: Closed) -> None:
        """A window closed: its asker's own answer is what its next error will be about."""
        query = closed.query
        if query.station is None or len(query.points) != 1:
            return
        own = closed.answers.get(query.station)
        if own is None or own.abstained is not UNSET or len(own.mean) != 1 or len(own.noise_variance) != 1:
            return
        total = own.variance[0] + own.noise_variance[0]
        if not 0 < total < math.inf:
            return
        row = (query.time_ms, query.id, own.mean[0], math.sqrt(total))
        self._own.setdefault((query.station, query.target_ms), []).append(row)
        if len(self._own) > REMEMBERED:
            self._own.popitem(last=False)

    def heard(self, query: Query) -> None:
        """A query was read; its innovation is a truth to come."""
        if query.station is not None and query.innovation is not None:
            lead_ms = query.target_ms - query.time_ms
            heapq.heappush(self._told, (query.time_ms, query.station, lead_ms, query.innovation))
            if len(self._told) > REMEMBERED:
                heapq.heappop(self._told)

    def up_to(self, time_ms: int) -> list[tuple[str, Array]]:
        """Query ids and their truths (1,), for readings up to this event time, in the order of time and station."""
        known = []
        while self._told and self._told[0][0] <= time_ms:
            at, station, lead_ms, innovation = heapq.heappop(self._told)
            rows = self._own.pop((station, at), [])
            if rows:
                _, _, mean, deviation = min(rows, key=lambda row: (abs(at - row[0] - lead_ms), -row[0], row[1]))
                known += [(query_id, np.array([mean + innovation * deviation])) for _, query_id, _, _ in sorted(rows)]
        return known

    def state(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "v": VERSION,
            "own": [[station, at, [list(r) for r in rows]] for (station, at), rows in self._own.items()],
            "told": [list(t) for t in self._told],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        with restoring("truths", state, VERSION):
            self._own = OrderedDict(
                ((station, at), [(t, q, m, d) for t, q, m, d in rows]) for station, at, rows in state["own"]
            )
            self._told = [(t, station, lead, e) for t, station, lead, e in state["told"]]
