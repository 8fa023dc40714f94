"""The scorer: holds every forecast against the truth once it comes, per station and method."""

from __future__ import annotations

import logging
import math
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from river import stats
from scipy.special import ndtri

from streamgp.errors import DecodeError
from streamgp.roles.agent import scalar
from streamgp.roles.door import Door, Refused
from streamgp.roles.outbox import Outbox
from streamgp.roles.plain import offsets_in, offsets_out, restoring
from streamgp.roles.settings import ScorerSettings, Settings
from streamgp.wire.codec import decode
from streamgp.wire.log import Message, Outgoing, Partition
from streamgp.wire.records import Forecast, Observation, Query, Score, StationForecast

log = logging.getLogger("streamgp.scorer")

METHODS = ("persistence", "local", "cloud_untrimmed", "cloud_trimmed", "network", "chosen")
_SQRT_PI = math.sqrt(math.pi)
VERSION = 1


def score(
    mean: float, variance: float, noise_variance: float, y: float, *, band: float = 0.9
) -> tuple[float, float, float, bool]:
    """Error, negative log predictive density (nats), CRPS (units of y) and coverage of a Gaussian forecast of y.

    The CRPS is the closed form of Gneiting and Raftery (2007), equation (21).

    Examples
    --------
    >>> error, nlpd, crps, covered = score(0.0, 0.75, 0.25, 1.0)
    >>> error, round(nlpd, 4), round(crps, 4), covered
    (-1.0, 1.4189, 0.6024, True)
    """
    total = variance + noise_variance
    std = math.sqrt(total)
    z = (y - mean) / std
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    cdf = 0.5 * math.erfc(-z / math.sqrt(2))
    nlpd = 0.5 * (math.log(2 * math.pi * total) + z * z)
    crps = std * (z * (2 * cdf - 1) + 2 * density - 1 / _SQRT_PI)
    return mean - y, nlpd, crps, abs(z) <= float(ndtri(0.5 + band / 2))


@dataclass(slots=True)
class _Pending:
    """Forecasts of one station for one target time, waiting for the truth."""

    station: str
    query_id: str
    target_ms: int
    asked_ms: int
    scale: float | None = None
    beliefs: dict[str, tuple[float, float, float]] = field(default_factory=dict)


@final
class _Station:
    """One station's truth so far: what persistence would say, and the values still needed."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.truth: OrderedDict[int, float] = OrderedDict()
        self.persistence: OrderedDict[int, tuple[float, float]] = OrderedDict()
        self.pending: dict[int, list[_Pending]] = {}
        self._steps = stats.Var()
        self._last: float | None = None
        self._last_ms = 0

    def observe(self, time_ms: int, y: float) -> bool:
        """False if the time was seen before."""
        if time_ms in self.truth or (self._last is not None and time_ms <= self._last_ms):
            return False
        if self._last is not None:
            self._steps.update(y - self._last)
        self._last, self._last_ms = y, time_ms
        self.truth[time_ms] = y
        if self._steps.n > 1 and self._steps.get() > 0:
            self.persistence[time_ms] = (y, float(self._steps.get()))
        for table in (self.truth, self.persistence):
            if len(table) > self.keep:
                table.popitem(last=False)
        return True

    def state(self, number: Mapping[int, int]) -> dict[str, Any]:
        """``number`` gives each pending forecast's place in the table that the role writes."""
        spread = self._steps
        return {
            "truth": [list(row) for row in self.truth.items()],
            "persistence": [[time_ms, *row] for time_ms, row in self.persistence.items()],
            "pending": [[target_ms, [number[id(p)] for p in ps]] for target_ms, ps in self.pending.items()],
            "steps": [spread.mean.n, spread.mean.get(), spread._S],
            "last": [self._last, self._last_ms],
        }

    def restore(self, state: Mapping[str, Any], table: list[_Pending]) -> None:
        self.truth = OrderedDict((time_ms, y) for time_ms, y in state["truth"])
        self.persistence = OrderedDict((time_ms, (y, var)) for time_ms, y, var in state["persistence"])
        self.pending = {target_ms: [table[i] for i in places] for target_ms, places in state["pending"]}
        n, mean, self._steps._S = state["steps"]
        self._steps.mean = stats.Mean._from_state(n, mean)
        self._last, self._last_ms = state["last"]


@final
class ScorerRole:
    """The scorer between a reader and a writer (see :class:`streamgp.roles.loop.Role`).

    Inputs: ``observations``, ``queries``, ``forecasts`` and ``station-forecasts``; output: ``scores``. A score
    does not depend on the order in which its parts arrive: each needs the question, the forecast and the truth,
    whichever comes last.
    """

    def __init__(self, settings: Settings) -> None:
        self.counts: Counter[str] = Counter()
        self._settings = settings
        self._door = Door(settings.door_settings())
        self._stations: dict[str, _Station] = {}
        self._by_query: OrderedDict[str, _Pending] = OrderedDict()
        self._early: OrderedDict[str, dict[str, tuple[float, float, float]]] = OrderedDict()
        self._next: dict[Partition, int] = {}
        self._out = Outbox(settings, self.counts, log=log)

    @property
    def _own(self) -> ScorerSettings:
        return self._settings.scorer

    def start(self, now_s: float) -> list[Outgoing]:
        return []

    def feed(self, messages: list[Message], now_s: float) -> None:
        for message in messages:
            at = (message.topic, message.partition)
            if message.offset < self._next.get(at, 0):
                self.counts["read twice"] += 1
                continue
            self._next[at] = message.offset + 1
            try:
                self._read(message, self._settings.suffix(message.topic))
            except (DecodeError, ValueError) as error:
                self._refuse(message, error)

    def _read(self, message: Message, suffix: str) -> None:
        if suffix == "observations":
            self._admit(decode(message.value, Observation), message)
        elif suffix == "queries":
            self._ask(decode(message.value, Query))
        elif suffix == "forecasts":
            f = decode(message.value, Forecast)
            if f.station is not None and len(f.kept) == 1:
                self._take_forecast(f)
        elif suffix == "station-forecasts":
            s = decode(message.value, StationForecast)
            if len(s.mean) == len(s.local_mean) == 1:
                self._believe(s.query_id, "chosen", (s.mean[0], s.variance[0], s.noise_variance[0]))
                local = (s.local_mean[0], s.local_variance[0], s.local_noise_variance[0])
                self._believe(s.query_id, "local", local)

    def _admit(self, observation: Observation, message: Message) -> None:
        """What the station's agent refuses is no truth; the dead letter is the agent's to write."""
        if message.key != observation.station:
            self.counts["no truth: another's key"] += 1
            return
        verdict = self._door.check(observation, int(message.timestamp_ms))
        if isinstance(verdict, Refused):
            self.counts[f"no truth: {verdict.reason}"] += 1
        else:
            self._observe(verdict.observation, scalar(verdict.observation))

    def _take_forecast(self, f: Forecast) -> None:
        if f.mean and f.variance and f.noise_variance:
            self._believe(f.query_id, "cloud_trimmed", (f.mean[0], f.variance[0], f.noise_variance[0]))
        if f.untrimmed_mean and f.untrimmed_variance and f.untrimmed_noise_variance:
            plain = (f.untrimmed_mean[0], f.untrimmed_variance[0], f.untrimmed_noise_variance[0])
            self._believe(f.query_id, "cloud_untrimmed", plain)
        if f.network_mean and f.network_variance and f.network_noise_variance:
            network = (f.network_mean[0], f.network_variance[0], f.network_noise_variance[0])
            self._believe(f.query_id, "network", network)

    # -- three things that must meet: question, belief, truth

    def _observe(self, observation: Observation, y: float) -> None:
        station = self._station(observation.station)
        if not station.observe(observation.time_ms, y):
            self.counts["observation twice or late"] += 1
            return
        for pending in station.pending.pop(observation.time_ms, []):
            self._settle(pending, y)

    def _ask(self, query: Query) -> None:
        if query.station is None or len(query.points) != 1 or query.id in self._by_query:
            return
        station = self._station(query.station)
        pending = _Pending(query.station, query.id, query.target_ms, query.time_ms)
        pending.scale = None if query.scale is None else query.scale.std
        pending.beliefs.update(self._early.pop(query.id, {}))
        self._by_query[query.id] = pending
        if len(self._by_query) > self._own.keep * max(1, len(self._stations)):
            self._by_query.popitem(last=False)
        y = station.truth.get(query.target_ms)
        if y is None:
            station.pending.setdefault(query.target_ms, []).append(pending)
            self._prune(station)
        else:
            self._settle(pending, y)

    def _prune(self, station: _Station) -> None:
        """Forget the oldest half of the targets whose truth never came, once there are too many."""
        if len(station.pending) > self._own.keep:
            for target_ms in sorted(station.pending)[: self._own.keep // 2]:
                self.counts["never scored: no truth came"] += len(station.pending.pop(target_ms))

    def _believe(self, query_id: str, method: str, belief: tuple[float, float, float]) -> None:
        pending = self._by_query.get(query_id)
        if pending is None:
            self._early.setdefault(query_id, {}).setdefault(method, belief)
            if len(self._early) > self._own.keep * max(1, len(self._stations)):
                self._early.popitem(last=False)
            return
        if method in pending.beliefs:
            self.counts["forecast twice"] += 1
            return
        pending.beliefs[method] = belief
        y = self._station(pending.station).truth.get(pending.target_ms)
        if y is not None:
            self._publish(pending, method, belief, y)

    def _settle(self, pending: _Pending, y: float) -> None:
        station = self._station(pending.station)
        persistence = station.persistence.get(pending.asked_ms)
        if persistence is not None and "persistence" not in pending.beliefs:
            pending.beliefs["persistence"] = (*persistence, 0.0)
        for method, belief in pending.beliefs.items():
            self._publish(pending, method, belief, y)

    def _publish(self, pending: _Pending, method: str, belief: tuple[float, float, float], y: float) -> None:
        mean, variance, noise = belief
        if not variance + noise > 0:
            self.counts["not scored: no variance"] += 1
            return
        error, nlpd, crps, covered = score(mean, variance, noise, y, band=self._own.band)
        record = Score(
            station=pending.station,
            query_id=pending.query_id,
            target_ms=pending.target_ms,
            method=method,
            y=y,
            mean=mean,
            variance=variance,
            noise_variance=noise,
            error=error,
            nlpd=nlpd,
            crps=crps,
            covered=covered,
            scale=pending.scale,
        )
        if self._out.write("scores", pending.station, record):
            self.counts[f"scored: {method}"] += 1

    def _station(self, name: str) -> _Station:
        station = self._stations.get(name)
        if station is None:
            station = self._stations[name] = _Station(self._own.keep)
        return station

    # -- the Role protocol

    def drain(self, now_s: float) -> list[Outgoing]:
        return self._out.take()

    def wake_s(self, now_s: float) -> float | None:
        return None

    def full(self) -> frozenset[str]:
        return frozenset()

    def done(self) -> dict[Partition, int]:
        return dict(self._next)

    def stop(self, now_s: float) -> list[Outgoing]:
        return []

    def vitals(self) -> dict[str, float]:
        """What health tells of the scorer."""
        return {"unscored": float(len(self._by_query)), "stations": float(len(self._stations))}

    # -- the state

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        waiting = [p for s in self._stations.values() for ps in s.pending.values() for p in ps]
        table = list({id(p): p for p in (*self._by_query.values(), *waiting)}.values())
        number = {id(p): i for i, p in enumerate(table)}
        return {
            "v": VERSION,
            "door": self._door.state(),
            "table": [[p.station, p.query_id, p.target_ms, p.asked_ms, p.scale, _plain(p.beliefs)] for p in table],
            "by_query": [number[id(p)] for p in self._by_query.values()],
            "stations": {name: station.state(number) for name, station in self._stations.items()},
            "early": [[query_id, _plain(beliefs)] for query_id, beliefs in self._early.items()],
            "next": offsets_out(self._next),
            "counts": dict(self.counts),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; raises a CheckpointError if it is damaged or of another version."""
        with restoring("scorer", state, VERSION):
            self._door = Door.from_state(state["door"], self._settings.door_settings())
            table = [
                _Pending(station, query_id, target_ms, asked_ms, scale, _beliefs(beliefs))
                for station, query_id, target_ms, asked_ms, scale, beliefs in state["table"]
            ]
            self._by_query = OrderedDict((table[i].query_id, table[i]) for i in state["by_query"])
            self._early = OrderedDict((query_id, _beliefs(beliefs)) for query_id, beliefs in state["early"])
            self._stations = {}
            for name, fields in state["stations"].items():
                self._station(name).restore(fields, table)
            self._next = offsets_in(state["next"])
            self.counts.clear()
            self.counts.update(state["counts"])

    def _refuse(self, message: Message, error: Exception) -> None:
        reason, field = (error.reason, error.field) if isinstance(error, DecodeError) else (str(error), "y")
        self._out.refuse(message, reason, field)


def _plain(beliefs: Mapping[str, tuple[float, float, float]]) -> dict[str, list[float]]:
    return {method: list(belief) for method, belief in beliefs.items()}


def _beliefs(plain: Mapping[str, list[float]]) -> dict[str, tuple[float, float, float]]:
    return {method: (mean, variance, noise) for method, (mean, variance, noise) in plain.items()}
