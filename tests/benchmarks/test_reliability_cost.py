"""What it costs that nothing is lost: the rate of a network with and without, and how much each part takes of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from streamgp.cli import main
from streamgp.roles.cloud import CloudRole
from streamgp.roles.identity import make_gate
from streamgp.roles.kept import Kept, KeptRole
from streamgp.roles.scorer import ScorerRole
from streamgp.roles.settings import AgentSettings, KeepSettings, ModelSettings, Settings, SigningSettings
from streamgp.roles.wiring import agent_role
from streamgp.wire.checkpoint import FolderStore, pack
from streamgp.wire.clock import SystemClock
from streamgp.wire.codec import decode
from streamgp.wire.gate import Gate
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.keys import AllowList, make_key, read_private, write_private
from streamgp.wire.log import Log, Message, Outgoing, Reader, Subscription, Writer
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import StationForecast
from streamgp.wire.signing import Signer, Verifier
from streamgp.wire.topics import topic_plan
from tests.benchmarks.reliable import HOUR, kept, reads_of, rows

pytestmark = pytest.mark.bench
STATIONS = ("A", "B", "C")
#: observations of each station that are not waited for: their truth never comes
TAIL = 14
NEVER = 1e9
#: observations of each station
COUNTS = {"memory": 400, "broker": 120}


@dataclass(frozen=True)
class Parts:
    """Which of the three a run has."""

    transactions: bool = False
    signing: bool = False
    snapshot_every_s: float = NEVER
    commit_interval_s: float = 0.5

    def of(self, bare: Settings, folder: Path) -> Settings:
        return replace(
            bare,
            signing=SigningSettings(enabled=self.signing, keys=str(folder / "keys")),
            keep=KeepSettings(
                snapshot_every_s=self.snapshot_every_s,
                snapshot_busy_s=NEVER,
                commit_interval_s=self.commit_interval_s,
            ),
        )


class Plain:
    """A role between a reader and a writer, outputs flushed each second; signing and snapshots if they are wanted."""

    def __init__(self, role: KeptRole, reader: Reader, writer: Writer, gate: Gate, store: FolderStore) -> None:
        self.role = role
        self._reader, self._writer, self._gate, self._store = reader, writer, gate, store
        self._clock = SystemClock()
        self._flushed_s = self._saved_s = time.perf_counter()
        self._number = 0

    def recover(self) -> None:
        self._write(self.role.start(self._clock.monotonic_s()))

    def step(self, every_s: float) -> None:
        messages = self._reader.poll(0.0, without=self.role.full())
        let_in = [m for m in messages if self._gate.check(m) is None]
        if let_in or self._reader.stats.exhausted:
            self.role.feed(let_in, self._clock.monotonic_s())
        self._write(self.role.drain(self._clock.monotonic_s()))
        if time.perf_counter() - self._flushed_s > 1.0:
            self._flushed_s = time.perf_counter()
            self._writer.flush(10.0)
        if time.perf_counter() - self._saved_s > every_s:
            self._saved_s = time.perf_counter()
            self._number += 1
            self._store.save(self._number, pack(self.role.state()))

    def _write(self, out: list[Outgoing]) -> None:
        self._writer.write(self._gate.signed(out))

    def close(self) -> None:
        for client in (self._reader, self._writer, self._store):
            client.close()


def running(log: Log, settings: Settings, parts: Parts, folder: Path) -> dict[str, Kept | Plain]:
    """Agents, cloud and scorer, started."""
    roles: dict[str, KeptRole] = {f"agent.{s}": agent_role(settings, s) for s in STATIONS}
    roles |= {"cloud": CloudRole(settings), "scorer": ScorerRole(settings)}
    made: dict[str, Kept | Plain] = {}
    for name, role in roles.items():
        if parts.transactions:
            made[name] = kept(log, role, name, settings, str(folder))
        else:
            gate = make_gate(settings, name, SystemClock())
            reads = reads_of(name, settings)
            made[name] = Plain(role, log.reader(reads), log.writer(), gate, FolderStore(folder / name))
        made[name].recover()
    return made


class Network:
    """Agents, cloud and scorer over one log in this thread."""

    def __init__(self, log: Log, bare: Settings, parts: Parts, folder: Path) -> None:
        self.settings = parts.of(bare, folder)
        self.log, self.parts, self.sent = log, parts, 0
        log.create_topics(topic_plan(self.settings.prefix))
        self.every = running(log, self.settings, parts, folder / self.settings.prefix)
        self._source = log.writer()

    @property
    def scored(self) -> int:
        return self.every["scorer"].role.counts["scored: chosen"] // len(STATIONS)

    def send(self, count: int) -> None:
        new = rows(self.settings, STATIONS, self.sent + count)[self.sent * len(STATIONS) :]
        self._source.write(new)
        self._source.flush(60.0)
        self.sent += count

    def step(self) -> None:
        for one in self.every.values():
            if isinstance(one, Kept):
                one.step(0.0)
            else:
                one.step(self.parts.snapshot_every_s)

    def rate(self, count: int, seconds: Callable[[], float]) -> float:
        """Observations a second, from the first that is learned to the last score."""
        self.send(count)
        begun = seconds()
        while self.scored < self.sent - TAIL:
            self.step()
        return (count - TAIL) * len(STATIONS) / (seconds() - begun)

    def delay_s(self, count: int) -> float:
        """Median time from an observation's sending until its station's forecast can be read by others."""
        reader = self.log.reader([Subscription(self.settings.topic("station-forecasts"))])
        delays = []
        for _ in range(count):
            self.send(1)
            begun, waiting = time.perf_counter(), set(STATIONS)
            while waiting:
                self.step()
                told = (decode(m.value, StationForecast) for m in reader.poll(0.0))
                waiting -= {f.station for f in told if f.time_ms == (self.sent - 1) * HOUR}
            delays.append(time.perf_counter() - begun)
        reader.close()
        return float(np.median(delays))

    def close(self) -> None:
        for one in self.every.values():
            one.close()
        self._source.close()


WITHOUT, EACH = Parts(), 2.0
WITH = Parts(transactions=True, signing=True, snapshot_every_s=EACH)
PARTS = {
    "without": WITHOUT,
    "transactions": Parts(transactions=True),
    "signing": Parts(signing=True),
    "snapshots": Parts(snapshot_every_s=EACH),
    "all three": WITH,
}
#: seconds of this process's own work, and of the clock on the wall
CLOCKS = {"memory": time.process_time, "broker": time.perf_counter}


@pytest.fixture
def bare(tmp_path: Path, prefix: str) -> Settings:
    """A model that costs nothing, so that all the work is the pipeline's: any other hides what is measured here."""
    words = [w for s in STATIONS for w in ("--station", s)]
    made = ["keys", "make", *words, "--role", "cloud", "--role", "scorer", "--keys", str(tmp_path / "keys")]
    assert CliRunner().invoke(main, made).exit_code == 0
    return Settings(
        prefix=prefix,
        stations=STATIONS,
        agent=AgentSettings(settle_s=0.0),
        model=ModelSettings(kind="constant", warm_up=20),
    )


def log_of(where: str, request: pytest.FixtureRequest) -> Log:
    return MemoryLog() if where == "memory" else KafkaLog(request.getfixturevalue("broker"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("where", ["memory", "broker"])
def test_transactions_signatures_and_snapshots_keep_half_the_rate(
    where: str, bare: Settings, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """In turn in one run; the median of three rounds. In memory by processor time, over a broker by the wall."""
    rates: dict[str, list[float]] = {name: [] for name in PARTS}
    for i, name in [(0, name) for name in PARTS] + [(i, name) for i in (1, 2) for name in ("without", "all three")]:
        log = log_of(where, request)
        settings = replace(bare, prefix=f"{bare.prefix}-{i}-{name.replace(' ', '-')}")
        network = Network(log, settings, PARTS[name], tmp_path)
        rates[name].append(network.rate(COUNTS[where], CLOCKS[where]))
        network.close()
        log.close()
        share = rates[name][-1] / rates["without"][-1]
        print(f"\n{where}, {name}: {rates[name][-1]:.0f} observations/s, {share:.2f} of the rate without", end="")
    shares = np.array(rates["all three"]) / rates["without"]
    assert float(np.median(shares)) >= 0.5


@pytest.mark.timeout(600)
def test_what_a_longer_commit_interval_gives_and_takes(
    bare: Settings, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Rate over a backlog, and delay of single observations: a longer interval must not cost rate, nor save delay."""
    found = {}
    for interval_s in (0.1, 0.5, 2.0):
        settings = replace(bare, prefix=f"{bare.prefix}-{interval_s}")
        log = log_of("broker", request)
        network = Network(log, settings, changed(WITH, commit_interval_s=interval_s), tmp_path)
        rate, delay_s = network.rate(COUNTS["broker"], time.perf_counter), network.delay_s(7)
        network.close()
        log.close()
        print(f"\ncommit interval {interval_s} s: {rate:.0f} observations/s, forecast after {delay_s:.2f} s", end="")
        found[interval_s] = rate, delay_s
    assert found[0.1][1] < found[0.5][1] < found[2.0][1]
    assert found[2.0][0] > 0.8 * found[0.1][0]


def test_what_a_signature_costs(tmp_path: Path) -> None:
    """Per record, both ways, in processor time: records that are written together share a signature."""
    pem, entry = make_key("agent.A")
    write_private(tmp_path / "a.pem", pem)
    signer, verifier = Signer(read_private(tmp_path / "a.pem")), Verifier(AllowList.of([entry]), prefix="bench")
    record = Outgoing("bench.progress", "A", b'{"v":1,"station":"A","time_ms":1}')
    for together in (1, 10, 100):
        begun = time.process_time()
        signed = [s for _ in range(2_000 // together) for s in signer.sign_all([record] * together)]
        middle = time.process_time()
        now_ms = SystemClock().now_ms()
        for i, s in enumerate(signed):
            assert verifier.why_not(Message(s.topic, 0, i, s.key, s.value, now_ms, s.headers)) is None
        end = time.process_time()
        to_us = 1e6 / len(signed)
        print(f"\n{together} together: signed in {(middle - begun) * to_us:.0f} us", end="")
        print(f", verified in {(end - middle) * to_us:.0f} us a record", end="")
        assert (end - begun) * to_us < 2_000
