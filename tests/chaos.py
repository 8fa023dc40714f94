"""A whole network as processes over a real broker, and everything that can happen to it (``make chaos``).

Agents, cloud and scorer are killed with SIGKILL at random, each as often as told; the broker is stopped and started
again, and frozen once as a network that carries nothing. In the end each model holds exactly the observations sent and
is equal to the bit to that of an undisturbed run in one process, every question has exactly one committed forecast, one
conclusion, and one answer of each agent.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import msgspec
from threadpoolctl import threadpool_limits

from producers.datasets import observations
from streamgp import cli
from streamgp.roles.loop import CUT_OFF, together
from streamgp.roles.settings import Settings, load_settings
from streamgp.roles.stores import folder_name
from streamgp.roles.wiring import agent_role, subscriptions
from streamgp.wire.checkpoint import pack, unpack
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import decode, encode
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Outgoing, Reader, Subscription
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Forecast, Observation, Prediction, Query, Record, StationForecast
from streamgp.wire.topics import topic_plan
from tests.brokers import OwnBroker

SETTINGS = """
[model]
warm_up = 20
n_neighbors = 8
[agent]
max_wait_s = 120.0
settle_s = 2.0
[cloud]
deadline_s = 5.0
[keep]
snapshot_every_s = 3.0
end_within_s = 60.0
"""


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


@dataclass(frozen=True)
class Truth:
    """Models and questions by station of a run that nothing disturbed."""

    models: dict[str, bytes]
    asked: dict[str, frozenset[str]]


@lru_cache(maxsize=1)
def sent_of(stations: int, count: int) -> tuple[Observation, ...]:
    """The observations of a run: the same for every seed, which decides what is done to the processes."""
    every = list(observations("irish-wind", limit=count * 12 // stations))
    names = sorted({o.station for o in every[:12]})[:stations]
    return tuple(o for o in every if o.station in names)


_truths: dict[tuple[int, int], Truth] = {}


def undisturbed(settings: Settings, sent: tuple[Observation, ...]) -> Truth:
    """The same observations in one process, without a broker."""
    log, names = MemoryLog(), settings.stations
    log.create_topics(topic_plan(settings.prefix))
    topic = settings.topic("observations")
    log.writer().write([Outgoing(topic, o.station, encode(o)) for o in sent])
    agents = {s: agent_role(settings, s) for s in names}
    pairs = [(a, log.reader(subscriptions("agent", settings, station=s)), log.writer()) for s, a in agents.items()]
    with threadpool_limits(1):  # as the processes: sums of several threads round otherwise
        together(pairs, ManualClock())
    asked: dict[str, set[str]] = {s: set() for s in names}
    for q in read(log.reader([Subscription(settings.topic("queries"))]), Query):
        asked[q.station].add(q.id)
    models = {s: pack(a.agent.model.state()) for s, a in agents.items()}
    return Truth(models, {s: frozenset(ids) for s, ids in asked.items()})


def read(reader: Reader, kind: type[Record]) -> list[Any]:
    """All that a reader has not read yet."""
    found = []
    while (messages := reader.poll(1.0, 5_000)) or reader.stats.behind != 0:
        found += [decode(m.value, kind) for m in messages]
    return found


def same(what: str, got: Counter[Any], wanted: Counter[Any]) -> None:
    """Each record that is wanted, once, and no other."""
    missing, more = wanted - got, got - wanted
    some = [*missing][:3], [*more][:3]
    assert got == wanted, f"{what}: {missing.total()} missing, {more.total()} too many, such as {some}"


def nursery() -> multiprocessing.context.ForkServerContext:
    """Where processes come from: a server that has imported what they need, with one thread."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "consumers.agent", "consumers.cloud", "consumers.scorer"])
    return context


def role_process(words: list[str], log: Path) -> None:
    """The command as a process of its own, what it says at the end of a file."""
    with log.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.argv = ["streamgp", *words]
    cli.run()


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
        self.nursery = nursery()
        self.running: dict[str, BaseProcess] = {}
        self.said: dict[str, int] = {}  # bytes of a role's log before its last start
        self.killed: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.seen: dict[Any, set[str]] = {Forecast: set(), StationForecast: set()}
        self.readers: dict[Any, Reader] = {}

    @property
    def roles(self) -> list[str]:
        return [*(f"agent.{name}" for name in self.names), "cloud", "scorer"]

    def settings(self) -> Settings:
        return msgspec.structs.replace(load_settings(self.file), prefix="chaos", stations=tuple(self.names))

    def start(self, role: str) -> None:
        kind, _, station = role.partition(".")
        words = [kind, "--broker", self.broker.address, "--prefix", self.prefix, "--settings", str(self.file)]
        words += ["--state", str(self.folder / "state"), *(("--station", station) if station else ())]
        log = self.log_of(role)
        self.said[role] = log.stat().st_size if log.exists() else 0
        process = self.nursery.Process(target=role_process, args=(words, log))
        process.start()
        self.running[role] = process

    def log_of(self, role: str) -> Path:
        return self.folder / f"{folder_name(role)}.log"

    def works(self, role: str) -> bool:
        """Whether what was started last has its state back."""
        return b": running on" in self.log_of(role).read_bytes()[self.said[role] :]

    def supervise(self) -> None:
        """What has ended is started again, as systemd or an orchestrator would."""
        for role, process in list(self.running.items()):
            if process.exitcode is not None:
                self.ended[f"{role}: {process.exitcode}"] += 1
                self.start(role)

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
            self.wait(self.rng.choice([0.0, 0.2, 1.0]) * self.rng.random() * self.chaos.gap_s)
            if what == "kill":
                self.running[role].kill()
                self.running[role].join(10)
                self.killed[role] += 1
            elif what == "outage":
                self.broker.stop()
                self.wait(self.rng.uniform(1.0, self.chaos.outage_s) * self.chaos.gap_s)
                self.broker.start()
            else:
                self.broker.freeze()
                self.wait(3.0 * self.chaos.gap_s)
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
            self.wait(0.2)
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

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.supervise()
            time.sleep(min(0.2, left))

    def finish(self, log: KafkaLog) -> None:
        """Wait until every question of every observation is concluded, then stop everybody in good order.

        Who was killed last may still be starting: told to stop before it works it would leave what it had committed
        since its last snapshot where it is, to be read at the next start.
        """
        self.advance(log, 1.0)
        self.wait(2.0)
        for role in self.roles:
            self.end(role)

    def end(self, role: str) -> None:
        """In good order; who was cut off, for the machine is busy, starts again and is told again."""
        for _ in range(5):
            end = time.monotonic() + 60.0
            while not self.works(role):
                assert time.monotonic() < end, f"{role} does not start"
                self.wait(0.1)
            process = self.running.pop(role)
            process.terminate()
            process.join(60)
            if process.exitcode != CUT_OFF:
                assert process.exitcode == 0, f"{role} ended with {process.exitcode}"
                return
            self.ended[f"{role}: {process.exitcode}"] += 1
            self.start(role)
        raise AssertionError(f"{role} was cut off again and again")

    def truth(self) -> Truth:
        """The same for every seed, and computed once."""
        what = (self.chaos.stations, self.chaos.observations)
        if what not in _truths:
            _truths[what] = undisturbed(self.settings(), self.sent)
        return _truths[what]

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
        self.broker.start()
        log = KafkaLog(self.broker.address)
        try:
            log.create_topics(topic_plan(self.prefix))
            for role in self.roles:
                self.start(role)
            self.send(log, self.sent)
            self.disturb(log)
            self.finish(log)
            self.check(log)
        finally:
            for process in self.running.values():
                process.kill()
                process.join(10)
            log.close()
        return {
            "seed": self.chaos.seed,
            "seconds": round(time.monotonic() - begun, 1),
            "observations": len(self.sent),
            "kills": sum(self.killed.values()),
            "ended otherwise": {k: n for k, n in self.ended.items() if not k.endswith(": -9")},
        }

    def send(self, log: KafkaLog, sent: tuple[Observation, ...]) -> None:
        writer = log.writer()
        writer.write([Outgoing(f"{self.prefix}.observations", o.station, encode(o)) for o in sent])
        writer.flush(60.0)
        writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    for name in ("stations", "observations", "kills", "outages", "pauses"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Chaos, name))
    for name in ("gap_s", "outage_s", "patience_s"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(Chaos, name))
    given = vars(parser.parse_args())
    seeds = range(given["first_seed"], given.pop("first_seed") + given.pop("seeds"))
    for seed in seeds:
        folder = Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-"))
        broker = OwnBroker(folder / "broker")
        try:
            told = Run(Chaos(seed=seed, **given), folder, broker).all()
        except BaseException:
            print(f"seed {seed} failed; logs and states are in {folder}", flush=True)
            raise
        finally:
            broker.stop(keep=False)
        shutil.rmtree(folder)
        print(told, flush=True)


if __name__ == "__main__":
    main()
