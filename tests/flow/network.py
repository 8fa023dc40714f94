"""A whole network of kept roles over one log, driven step by step, that can be killed at any place."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from streamgp.roles.addresses import ReadsWhole
from streamgp.roles.cloud import CloudRole
from streamgp.roles.identity import make_gate
from streamgp.roles.kept import Kept, KeptRole, Place
from streamgp.roles.kinds import own_roles
from streamgp.roles.scorer import ScorerRole
from streamgp.roles.settings import AgentSettings, KeepSettings, ModelSettings, RowSettings, Settings
from streamgp.roles.station import AgentRole
from streamgp.roles.wiring import agent_role, subscriptions
from streamgp.wire.checkpoint import FolderStore, pack
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Log, Message, Outgoing, Subscription
from streamgp.wire.memory import MemoryLog, SimulatedCrash
from streamgp.wire.records import Forecast, Observation, Prediction, Query, StationForecast
from streamgp.wire.snapshot_topic import TopicStore
from streamgp.wire.topics import topic_plan

STATIONS = ("A", "B", "C")
HOUR = 3_600_000


def settings_of(**keep: float) -> Settings:
    return Settings(
        stations=STATIONS,
        agent=AgentSettings(settle_s=0.0),
        model=ModelSettings(warm_up=10),
        features=RowSettings(lags=(1, 2), averages=(), calendar=()),
        keep=KeepSettings(**{"commit_interval_s": 0.05, "snapshot_every_s": 0.4, **keep}),
    )


def observations(count: int) -> list[Observation]:
    return [
        Observation(station=s, time_ms=t * HOUR, y=math.sin(0.3 * t + i) + 0.1 * ((7 * t + 3 * i) % 5))
        for t in range(count)
        for i, s in enumerate(STATIONS)
    ]


class Crashing:
    """A log whose transactions end the process on demand, before or after they are committed."""

    def __init__(self, log: Log) -> None:
        self.inner = log
        self.crash: str | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def writer(self, *, transactional_id: str | None = None) -> object:
        return _Writer(self, self.inner.writer(transactional_id=transactional_id))


class Victims(Protocol):
    """Kept processes by name, and the log of each."""

    logs: dict[str, Crashing]
    kept: dict[str, Kept]

    def names(self) -> list[str]: ...

    def kill(self, name: str) -> None: ...


class Killer:
    """Kills one of them in a share of the rounds: between steps, within a transaction, or after it."""

    def __init__(self, victims: Victims, rng: random.Random, *, share: float, most: int = 30) -> None:
        self.kills = 0
        self._victims, self._rng, self._share, self._most = victims, rng, share, most

    def __call__(self, round_: int) -> None:
        if not round_ or self._rng.random() >= self._share or self.kills >= self._most:
            return
        self.kills += 1
        name, how = self._rng.choice(self._victims.names()), self._rng.choice(["between", "within", "after"])
        if how != "between":
            self._victims.logs[name].crash = how
        elif name in self._victims.kept:
            self._victims.kill(name)


class _Writer:
    def __init__(self, log: Crashing, inner: object) -> None:
        self._log = log
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    @contextmanager
    def transaction(self) -> Iterator[object]:
        with self._inner.transaction() as transaction:  # type: ignore[attr-defined]  # any writer
            yield transaction
            self._end("within")
        self._end("after")

    def _end(self, place: str) -> None:
        if self._log.crash == place:
            self._log.crash = None
            raise SimulatedCrash(place)


class Network:
    """Agents, cloud and scorer, each with a folder of its own; steps them in turn until nothing moves."""

    def __init__(self, folder: Path, settings: Settings, log: Log | None = None, *, state: str = "folder") -> None:
        self.folder = folder
        self.settings = settings
        self.clock = ManualClock(1_790_000_000_000)
        self.log = log or MemoryLog(clock=self.clock)
        self.log.create_topics(topic_plan(settings.prefix, partitions=2, roles=own_roles(settings)))
        self.logs = {name: Crashing(self.log) for name in self.names()}
        self.roles: dict[str, KeptRole] = {}
        self.kept: dict[str, Kept] = {}
        self.stores: dict[str, FolderStore | TopicStore] = {}
        self.state = state
        self.starts: Counter[str] = Counter()
        self.fresh: set[str] = set()

    def names(self) -> list[str]:
        return [*(f"agent.{s}" for s in STATIONS), "cloud", "scorer"]

    def role(self, name: str) -> tuple[KeptRole, str | None]:
        kind, _, station = name.partition(".")
        made: dict[str, Callable[[], KeptRole]] = {
            "agent": lambda: agent_role(self.settings, station),
            "cloud": lambda: CloudRole(self.settings),
            "scorer": lambda: ScorerRole(self.settings),
        }
        return made[kind](), station or None

    def start(self, name: str) -> None:
        role, station = self.role(name)
        kind = name.partition(".")[0]
        reads = tuple(subscriptions(kind, self.settings, station=station))  # type: ignore[arg-type]  # one of its kinds
        at_once = frozenset({self.settings.topic("queries"), self.settings.topic("progress")})
        self.roles[name] = role
        if isinstance(role, ReadsWhole):
            role.sized(self.log.topics())

        def store(write: Callable[[list[Outgoing]], None]) -> FolderStore | TopicStore:
            topic = self.settings.state_topic("snapshots", name)
            if self.state == "topic":
                self.stores[name] = TopicStore(self.log, topic, name, write=write, clock=self.clock)
            else:
                self.stores[name] = FolderStore(self.folder / name)
            return self.stores[name]

        self.kept[name] = Kept(
            role,
            Place(name, self.settings.prefix, reads, at_once, self.settings.state_topics == "per-role"),
            log=self.logs[name],  # type: ignore[arg-type]  # it passes everything on
            store=store,
            clock=self.clock,
            settings=self.settings.keep,
            gate=make_gate(self.settings, name, self.clock),
            fresh=name in self.fresh,
        )
        self.starts[name] += 1
        self.kept[name].recover()

    def kill(self, name: str) -> None:
        """As kill -9: nothing is said, nothing is written; the system lets go of the folder's lock."""
        self.stores[name].close()
        del self.kept[name]

    def step(self, name: str) -> bool:
        """One step; a role that ended in it starts again."""
        try:
            if name not in self.kept:
                self.start(name)
            return self.kept[name].step(0.0)
        except SimulatedCrash:
            self.kill(name)
            return True

    def send(self, sent: list[Observation]) -> None:
        topic = self.settings.topic("observations")
        self.log.writer().write([Outgoing(topic, o.station, encode(o)) for o in sent])

    def run(self, each: Callable[[int], None] = lambda round_: None, *, quiet: int = 40) -> None:
        """Until nothing has moved for so many rounds."""
        still = round_ = 0
        while still < quiet:
            each(round_)
            moved = [self.step(name) for name in self.names()]
            still = 0 if any(moved) else still + 1
            self.clock.advance(0.02)
            round_ += 1

    def read(self, suffix: str) -> list[Message]:
        reader = self.log.reader([Subscription(self.settings.topic(suffix))])
        found: list[Message] = []
        while messages := reader.poll(0.0, 10_000):
            found += messages
        return found

    def model(self, station: str) -> bytes:
        role = self.roles[f"agent.{station}"]
        assert isinstance(role, AgentRole)
        return pack(role.agent.model.state())

    def check(self, sent: list[Observation]) -> None:
        """Everything learned once, everything answered once."""
        for station in STATIONS:
            role = self.roles[f"agent.{station}"]
            assert isinstance(role, AgentRole)
            assert role.counts["learned"] == sum(o.station == station for o in sent)
        asked = {decode(m.value, Query).id for m in self.read("queries")}
        answers = Counter(
            (p.query_id, p.agent) for p in (decode(m.value, Prediction) for m in self.read("predictions"))
        )
        forecasts = Counter(decode(m.value, Forecast).query_id for m in self.read("forecasts"))
        concluded = Counter(decode(m.value, StationForecast).query_id for m in self.read("station-forecasts"))
        assert answers == Counter({(query_id, s): 1 for query_id in asked for s in STATIONS})
        assert forecasts == Counter(dict.fromkeys(asked, 1))
        assert concluded == Counter(dict.fromkeys(asked, 1))
        assert not self.read("dead-letter")
