"""The scorer: holds every forecast against the truth once it comes, per station and method."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any, final

from streamgp.errors import DecodeError
from streamgp.roles.addresses import Addresses, Silent
from streamgp.roles.agent import scalar
from streamgp.roles.door import Door, Refused
from streamgp.roles.kept_settings import of_door, tell
from streamgp.roles.outbox import Outbox
from streamgp.roles.plain import offsets_in, offsets_out, restoring
from streamgp.roles.scoring import Belief, Pending, StationTruth, score
from streamgp.roles.settings import ScorerSettings, Settings
from streamgp.wire.codec import decode
from streamgp.wire.log import Message, Outgoing, Partition
from streamgp.wire.records import Forecast, Observation, Query, Score, StationForecast

__all__ = ["METHODS", "ScorerRole", "score"]

log = logging.getLogger("streamgp.scorer")

METHODS = ("persistence", "local", "cloud_untrimmed", "cloud_trimmed", "network", "chosen")
VERSION = 1


@final
class ScorerRole:
    """The scorer between a reader and a writer (see :class:`streamgp.roles.loop.Role`).

    Inputs: ``observations``, ``queries``, ``forecasts`` and ``station-forecasts``; outputs: ``scores`` and
    ``dead-letter``. A score does not depend on the order in which its parts arrive: each needs the question, the
    forecast and the truth, whichever comes last.

    It alone reads the observations whole, so what is addressed to no agent is its to refuse
    (:mod:`streamgp.roles.addresses`).
    """

    def __init__(self, settings: Settings) -> None:
        self.counts: Counter[str] = Counter()
        self._settings = settings
        self._door = Door(settings.door_settings())
        self._addresses = Addresses(settings)
        self._silent = Silent() if settings.agent.horizons and not settings.stations else None
        self._asking: set[str] = set()  # stations of which an agent was heard
        self._stations: dict[str, StationTruth] = {}
        self._by_query: OrderedDict[str, Pending] = OrderedDict()
        self._early: OrderedDict[str, dict[str, Belief]] = OrderedDict()
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
                self._read(message, self._settings.suffix(message.topic), now_s)
            except (DecodeError, ValueError) as error:
                self._refuse(message, error)

    def _read(self, message: Message, suffix: str, now_s: float) -> None:
        if suffix == "observations":
            self._admit(decode(message.value, Observation), message, now_s)
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

    def _admit(self, observation: Observation, message: Message, now_s: float) -> None:
        """What the station's agent refuses is no truth; the dead letter of what it reads is the agent's to write."""
        heard = observation.station in self._asking
        fault = self._addresses.fault(message, observation.station, heard=heard)
        if fault is not None:
            if self._has_agent(message.key) and self._addresses.reached(message):
                self.counts["no truth: another's key"] += 1
            else:
                self._out.refuse(message, fault.text, fault.field)
            return
        verdict = self._door.check(observation, int(message.timestamp_ms))
        if isinstance(verdict, Refused):
            self.counts[f"no truth: {verdict.reason}"] += 1
        else:
            self._observe(verdict.observation, scalar(verdict.observation))
            if self._silent is not None and not heard:
                self._silent.reading(observation.station, now_s)

    def _has_agent(self, station: str | None) -> bool:
        """As far as it is known: named in the settings, or a station that has been heard of."""
        return station in self._settings.stations or station in self._stations

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
        self._asking.add(query.station)
        pending = Pending(query.station, query.id, query.target_ms, query.time_ms)
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

    def _prune(self, station: StationTruth) -> None:
        """Forget the oldest half of the targets whose truth never came, once there are too many."""
        if len(station.pending) > self._own.keep:
            for target_ms in sorted(station.pending)[: self._own.keep // 2]:
                self.counts["never scored: no truth came"] += len(station.pending.pop(target_ms))

    def _believe(self, query_id: str, method: str, belief: Belief) -> None:
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

    def _settle(self, pending: Pending, y: float) -> None:
        station = self._station(pending.station)
        persistence = station.persistence.get(pending.asked_ms)
        if persistence is not None and "persistence" not in pending.beliefs:
            pending.beliefs["persistence"] = (*persistence, 0.0)
        for method, belief in pending.beliefs.items():
            self._publish(pending, method, belief, y)

    def _publish(self, pending: Pending, method: str, belief: Belief, y: float) -> None:
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

    def _station(self, name: str) -> StationTruth:
        station = self._stations.get(name)
        if station is None:
            station = self._stations[name] = StationTruth(self._own.keep)
        return station

    # -- the Role protocol

    def sized(self, sizes: Mapping[str, int]) -> None:
        """Say how many partitions the topics have; see :class:`streamgp.roles.addresses.ReadsWhole`."""
        self._addresses.sized(sizes)

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
                Pending(station, query_id, target_ms, asked_ms, scale, _beliefs(beliefs))
                for station, query_id, target_ms, asked_ms, scale, beliefs in state["table"]
            ]
            self._by_query = OrderedDict((table[i].query_id, table[i]) for i in state["by_query"])
            self._early = OrderedDict((query_id, _beliefs(beliefs)) for query_id, beliefs in state["early"])
            self._stations = {}
            self._asking = {pending.station for pending in table}
            for name, fields in state["stations"].items():
                self._station(name).restore(fields, table)
            self._next = offsets_in(state["next"])
            self.counts.clear()
            self.counts.update(state["counts"])
            tell("scorer", of_door(self._settings, state["door"]))

    def _refuse(self, message: Message, error: Exception) -> None:
        reason, field = (error.reason, error.field) if isinstance(error, DecodeError) else (str(error), "y")
        self._out.refuse(message, reason, field)


def _plain(beliefs: Mapping[str, Belief]) -> dict[str, list[float]]:
    return {method: list(belief) for method, belief in beliefs.items()}


def _beliefs(plain: Mapping[str, list[float]]) -> dict[str, Belief]:
    return {method: (mean, variance, noise) for method, (mean, variance, noise) in plain.items()}
