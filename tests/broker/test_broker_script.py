"""docker/broker: what it says when something is missing, and that two brokers do not disturb each other."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docker" / "broker"


def call(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    command = [sys.executable, str(SCRIPT), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=90)


def commands(folder: Path, **scripts: str) -> str:
    """A PATH that holds these commands only."""
    folder.mkdir()
    for name, body in {"ps": 'exec /bin/ps "$@"', **scripts}.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    return str(folder)


JAVA = "echo 'openjdk version \"21.0.1\"' >&2"


def test_missing_java_is_named(tmp_path: Path) -> None:
    path = commands(tmp_path / "bin")
    done = call("start", "--dir", tmp_path / "b", PATH=path, JAVA_HOME="")
    assert done.returncode == 10
    assert "Java is missing" in done.stderr
    assert not (tmp_path / "b").exists()


def test_old_java_is_named(tmp_path: Path) -> None:
    path = commands(tmp_path / "bin", java="echo 'openjdk version \"11.0.2\"' >&2")
    done = call("start", "--dir", tmp_path / "b", PATH=path, JAVA_HOME="")
    assert done.returncode == 10
    assert "Java 11 is too old" in done.stderr


def test_missing_maven_is_named(tmp_path: Path) -> None:
    path = commands(tmp_path / "bin", java=JAVA)
    done = call("start", "--dir", tmp_path / "b", PATH=path, JAVA_HOME="", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 11
    assert "Maven (mvn) is missing" in done.stderr


def test_missing_network_is_named_and_leaves_no_half_cache(tmp_path: Path) -> None:
    path = commands(tmp_path / "bin", java=JAVA, mvn="echo '[ERROR] Unknown host'; exit 1")
    cache = tmp_path / "cache"
    done = call("start", "--dir", tmp_path / "b", PATH=path, JAVA_HOME="", XDG_CACHE_HOME=str(cache))
    assert done.returncode == 12
    assert "network" in done.stderr
    assert "Unknown host" in done.stderr
    assert [p.name for p in (cache / "streamgp").iterdir()] == [".lock"]


def test_wrong_use_has_its_own_code(tmp_path: Path) -> None:
    assert call("fly").returncode == 2
    assert call("start", "--dir", tmp_path / "b", "--set", "novalue").returncode == 2


def test_a_cluster_id_never_reads_as_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """One random id in 64 starts with a dash; Kafka's format tool then asks for the argument that it was given."""
    drawn = iter([uuid.UUID(bytes=b"\xf8" * 16), uuid.UUID(bytes=b"\xfb" * 16), uuid.UUID(bytes=b"\x01" * 16)])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(drawn))
    assert runpy.run_path(str(SCRIPT))["cluster_id"]() == "AQEBAQEBAQEBAQEBAQEBAQ"


def test_status_without_a_broker(tmp_path: Path) -> None:
    done = call("status", "--dir", tmp_path / "b")
    assert done.returncode == 3
    assert call("stop", "--dir", tmp_path / "b").returncode == 0


def test_two_brokers_start_restart_and_leave_nothing(broker: str, tmp_path: Path) -> None:
    """A second broker beside the session's: other ports, loopback only, same ports and data after a restart."""
    folder = tmp_path / "second"
    try:
        started = call("start", "--dir", folder, "--json", "--set", "num.partitions=3")
        assert started.returncode == 0, started.stderr
        told = json.loads(started.stdout)
        assert told["bootstrap"] != broker
        assert all(serves(port) for port in told["ports"].values())
        assert "num.partitions=3" in (folder / "server.properties").read_text()
        assert call("start", "--dir", folder).returncode == 14
        cluster = (folder / "data" / "meta.properties").read_text()
        again = json.loads(call("restart", "--dir", folder, "--json").stdout)
        assert again["ports"] == told["ports"]
        assert again["pid"] != told["pid"]
        assert (folder / "data" / "meta.properties").read_text() == cluster
        assert call("status", "--dir", folder).stdout.strip() == told["bootstrap"]
    finally:
        assert call("stop", "--dir", folder).returncode == 0
    assert not folder.exists()
    assert not any(serves(port) for port in told["ports"].values())
    assert serves(int(broker.rpartition(":")[2]))


def test_run_ends_its_broker_on_a_signal(broker: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, str(SCRIPT), "run", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().decode().rpartition(":")[2])
        assert serves(port)
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(25) == 0
    assert time.monotonic() - begun < 20
    assert not serves(port)
    assert not folder.exists()


def test_a_busy_port_is_an_error_that_names_it(broker: str, tmp_path: Path) -> None:
    port = broker.rpartition(":")[2]
    done = call("start", "--dir", tmp_path / "busy", "--port", port)
    assert done.returncode == 13
    assert port in done.stderr
    assert not (tmp_path / "busy").exists()


def serves(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(shutil.which("ss") is None, reason="ss is not installed")
def test_it_listens_on_loopback_only(broker: str) -> None:
    port = broker.rpartition(":")[2]
    lines = [line for line in subprocess.check_output(["ss", "-ltnH"], text=True).splitlines() if f":{port} " in line]
    assert lines
    assert all("127.0.0.1" in line for line in lines)
