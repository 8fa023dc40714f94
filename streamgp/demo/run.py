"""Runs a plan: in this thread over the embedded log, or a thread a role over any other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from streamgp.demo.plan import Plan
from streamgp.demo.result import Result
from streamgp.demo.tally import Means, Tally
from streamgp.errors import LogError, StreamGPError
from streamgp.roles.cloud import CloudRole
from streamgp.roles.loop import Role, run, together
from streamgp.roles.scorer import METHODS, ScorerRole
from streamgp.roles.station import AgentRole
from streamgp.roles.wiring import Kind, agent_role, make_liar, subscriptions
from streamgp.wire.clock import ManualClock, SystemClock
from streamgp.wire.codec import encode
from streamgp.wire.log import Log, Outgoing
from streamgp.wire.memory import MemoryLog
from streamgp.wire.topics import topic_plan

#: first observations of a late station that its table is about, in ms
LATE_SPAN_MS = 120 * 86_400_000


class Network:
    """The roles of a plan: an agent a station, cloud, scorer and the tally."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.settings = msgspec.structs.replace(plan.settings, stations=plan.stations)
        self.liars = plan.liar_names()
        self.agents = {station: self._agent(station) for station in plan.stations}
        off = frozenset() if self.settings.network.enabled else frozenset({"network"})
        methods = tuple(m for m in METHODS if m not in off)
        self.tally = Tally(self.settings.prefix, liars=self.liars, methods=methods)
        self.roles: list[tuple[Kind, str | None, Role]] = [
            *(("agent", station, agent) for station, agent in self.agents.items()),
            ("cloud", None, CloudRole(self.settings)),
            ("scorer", None, ScorerRole(self.settings)),
            ("tally", None, self.tally),
        ]

    def _agent(self, station: str) -> AgentRole:
        if station not in self.liars:
            return agent_role(self.settings, station)
        liar = make_liar(
            self.plan.attack,
            station,
            seed=self.plan.seed,
            from_ms=self.plan.attack_from_ms(),
            accomplices=tuple(sorted(self.liars - {station})),
        )
        return agent_role(self.settings, station, liar=liar)

    def outgoing(self) -> list[Outgoing]:
        """The observations as the producers would send them."""
        topic = self.settings.observations_topic
        return [Outgoing(topic(o.station), o.station, encode(o)) for o in self.plan.sent()]

    def finished(self, sent: int) -> bool:
        """Whether every observation is learned or refused and every question concluded."""
        return all(a.resting for a in self.agents.values()) and sent == sum(a.handled for a in self.agents.values())


def run_embedded(plan: Plan, tick: Callable[[Tally], None], *, log: MemoryLog | None = None) -> Result:
    """The whole network in this thread over a :class:`MemoryLog` (a new one by default), without ever waiting."""
    network = Network(plan)
    log = log or MemoryLog()
    log.create_topics(topic_plan(network.settings.prefix, stations=network.settings.own_topics()))
    started = time.monotonic()
    log.writer().write(network.outgoing())
    together(
        [
            (role, log.reader(subscriptions(kind, network.settings, station=station)), log.writer())
            for kind, station, role in network.roles
        ],
        ManualClock(),
        after_round=lambda: tick(network.tally),
    )
    return _result(network, time.monotonic() - started)


def run_on_broker(plan: Plan, log: Log, tick: Callable[[Tally], None], *, patience_s: float = 120.0) -> Result:
    """The same over a broker: a thread a role, each with its own reader and writer; makes the topics.

    Raises
    ------
    LogError
        If the topics hold records already, a role stopped by itself, or nothing moved for ``patience_s``.
    """
    network = Network(plan)
    log.create_topics(topic_plan(network.settings.prefix, stations=network.settings.own_topics()))
    _check_empty(log, network)
    stop, failures = threading.Event(), []

    def work(kind: Kind, station: str | None, role: Role) -> None:
        try:
            reader = log.reader(subscriptions(kind, network.settings, station=station))
            run(role, reader, log.writer(), SystemClock(), stop)
        except StreamGPError as error:
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=work, args=role, name=f"{role[0]} {role[1] or ''}") for role in network.roles]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    try:
        records = network.outgoing()
        writer = log.writer()
        writer.write(records)
        writer.flush(120.0)
        writer.close()
        _watch(network, len(records), tick, stop, patience_s)
    finally:
        stop.set()
        for thread in threads:
            thread.join(15.0)
    if failures:
        raise failures[0]
    return _result(network, time.monotonic() - started)


def _check_empty(log: Log, network: Network) -> None:
    """Records of another run under the same prefix would be taken for this one's."""
    reader = log.reader(subscriptions("agent", network.settings))
    used = sorted({topic for (topic, _), end in reader.ends().items() if end > 0})
    reader.close()
    if used:
        raise LogError(f"{', '.join(used)} hold records already: choose another --prefix")


def _watch(
    network: Network, sent: int, tick: Callable[[Tally], None], stop: threading.Event, patience_s: float
) -> None:
    """Return when the network has finished and its last scores are read; raise if it stands still."""
    seen, moved_s = (-1, -1), time.monotonic()
    while not stop.wait(0.1):
        tick(network.tally)
        now = (sum(a.handled for a in network.agents.values()), network.tally.read)
        if now != seen:
            seen, moved_s = now, time.monotonic()
        still_s = time.monotonic() - moved_s
        if still_s > 3.0 and network.finished(sent):
            return
        if still_s > patience_s:
            raise LogError(f"nothing has moved for {patience_s:.0f} s; {now[0]} of {sent} observations were handled")


def _result(network: Network, seconds: float) -> Result:
    plan, tally = network.plan, network.tally
    return Result(
        dataset=plan.dataset,
        stations=list(plan.stations),
        liars=sorted(network.liars),
        attack=plan.attack if network.liars else None,
        seconds=seconds,
        observations=tally.observations,
        forecasts=tally.forecasts,
        trimmed=tally.trimmed(),
        methods={m: tally.means[m].as_dict() for m in tally.methods},
        late={station: _first_days(tally, station, since) for station, since in plan.late.items()},
        details=_details(network),
        tally=tally,
    )


def _details(network: Network) -> dict[str, Any]:
    plan = network.plan
    return {
        "seed": plan.seed,
        "attack_from_ms": plan.attack_from_ms() if network.liars else None,
        "scored": network.tally.means["local"].count,
    }


def _first_days(tally: Tally, station: str, since_ms: int) -> dict[str, dict[str, float | None]]:
    """Every method over what a late station asked in its first 120 days."""
    means = {m: Means() for m in tally.methods}
    for row in tally.rows[station]:
        if row["local"].target_ms < since_ms + LATE_SPAN_MS:
            for method, score in row.items():
                means[method].update(score)
    return {m: means[m].as_dict() for m in tally.methods}
