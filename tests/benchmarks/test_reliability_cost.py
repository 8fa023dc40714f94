"""What it costs that nothing is lost: restart of a large state, and the rate of a network with and without."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from streamgp.cli import main
from streamgp.roles.cloud import CloudRole
from streamgp.roles.identity import make_gate
from streamgp.roles.kept import Kept, KeptRole, Place
from streamgp.roles.scorer import ScorerRole
from streamgp.roles.settings import AgentSettings, KeepSettings, ModelSettings, Settings, SigningSettings
from streamgp.roles.stores import make_store
from streamgp.roles.wiring import agent_role, subscriptions
from streamgp.wire.checkpoint import pack
from streamgp.wire.clock import SystemClock
from streamgp.wire.codec import encode
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Log, Outgoing
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Observation
from streamgp.wire.topics import topic_plan

pytestmark = pytest.mark.bench
HOUR = 3_600_000
STATIONS = ("A", "B", "C")


def rows(stations: tuple[str, ...], count: int) -> list[Outgoing]:
    return [
        Outgoing(
            "bench.observations",
            s,
            encode(Observation(station=s, time_ms=t * HOUR, y=math.sin(0.3 * t + i) + 0.1 * ((7 * t + 3 * i) % 5))),
        )
        for t in range(count)
        for i, s in enumerate(stations)
    ]


def kept(log: Log, role: KeptRole, name: str, settings: Settings, folder: Path, *, store: str = "folder") -> Kept:
    kind, _, station = name.partition(".")
    reads = tuple(subscriptions(kind, settings, station=station or None))  # type: ignore[arg-type]  # one of its kinds
    at_once = frozenset({settings.topic("queries"), settings.topic("progress")})
    place = Place(name, settings.prefix, reads, at_once)
    return Kept(
        role,
        place,
        log=log,
        store=make_store("topic" if store == "topic" else str(folder), place, log=log, clock=SystemClock()),
        clock=SystemClock(),
        settings=settings.keep,
        gate=make_gate(settings, name, SystemClock()),
    )


COUNT = 100_000
LARGE = Settings(
    prefix="bench",
    agent=AgentSettings(settle_s=0.0, idle_wait_s=0.0, horizons=()),
    model=ModelSettings(max_points=COUNT, n_neighbors=8),
    keep=KeepSettings(snapshot_every_s=1e6, snapshot_busy_s=1e6, commit_interval_s=0.05),
)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The state of an agent that has learned a hundred thousand observations."""
    log = MemoryLog()
    log.create_topics(topic_plan("bench"))
    one = kept(log, agent_role(LARGE, "A"), "agent.A", LARGE, tmp_path_factory.mktemp("large"))
    one.recover()
    log.writer().write(rows(("A",), COUNT))
    while one.role.counts["learned"] < COUNT:
        one.step(0.0)
    one.finish()
    state = {**one.role.state(), "next": []}  # the offsets of the log that it is put into begin anew
    one.close()
    return state


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("where", "store"), [("memory", "folder"), ("broker", "folder"), ("broker", "topic")])
def test_restart_with_a_hundred_thousand_observations(
    where: str, store: str, large: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """To the first answer in less than 2 s; what is read again, from the disk or from the topic, is all of it."""
    log = MemoryLog() if where == "memory" else KafkaLog(request.getfixturevalue("broker"))
    settings = replace(LARGE, prefix=f"bench-{where}-{store}")
    log.create_topics(topic_plan(settings.prefix))
    role = agent_role(settings, "A")
    role.restore(large)
    first = kept(log, role, "agent.A", settings, tmp_path, store=store)
    first.recover()
    first.commit()
    first.close()
    settings = replace(settings, agent=replace(settings.agent, horizons=(1,)))
    (next_row,) = rows(("A",), COUNT + 1)[-1:]
    writer = log.writer()
    writer.write([replace(next_row, topic=settings.topic("observations"))])
    writer.flush(10.0)
    begun = time.perf_counter()
    again = kept(log, agent_role(settings, "A"), "agent.A", settings, tmp_path, store=store)
    again.recover()
    restored_s = time.perf_counter() - begun
    while again.role.counts["answered"] < 1:
        again.step(0.05)
    seconds = time.perf_counter() - begun
    print(f"\n{where}, {store}: restored in {restored_s:.2f} s, first answer after {seconds:.2f} s")
    assert again.role.counts["learned"] == COUNT + 1
    again.close()
    log.close()
    assert seconds < 2.0


#: seconds of this process's own work, and of the clock on the wall
CLOCKS = {"memory": time.process_time, "broker": time.perf_counter}


def through(log: Log, settings: Settings, folder: Path, count: int, *, seconds: Callable[[], float]) -> float:
    """Observations a second through agents, cloud and scorer in this thread."""
    log.create_topics(topic_plan(settings.prefix))
    roles: dict[str, KeptRole] = {f"agent.{s}": agent_role(settings, s) for s in STATIONS}
    roles |= {"cloud": CloudRole(settings), "scorer": ScorerRole(settings)}
    running = [kept(log, role, name, settings, folder) for name, role in roles.items()]
    for one in running:
        one.recover()
    writer = log.writer()
    writer.write(rows(STATIONS, count))
    writer.flush(60.0)
    begun = seconds()
    while roles["scorer"].counts["scored: chosen"] < (count - 14) * len(STATIONS):
        for one in running:
            one.step(0.0)
    rate = count * len(STATIONS) / (seconds() - begun)
    for one in running:
        one.close()
    return rate


def plain(log: Log, settings: Settings, count: int, *, seconds: Callable[[], float]) -> float:
    """The same without any of it: roles between readers and writers, outputs flushed each second."""
    log.create_topics(topic_plan(settings.prefix))
    roles: dict[str, KeptRole] = {f"agent.{s}": agent_role(settings, s) for s in STATIONS}
    roles |= {"cloud": CloudRole(settings), "scorer": ScorerRole(settings)}
    clock = SystemClock()
    running = []
    for name, role in roles.items():
        kind, _, station = name.partition(".")
        reads = subscriptions(kind, settings, station=station or None)  # type: ignore[arg-type]  # one of its kinds
        running.append((role, log.reader(reads), log.writer()))
        running[-1][2].write(role.start(clock.monotonic_s()))
    source = log.writer()
    source.write(rows(STATIONS, count))
    source.flush(60.0)
    begun, flushed = seconds(), time.perf_counter()
    while roles["scorer"].counts["scored: chosen"] < (count - 14) * len(STATIONS):
        for role, reader, writer in running:
            role.feed(reader.poll(0.0, without=role.full()), clock.monotonic_s())
            writer.write(role.drain(clock.monotonic_s()))
        if time.perf_counter() - flushed > 1.0:
            flushed = time.perf_counter()
            for _, _, writer in running:
                writer.flush(10.0)
    return count * len(STATIONS) / (seconds() - begun)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("where", ["memory", "broker"])
def test_transactions_signatures_and_snapshots_keep_half_the_rate(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """In one run, alternating; the best of three of each. In memory by processor time, over a broker by the wall."""
    words = [w for s in STATIONS for w in ("--station", s)]
    made = ["keys", "make", *words, "--role", "cloud", "--role", "scorer", "--keys", str(tmp_path / "keys")]
    assert CliRunner().invoke(main, made).exit_code == 0
    bare = Settings(
        prefix="bench",
        stations=STATIONS,
        agent=AgentSettings(settle_s=0.0),
        model=ModelSettings(warm_up=50, n_neighbors=8),
    )
    full = replace(
        bare,
        signing=SigningSettings(enabled=True, keys=str(tmp_path / "keys")),
        keep=KeepSettings(snapshot_every_s=2.0),
    )
    count, rates = 400, {"without": 0.0, "with": 0.0}
    for i in range(3):
        logs: list[Log] = []
        for _ in range(2):
            if where == "memory":
                logs.append(MemoryLog())
            else:
                logs.append(KafkaLog(request.getfixturevalue("broker")))
        one, two = (replace(s, prefix="bench") for s in (bare, full))
        if where == "broker":
            delete_topics(logs[0])
        rates["without"] = max(rates["without"], plain(logs[0], one, count, seconds=CLOCKS[where]))
        if where == "broker":
            delete_topics(logs[0])
        rates["with"] = max(
            rates["with"], through(logs[1], two, tmp_path / f"{where}{i}", count, seconds=CLOCKS[where])
        )
        for log in logs:
            log.close()
    print(f"\n{where}: " + ", ".join(f"{name} {rate:.0f} observations/s" for name, rate in rates.items()))
    assert rates["with"] >= 0.5 * rates["without"]


def delete_topics(log: Log) -> None:
    """A fresh start under the same names."""
    from kafka import KafkaAdminClient

    assert isinstance(log, KafkaLog)
    admin = KafkaAdminClient(bootstrap_servers=log.settings.broker)
    gone = [name for name in admin.list_topics() if name.startswith("bench.")]
    if gone:
        admin.delete_topics(gone)
    deadline = time.monotonic() + 20.0
    while any(name.startswith("bench.") for name in admin.list_topics()) and time.monotonic() < deadline:
        time.sleep(0.2)
    admin.close()


def test_what_a_signature_costs(tmp_path: Path) -> None:
    """Per record, both ways."""
    from streamgp.wire.keys import AllowList, make_key, read_private, write_private
    from streamgp.wire.log import Message
    from streamgp.wire.signing import Signer, Verifier

    pem, entry = make_key("agent.A")
    write_private(tmp_path / "a.pem", pem)
    signer, verifier = Signer(read_private(tmp_path / "a.pem")), Verifier(AllowList.of([entry]), prefix="bench")
    record = Outgoing("bench.progress", "A", b'{"v":1,"station":"A","time_ms":1}')
    begun = time.perf_counter()
    signed = [signer.sign(record) for _ in range(2_000)]
    middle = time.perf_counter()
    now_ms = SystemClock().now_ms()
    for i, s in enumerate(signed):
        assert verifier.why_not(Message(s.topic, 0, i, s.key, s.value, now_ms, s.headers)) is None
    end = time.perf_counter()
    print(f"\nsigned in {(middle - begun) / 2e-3:.0f} us, verified in {(end - middle) / 2e-3:.0f} us a record")
    assert (end - begun) / 2_000 < 2e-3
    assert len(pack({"key": signed[0].headers[0][1]})) < 300
