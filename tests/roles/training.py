"""A small federation on the embedded log, for the tests of its two roles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from streamgp.roles.loop import together
from streamgp.roles.trainer import TrainingServer
from streamgp.roles.training_client import FixedRows, TrainingClient
from streamgp.roles.training_settings import TrainingSettings
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import decode
from streamgp.wire.log import Message, Outgoing, Subscription, TopicSpec
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import GlobalState

SETTINGS = TrainingSettings(
    low=(0.0,),
    high=(10.0,),
    n_outputs=2,
    n_global=6,
    n_local=5,
    rank_global=1,
    rank_deviation=1,
    rank_local=1,
    rounds=4,
    local_iterations=5,
    round_s=10.0,
    wait_s=60.0,
)


def changed(**changes: object) -> TrainingSettings:
    """The settings, some of them changed."""
    return replace(SETTINGS, **changes)  # type: ignore[arg-type]  # each key has a type of its own


def rows_of(n_clients: int, *, seed: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Clients that share a curve, with a shift and a rough part of their own."""
    rng = np.random.default_rng(seed)
    out = {}
    for i in range(n_clients):
        X = rng.uniform(0.0, 10.0, (12 + 2 * i, 1))
        Y = np.hstack([np.sin(X) + 0.3 * i, np.cos(X)]) + 0.05 * rng.standard_normal((len(X), 2))
        out[f"station-{i}"] = (X, Y)
    return out


def answers(clients: Mapping[str, TrainingClient], record: Outgoing, now_s: float) -> list[Outgoing]:
    """Every client's answer to a global record."""
    out = []
    for client in clients.values():
        client.feed([Message("t.globals", 0, 0, "default", record.value, 0)], now_s)
        out += client.drain(now_s)
    return out


def taken(server: TrainingServer, sent: list[Outgoing], now_s: float) -> list[Outgoing]:
    """What the server says after it has read answers."""
    server.feed([Message("t.updates", 0, at, o.key, o.value, 0) for at, o in enumerate(sent)], now_s)
    return server.drain(now_s)


class Federation:
    """A log with its topics, a clock, and whoever takes part."""

    def __init__(self, settings: TrainingSettings = SETTINGS) -> None:
        self.settings = settings
        self.clock = ManualClock()
        self.log = MemoryLog(clock=self.clock, max_record_bytes=10_000_000)
        self.log.create_topics([TopicSpec("t.updates", partitions=3), TopicSpec("t.globals", partitions=1)])
        self.log.create_topics([TopicSpec("t.dead-letter", partitions=1)])

    def server(self, **changes: object) -> TrainingServer:
        return TrainingServer(self.settings, prefix="t", clock=self.clock, **changes)

    def client(self, name: str, X: np.ndarray, Y: np.ndarray, **changes: object) -> TrainingClient:
        return TrainingClient(name, FixedRows(X, Y), prefix="t", clock=self.clock, **changes)

    def parts(self, server: TrainingServer | None, clients: Mapping[str, TrainingClient]) -> list:
        """Roles with a reader and a writer each."""
        pairs = []
        if server is not None:
            pairs.append((server, self.log.reader([Subscription("t.updates")], group="server"), self.log.writer()))
        for client in clients.values():
            pairs.append((client, self.log.reader([Subscription("t.globals")]), self.log.writer()))
        return pairs

    def run(self, server: TrainingServer, clients: Mapping[str, TrainingClient]) -> None:
        """Until nobody has anything to do."""
        together(self.parts(server, clients), self.clock)

    def records(self, topic: str = "t.globals") -> list:
        """What was written to a topic, as bytes."""
        reader = self.log.reader([Subscription(topic)])
        values = []
        while batch := reader.poll(0.0):
            values += [m.value for m in batch]
        return values

    def states(self) -> list[GlobalState]:
        return [decode(v, GlobalState) for v in self.records()]
