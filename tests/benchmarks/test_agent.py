"""The agent itself: its overhead over a bare poll loop, the delay to a forecast, its memory. ``make bench``."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest
from kafka import KafkaConsumer, TopicPartition

from producers.datasets import observations
from streamgp.roles.settings import AgentSettings, ModelSettings, Settings
from streamgp.roles.wiring import agent_role, subscriptions
from streamgp.wire.codec import decode, encode
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Message, Outgoing, Subscription, Writer
from streamgp.wire.partitioner import partition_of
from streamgp.wire.records import Observation, StationForecast
from streamgp.wire.topics import topic_plan
from tests.broker.test_processes import ROOT, command, greeted, processes, wait_for

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

COUNT, FIRST = 120_000, 20_000  # records, and those after which both have their connections and are timed
STEP_MS = 60_000
HISTORY, DAYS = 80, 120


def backlog() -> list[bytes]:
    y = np.random.default_rng(1).normal(size=COUNT).tolist()
    return [encode(Observation(station="A", time_ms=i * STEP_MS, y=y[i])) for i in range(COUNT)]


def settings_of(prefix: str, *horizons: int) -> Settings:
    agent = AgentSettings(horizons=horizons, settle_s=0.0, step_ms=STEP_MS)
    return Settings(prefix=prefix, model=ModelSettings(kind="constant"), agent=agent)


def bare_rate(broker: str, topic: str, partition: int) -> float:
    """Records a second of a plain poll loop that decodes with the standard library, after the first of them."""
    consumer = KafkaConsumer(bootstrap_servers=broker, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, partition)])
    seen, first, start = 0, 0, 0.0
    while seen < COUNT:
        for records in consumer.poll(timeout_ms=1_000).values():
            for record in records:
                json.loads(record.value)
            seen += len(records)
        if not first and seen >= FIRST:
            first, start = seen, time.perf_counter()
    rate = (COUNT - first) / (time.perf_counter() - start)
    consumer.close()
    return rate


def agent_rate(broker: str, settings: Settings) -> float:
    """Records a second of an agent with a constant model, after the first of them until it has learned the last."""
    log = KafkaLog(broker)
    role = agent_role(settings, "A")
    reader, writer = log.reader(subscriptions("agent", settings, station="A")), log.writer()
    role.start(0.0)
    first, start, begun = 0, 0.0, time.perf_counter()
    while role.handled < COUNT:
        now = time.perf_counter() - begun
        role.feed(reader.poll(0.0 if role.wake_s(now) == 0.0 else 0.05, without=role.full()), now)
        if out := role.drain(now):
            writer.write(out)
        if not first and role.handled >= FIRST:
            first, start = role.handled, time.perf_counter()
    writer.flush(60.0)
    rate = (COUNT - first) / (time.perf_counter() - start)
    log.close()
    return rate


def test_overhead_of_the_agent(broker: str, prefix: str) -> None:
    """Decoding, door, merge, features, learning: at least half the rate of a bare loop; asking as well is printed."""
    log = KafkaLog(broker)
    log.create_topics(topic_plan(prefix))
    topic = f"{prefix}.observations"
    writer = log.writer()
    writer.write([Outgoing(topic, "A", value) for value in backlog()])
    writer.flush(120.0)
    partition = partition_of("A", log.topics()[topic])
    log.close()
    pairs = [(bare_rate(broker, topic, partition), agent_rate(broker, settings_of(prefix))) for _ in range(7)]
    ratios = sorted(agent / bare for bare, agent in pairs)
    asking = agent_rate(broker, settings_of(prefix, 1))
    bare, agent = (np.median([p[i] for p in pairs]) for i in (0, 1))
    print(
        f"\nbare poll loop {bare:,.0f}/s, agent {agent:,.0f}/s, median ratio {ratios[3]:.2f} "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}; seven pairs); asking, answering and publishing too {asking:,.0f}/s"
    )
    assert ratios[3] >= 0.5


@pytest.mark.parametrize("interval_s", [0.5, 0.05])
def test_delay_from_observation_to_station_forecast(
    broker: str, prefix: str, tmp_path: Path, interval_s: float
) -> None:
    """Fourteen processes, twelve readings every second: from the sending of one to its forecast read, committed."""
    settings_file = tmp_path / "settings.toml"
    settings_file.write_text(f"[model]\nwarm_up = 50\n[keep]\ncommit_interval_s = {interval_s}\n")
    shared = ["--broker", broker, "--prefix", prefix, "--settings", str(settings_file)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command("topics", "create", *shared), env=env, check=True, capture_output=True)
    log = KafkaLog(broker)
    rows = list(observations("irish-wind", limit=12 * DAYS))
    commands = {s: command("agent", "--station", s, *shared) for s in sorted({o.station for o in rows})}
    commands |= {"cloud": command("cloud", *shared), "scorer": command("scorer", *shared)}
    sent: dict[tuple[str, int], float] = {}
    delays: list[float] = []
    history, now = rows[: 12 * HISTORY], rows[12 * HISTORY :]
    with processes(commands, tmp_path):
        wait_for("hello of all agents", lambda: len(greeted(log, prefix)) == 12, seconds=150)
        reader, writer = log.reader([Subscription(f"{prefix}.station-forecasts")]), log.writer()
        send(writer, prefix, history)
        last_ms, concluded = history[-1].time_ms, set[str]()
        while len(concluded) < 12:  # catches up with the past first
            came = [decode(m.value, StationForecast) for m in reader.poll(1.0)]
            concluded |= {f.station for f in came if f.time_ms == last_ms}
        for at in range(0, len(now), 12):
            sent |= {(o.station, o.time_ms): time.perf_counter() for o in now[at : at + 12]}
            send(writer, prefix, now[at : at + 12])
            until = time.perf_counter() + 1.0
            while time.perf_counter() < until:
                for message in reader.poll(0.02):
                    forecast = decode(message.value, StationForecast)
                    delays.append(time.perf_counter() - sent[forecast.station, forecast.time_ms])
    log.close()
    median, p99 = np.quantile(delays, [0.5, 0.99])
    print(f"\ncommit every {interval_s} s: {len(delays)} forecasts, delay median {median:.3f} s, 99% {p99:.3f} s")
    assert len(delays) >= 0.9 * len(now)
    assert p99 < 30.0  # the cloud's deadline: beyond it a station forecasts alone


def send(writer: Writer, prefix: str, rows: list[Observation]) -> None:
    writer.write([Outgoing(f"{prefix}.observations", o.station, encode(o)) for o in rows])
    writer.flush(60.0)


def test_memory_of_an_agent_over_a_million_observations() -> None:
    """With max_points the whole agent stays as it was after the first hundred thousand."""
    settings = settings_of("m", 1)
    model = ModelSettings(max_points=1_000, n_neighbors=8, warm_up=100)
    role = agent_role(msgspec.structs.replace(settings, model=model), "A")
    role.start(0.0)
    rng, sizes, process = np.random.default_rng(2), {}, psutil.Process()
    for block in range(100):
        first, y = 10_000 * block, rng.normal(size=10_000).tolist()
        values = [encode(Observation(station="A", time_ms=(first + i) * STEP_MS, y=y[i])) for i in range(10_000)]
        messages = [Message("m.observations", 0, first + i, "A", values[i], 10**13) for i in range(10_000)]
        for start in range(0, 10_000, 500):
            now_s = first + start + 0.0
            role.feed(messages[start : start + 500], now_s)
            while role.handled < first + start + 500:
                role.drain(now_s)
        sizes[first + 10_000] = process.memory_info().rss / 2**20
    print(
        "\nresident memory, MiB: " + ", ".join(f"{n:,}: {sizes[n]:.0f}" for n in (10**5, 2 * 10**5, 5 * 10**5, 10**6))
    )
    assert sizes[10**6] - sizes[10**5] < 20
