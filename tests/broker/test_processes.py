"""Fourteen processes over a real broker: the same forecasts as one process, to the last bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from producers.datasets import observations
from streamgp.demo.plan import Plan
from streamgp.demo.run import run_embedded
from streamgp.roles.settings import load_settings
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Progress, StationForecast
from tests.flow.networks import numbers, records

ROOT = Path(__file__).resolve().parents[2]
DAYS = 40
SETTINGS = """
[model]
warm_up = 20
n_neighbors = 8
[agent]
max_wait_s = 120.0
[keep]
end_within_s = 30.0  # fourteen of them end at once
"""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "streamgp.cli", *words]


@contextmanager
def processes(commands: dict[str, list[str]], folder: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Started together; whatever still runs at the end is killed."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    running = {}
    try:
        for name, words in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                running[name] = subprocess.Popen(words, env=env, cwd=folder, stdout=log, stderr=log)
        yield running
    finally:
        for process in running.values():
            process.kill()
            process.wait(10)


def wait_for(what: str, ready: object, *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not ready():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.25)


@pytest.mark.timeout(280)
def test_fourteen_processes_give_the_forecasts_of_one(broker: str, prefix: str, tmp_path: Path) -> None:
    """Also C47: SIGTERM ends every role with exit code 0 within 5 s of its own time."""
    settings_file = tmp_path / "settings.toml"
    settings_file.write_text(SETTINGS)
    rows = tuple(observations("irish-wind", limit=12 * DAYS))
    settings = msgspec.structs.replace(load_settings(settings_file), prefix=prefix)
    embedded = MemoryLog()
    run_embedded(Plan("irish-wind", rows, settings, liars=0), lambda tally: None, log=embedded)
    expected = numbers(embedded, prefix)

    shared = ["--broker", broker, "--prefix", prefix, "--settings", str(settings_file)]
    made = subprocess.run(command("topics", "create", *shared), env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    assert made.returncode == 0
    stations = sorted({o.station for o in rows})
    commands = {s: command("agent", "--station", s, *shared) for s in stations}
    commands |= {"cloud": command("cloud", *shared), "scorer": command("scorer", *shared)}
    log = KafkaLog(broker)
    with processes(commands, tmp_path) as running:
        wait_for("hello of all agents", lambda: len(greeted(log, prefix)) == 12, seconds=150)
        sent = subprocess.run(
            command("replay", "--dataset", "irish-wind", "--limit", str(12 * DAYS), "--json", *shared),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        )
        assert json.loads(sent.stdout)["acknowledged"] == 12 * DAYS
        wanted = len(expected["station-forecasts"])
        wait_for("all forecasts", lambda: len(concluded(log, prefix)) >= wanted, seconds=150)
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        codes = {name: process.wait(60) for name, process in running.items()}
    assert set(codes.values()) == {0}, codes
    told = numbers(log, prefix)
    log.close()
    assert told == expected


def greeted(log: KafkaLog, prefix: str) -> set[str]:
    return {r.station for r in records(log, prefix, "progress", Progress)}


def concluded(log: KafkaLog, prefix: str) -> list[StationForecast]:
    """Those that are committed; offsets do not count them, for transactions leave marks."""
    return records(log, prefix, "station-forecasts", StationForecast)
