"""One run: what is done to its processes and its broker, and what must hold after it."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamgp.roles.stores import folder_name
from streamgp.wire.checkpoint import pack, unpack
from streamgp.wire.codec import decode, encode
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Outgoing, Reader, Subscription
from streamgp.wire.records import Forecast, Observation, Prediction, Query, Record, StationForecast
from streamgp.wire.topics import topic_plan
from tests.brokers import OwnBroker
from tests.chaos.processes import Processes
from tests.chaos.reading import read, same
from tests.chaos.truth import SETTINGS, Truth, sent_of, undisturbed


@dataclass(frozen=True)
class Chaos:
    """How much happens; a run is a function of it and of the machine's moods."""

    seed: int = 0
    stations: int = 12
    observations: int = 20_000
    kills: int = 5
    outages: int = 2
    pauses: int = 1
    gap_s: float = 1.0
    patience_s: float = 600.0
    outage_s: float = 4.0  # the longest, times gap_s


class Run:
    """One run: its processes, its broker, and what was done to them."""

    def __init__(self, chaos: Chaos, folder: Path, broker: OwnBroker) -> None:
        self.chaos = chaos
        self.folder = folder
        self.broker = broker
        self.rng = random.Random(chaos.seed)
        self.prefix = f"chaos-{chaos.seed}"
        self.file = folder / "settings.toml"
        self.file.write_text(SETTINGS)
        self.sent = sent_of(chaos.stations, chaos.observations)
        self.names = sorted({o.station for o in self.sent})
        self.seen: dict[Any, set[str]] = {Forecast: set(), StationForecast: set()}
        self.readers: dict[Any, Reader] = {}
        self.processes = Processes(folder)

    @property
    def roles(self) -> list[str]:
        return [*(f"agent.{name}" for name in self.names), "cloud", "scorer"]

    def plan(self) -> list[tuple[float, str, str]]:
        """What is done at which share of the work, in order: so that it hits processes that work, on any machine."""
        c = self.chaos
        events = [("kill", role) for role in self.roles for _ in range(c.kills)]
        events += [("outage", "")] * c.outages + [("pause", "")] * c.pauses
        self.rng.shuffle(events)
        planned: list[tuple[float, str, str]] = []
        while events:  # several at once: who starts again meets others that are down, and may be killed again
            burst = [events.pop() for _ in range(min(len(events), self.rng.randint(1, 5)))]
            share = self.rng.uniform(0.01, 0.9)
            planned += [(share, *event) for event in burst]
        return sorted(planned, key=lambda event: event[0])

    def disturb(self, log: KafkaLog) -> None:
        """All that was planned, each when so much is concluded, and a moment later if the seed says so."""
        for share, what, role in self.plan():
            self.advance(log, share)
            self.processes.wait(self.rng.choice([0.0, 0.2, 1.0]) * self.rng.random() * self.chaos.gap_s)
            if what == "kill":
                self.processes.kill(role)
            elif what == "outage":
                self.broker.stop()
                self.processes.wait(self.rng.uniform(1.0, self.chaos.outage_s) * self.chaos.gap_s)
                self.broker.start()
            else:
                self.broker.freeze()
                self.processes.wait(3.0 * self.chaos.gap_s)
                self.broker.thaw()

    def advance(self, log: KafkaLog, share: float) -> None:
        """Wait until this share of all questions has its forecast, and its conclusion.

        An agent that waits for long concludes alone: the cloud's part of the work is looked at as well.
        """
        expected = share * sum(len(q) for q in self.truth().asked.values())
        moved_s = time.monotonic()
        while len(self.seen[Forecast]) < expected or len(self.seen[StationForecast]) < expected:
            before = len(self.seen[Forecast]) + len(self.seen[StationForecast])
            for kind, reader in self.watching(log).items():
                self.seen[kind] |= {decode(m.value, kind).query_id for m in reader.poll(0.1, 5_000)}
            self.processes.wait(0.2)
            if len(self.seen[Forecast]) + len(self.seen[StationForecast]) > before:
                moved_s = time.monotonic()
            still_s = time.monotonic() - moved_s
            told = {kind.__name__: len(ids) for kind, ids in self.seen.items()}
            assert still_s < self.chaos.patience_s, f"stands still at {told} of {expected}"

    def watching(self, log: KafkaLog) -> dict[Any, Reader]:
        """Readers of forecasts and conclusions."""
        if not self.readers:
            topics = {Forecast: "forecasts", StationForecast: "station-forecasts"}
            self.readers = {kind: log.reader([Subscription(f"{self.prefix}.{t}")]) for kind, t in topics.items()}
        return self.readers

    def finish(self, log: KafkaLog) -> None:
        """Wait until every question of every observation is concluded, then stop everybody in good order.

        Who was killed last may still be starting: told to stop before it works it would leave what it had committed
        since its last snapshot where it is, to be read at the next start.
        """
        self.advance(log, 1.0)
        self.processes.wait(2.0)
        for role in self.roles:
            self.processes.stop(role)

    def truth(self) -> Truth:
        return undisturbed(self.chaos.stations, self.chaos.observations)

    def read(self, log: KafkaLog, suffix: str, kind: type[Record]) -> list[Any]:
        reader = log.reader([Subscription(f"{self.prefix}.{suffix}")])
        found = read(reader, kind)
        reader.close()
        return found

    def check(self, log: KafkaLog) -> None:
        """What must hold after all that."""
        truth = self.truth()
        for station in self.names:
            data = sorted((self.folder / "state" / folder_name(f"agent.{station}")).glob("snapshot-*.sgp"))[-1]
            state = unpack(data.read_bytes())["state"]
            learned, sent = state["counts"]["learned"], sum(o.station == station for o in self.sent)
            assert learned == sent, f"{station} learned {learned} of {sent}"
            assert pack(state["agent"]["model"]) == truth.models[station], f"{station}: another model than undisturbed"
        ids = set().union(*truth.asked.values())
        once = Counter(dict.fromkeys(ids, 1))
        same("queries", Counter({q.id for q in self.read(log, "queries", Query)}), once)
        same("forecasts", Counter(f.query_id for f in self.read(log, "forecasts", Forecast)), once)
        concluded = Counter(f.query_id for f in self.read(log, "station-forecasts", StationForecast))
        same("station-forecasts", concluded, once)
        answers = Counter((p.query_id, p.agent) for p in self.read(log, "predictions", Prediction))
        same("predictions", answers, Counter({(query_id, s): 1 for query_id in ids for s in self.names}))

    def all(self) -> dict[str, Any]:
        """Everything, and figures about it."""
        self.truth()  # before the processes start, which it would only slow down
        begun = time.monotonic()
        address = self.broker.start()
        self.processes.words = ["--broker", address, "--prefix", self.prefix, "--settings", str(self.file)]
        log = KafkaLog(address)
        try:
            log.create_topics(topic_plan(self.prefix))
            for role in self.roles:
                self.processes.start(role)
            self.send(log, self.sent)
            self.disturb(log)
            self.finish(log)
            self.check(log)
        finally:
            self.processes.close()
            log.close()
        return {
            "seed": self.chaos.seed,
            "seconds": round(time.monotonic() - begun, 1),
            "observations": len(self.sent),
            "kills": self.processes.killed.total(),
            "ended otherwise": {k: n for k, n in self.processes.ended.items() if not k.endswith(": -9")},
        }

    def send(self, log: KafkaLog, sent: tuple[Observation, ...]) -> None:
        writer = log.writer()
        writer.write([Outgoing(f"{self.prefix}.observations", o.station, encode(o)) for o in sent])
        writer.flush(60.0)
        writer.close()
