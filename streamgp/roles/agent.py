"""The agent of one station: learns its own observations, asks, answers everybody, and chooses in the end."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from msgspec import UNSET, UnsetType

from streamgp.errors import CheckpointError
from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.station import StationModel
from streamgp.roles.choosing import Choosing
from streamgp.roles.plain import belief_in, belief_out, records_in, records_out, restoring
from streamgp.roles.settings import AgentSettings
from streamgp.wire.records import Forecast, Observation, Prediction, Query, Scale, StationForecast

_NOTHING = (np.zeros(0),) * 3

#: questions asked and not yet concluded that an agent remembers
REMEMBERED = 4096
#: standardised errors leave a station no larger than this
CLIP = 8.0
#: rows from which on a station's own estimate of its noise stands alone
GROWN = 250
VERSION = 2

#: a point farther out than this, in model units, is no question
FARTHEST = 1e100


@final
class Agent:
    """One station's agent as a pure step: records in, records out; order and time are the caller's work.

    Parameters
    ----------
    station
        The name that observations, queries and forecasts carry.
    model
        What the station believes.
    settings
        How it asks and chooses.

    Notes
    -----
    Algorithm 1 of the federated paper: line 4 is :meth:`learn`, line 5 :meth:`answer`, line 8 :meth:`conclude`.
    """

    def __init__(self, station: str, model: StationModel, settings: AgentSettings) -> None:
        self.station = station
        self.model = model
        self._settings = settings
        self._choosing = Choosing(settings.choice)
        self._asked: OrderedDict[str, tuple[Query, Gaussian]] = OrderedDict()
        self._standing: OrderedDict[tuple[int, int], tuple[float, float]] = OrderedDict()  # target, lead -> mean, std
        self._innovations: dict[int, float] = {}  # lead -> error of the forecast whose truth came last
        self._last_asked: str | UnsetType = UNSET

    @property
    def last_ms(self) -> int | None:
        """Event time of the last observation learned."""
        return self.model.last_ms

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here: plain values and arrays."""
        queries = [query for query, _ in self._asked.values()]
        return {
            "v": VERSION,
            "station": self.station,
            "model": self.model.state(),
            "asked": [records_out(queries), [belief_out(belief) for _, belief in self._asked.values()]],
            "standing": [[t, lead, mean, std] for (t, lead), (mean, std) in self._standing.items()],
            "choosing": self._choosing.state(),
            "innovations": [[lead, e] for lead, e in self._innovations.items()],
            "last_asked": None if isinstance(self._last_asked, UnsetType) else self._last_asked,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises
        ------
        CheckpointError
            If it is damaged, of another version or of another station.
        KeptSettingsError
            If it is of other features, or of another kind of model.
        """
        with restoring(f"agent {self.station}", state, VERSION):
            if state["station"] != self.station:
                raise CheckpointError(f"this is the state of station {state['station']!r}, not of {self.station!r}")
            values, beliefs = state["asked"]
            queries = records_in(values, Query)
            asked = {q.id: (q, belief_in(b)) for q, b in zip(queries, beliefs, strict=True)}
            self._standing = OrderedDict(((t, lead), (mean, std)) for t, lead, mean, std in state["standing"])
            self._choosing.restore(state["choosing"])
            self._innovations = dict(state["innovations"])
            self._last_asked = UNSET if state["last_asked"] is None else state["last_asked"]
            self._asked = OrderedDict(asked)
            self.model.restore(state["model"])

    def remembers(self, query_id: str) -> bool:
        """Whether this is a question of ours that is not concluded yet."""
        return query_id in self._asked

    # -- line 4: learn, then ask about the next target times

    def learn(self, observation: Observation) -> None:
        """Take in the station's next observation; if this raises, nothing has changed."""
        y, time_ms = observation.y, observation.time_ms
        if type(y) is not float:
            y = scalar(observation)
        self.model.observe(time_ms, observation.x, y)
        if self._settings.horizons:
            self._choosing.learned(time_ms, y)
        if self._innovations:
            self._innovations = {}
        if not self._standing:
            return
        for target_ms, lead in [key for key in self._standing if key[0] <= time_ms]:
            mean, std = self._standing.pop((target_ms, lead))
            if target_ms == time_ms:
                self._innovations[lead] = min(CLIP, max(-CLIP, (y - mean) / std))

    def ask(self) -> list[Query]:
        """Questions about the next target times as of the last observation; empty while rows are incomplete."""
        horizons = self._settings.horizons
        if not horizons:
            return []
        step, last_ms = self.model.step_ms, self.last_ms
        if step is None or last_ms is None:
            return []
        queries = []
        for horizon in horizons:
            target_ms = last_ms + horizon * step
            asked = self.model.ask(target_ms)
            if asked is None:
                continue
            row, mean, std = asked
            query = Query(
                id=f"{self.station}:{last_ms}:{horizon}",
                station=self.station,
                time_ms=last_ms,
                target_ms=target_ms,
                points=(tuple(row.tolist()),),
                scale=Scale(mean, std),
                innovation=self._innovations.get(target_ms - last_ms),
            )
            queries.append(query)
        if queries:
            self._last_asked = queries[-1].id
        return queries

    # -- line 5: answer

    def answer(self, queries: list[Query]) -> list[Prediction]:
        """Predictions for these questions, in order; one without numbers where the station has nothing to say."""
        reasons = [self._why_not(q) for q in queries]
        usable = [q for q, reason in zip(queries, reasons, strict=True) if reason is None]
        beliefs = iter(self._predict(usable))
        return [
            self._record(q, Gaussian(*_NOTHING), reason) if reason is not None else self._record(q, next(beliefs))
            for q, reason in zip(queries, reasons, strict=True)
        ]

    def _why_not(self, query: Query) -> str | None:
        if not query.points:
            return "no points"
        width = self.model.width
        if any(len(row) != width for row in query.points):
            return f"rows of {width} columns expected"
        if query.scale is not None and not query.scale.std > 0:
            return "scale.std must be positive"
        if query.station != self.station and not self.model.warm:
            return "warming up"
        return None

    def _predict(self, queries: list[Query]) -> list[Gaussian]:
        """One pass through the model for all rows; each query is then read in its own units."""
        if not queries:
            return []
        own = Scale(*self.model.scale)
        rows = np.array([row for q in queries for row in q.points], dtype=np.float64)
        wild = (np.abs(rows) > FARTHEST).any(axis=1) if rows.ndim == 2 else np.zeros(len(rows), dtype=bool)
        rows[wild] = 0.0  # their squares are no numbers: nobody answers them, and the others' answers stay
        belief = self.model.answer(rows)
        if wild.any():
            mean = np.where(wild, np.nan, belief.mean)
            belief = Gaussian(mean, belief.variance, belief.noise_variance)
        out, at = [], 0
        for q in queries:
            scale, cut = q.scale or own, slice(at, at := at + len(q.points))
            part = Gaussian(belief.mean[cut], belief.variance[cut], belief.noise_variance[cut])
            out.append(part.rescaled(shift=scale.mean, scale=scale.std))
            if q.station == self.station:
                self._remember(q, out[-1])
        return out

    def _remember(self, query: Query, belief: Gaussian) -> None:
        self._asked[query.id] = (query, belief)
        if len(self._asked) > REMEMBERED:
            self._asked.popitem(last=False)
        key = (query.target_ms, query.target_ms - query.time_ms)
        mean, std = float(belief.mean[0]), float(np.sqrt(belief.total[0]))
        if not (math.isfinite(mean) and 0.0 < std < math.inf):
            return
        self._standing[key] = (mean, std)
        if len(self._standing) > REMEMBERED:
            self._standing.popitem(last=False)

    def _record(self, query: Query, belief: Gaussian, reason: str | None = None) -> Prediction:
        mean, variance, noise = _row(belief.mean), _row(belief.variance), _row(belief.noise_variance)
        if not all(map(math.isfinite, (*mean, *variance, *noise))):
            mean, variance, noise, reason = (), (), (), "not finite"
        return Prediction(
            query_id=query.id,
            agent=self.station,
            time_ms=query.time_ms if self.last_ms is None else self.last_ms,
            mean=mean,
            variance=variance,
            noise_variance=noise,
            learned=self.model.learned,
            abstained=UNSET if reason is None else reason,
            asked=self._last_asked,
        )

    # -- line 8: choose

    def conclude(self, forecast: Forecast) -> StationForecast | None:
        """The station's own forecast, given the cloud's; None if it did not ask, or concluded already."""
        asked = self._asked.pop(forecast.query_id, None)
        if asked is None or forecast.station != self.station:
            return None
        query, local = asked
        cloud = _cloud(forecast, m=len(local.mean))
        mask, choice = self._choosing.pick(local, cloud, time_ms=query.time_ms)
        self._choosing.concluded(query.target_ms, local, cloud)
        mean = np.where(mask, (cloud or local).mean, local.mean)
        variance = np.where(mask, (cloud or local).variance, local.variance)
        noise = local.noise_variance  # of y, the station's own; while that rests on little, no less than the others'
        if cloud is not None and self.model.learned < GROWN:
            noise = np.maximum(noise, cloud.noise_variance)
        best = Gaussian(mean, variance, noise)
        network = _network(forecast, m=len(local.mean))
        scale = query.scale.std if query.scale is not None and query.scale.std > 0 else 1.0
        if network is not None and self._choosing.prefers_network(
            query.time_ms, query.target_ms, usual=best, network=network, scale=scale
        ):
            best, mask, choice = network, np.ones_like(mask), "network"
        return StationForecast(
            query_id=query.id,
            station=self.station,
            time_ms=query.time_ms,
            target_ms=query.target_ms,
            mean=_row(best.mean),
            variance=_row(best.variance),
            noise_variance=_row(best.noise_variance),
            kept=forecast.kept,
            trimmed=forecast.trimmed,
            missing=forecast.missing,
            status=forecast.status,
            source=tuple("cloud" if used else "local" for used in mask),
            choice=choice,
            local_mean=_row(local.mean),
            local_variance=_row(local.variance),
            local_noise_variance=_row(local.noise_variance),
            learned_ms=query.time_ms,
        )

    def alone(self, query_id: str) -> StationForecast | None:
        """The station's forecast when the cloud's never came."""
        asked = self._asked.get(query_id)
        if asked is None:
            return None
        query, local = asked
        nothing = Forecast(
            query_id=query.id,
            station=self.station,
            time_ms=query.time_ms,
            target_ms=query.target_ms,
            mean=None,
            variance=None,
            noise_variance=None,
            kept=(0,) * len(local.mean),
            trimmed=(),
            missing=(),
            status="no_quorum",
        )
        return self.conclude(nothing)


def scalar(observation: Observation) -> float:
    """The one output that an agent learns.

    Raises
    ------
    ValueError
        If the record holds several outputs, or null.
    """
    y = observation.y
    if isinstance(y, tuple):
        if len(y) != 1 or y[0] is None:
            raise ValueError(f"y has {len(y)} outputs, or null; an agent learns one number")
        return y[0]
    return float(y)


def _cloud(forecast: Forecast, *, m: int) -> Gaussian | None:
    """The cloud's answer, if it can be used: not without a quorum, nor when more lie than the cut stands."""
    arrays = (forecast.mean, forecast.variance, forecast.noise_variance)
    if forecast.status != "ok" or any(a is None or len(a) != m for a in arrays):
        return None
    return Gaussian(*(np.asarray(a) for a in arrays))


def _network(forecast: Forecast, *, m: int) -> Gaussian | None:
    """The network's forecast, if there is one; it needs no quorum."""
    arrays = (forecast.network_mean, forecast.network_variance, forecast.network_noise_variance)
    if any(a is None or len(a) != m for a in arrays):
        return None
    return Gaussian(*(np.asarray(a) for a in arrays))


def _row(values: Array) -> tuple[float, ...]:
    return tuple(values.tolist())
