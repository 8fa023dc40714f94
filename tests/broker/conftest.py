"""A real broker for the tests of this folder: started once, or the one that STREAMGP_TEST_BROKER names.

At a desk without Java, Maven or a network these tests skip and say which is missing; with CI=true they fail.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docker" / "broker"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.broker)


def unavailable(reason: str) -> None:
    """No broker: a reason to skip at a desk, a failure in CI."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"no broker, and CI=true: {reason}", pytrace=False)
    pytest.skip(f"no broker: {reason}")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real broker, for the whole session. Whoever stops it must use one of his own."""
    given = os.environ.get("STREAMGP_TEST_BROKER")
    if given:
        yield given
        return
    folder = tmp_path_factory.mktemp("broker")
    command = [sys.executable, str(SCRIPT), "run", "--dir", str(folder), "--json", "--until-stdin-closes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        if not line:
            unavailable(process.stderr.read().decode().strip())
        yield json.loads(line)["bootstrap"]
        process.stdin.close()  # the script stops the broker then, and also if this process is killed
        process.wait(30)


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A fresh topic prefix for each test."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:40]
    return f"{name}-{uuid.uuid4().hex[:8]}"


class OwnBroker:
    """A broker that a test may stop, start and freeze."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = ""
        self.pid = 0

    def start(self) -> str:
        done = self._call("start", "--json", *(["--port", self.address.rpartition(":")[2]] if self.address else []))
        if done.returncode in (10, 11, 12):
            unavailable(done.stderr.strip())
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        self.address, self.pid = told["bootstrap"], told["pid"]
        return self.address

    def stop(self, *, keep: bool = True) -> None:
        done = self._call("stop", *(["--keep"] if keep else []))
        assert done.returncode == 0, done.stderr

    def freeze(self) -> None:
        """As a network that carries nothing: connections stand, nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(SCRIPT), *words, "--dir", str(self.folder)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    """A broker for one module, not yet started."""
    own = OwnBroker(tmp_path_factory.mktemp("own"))
    yield own
    own.stop(keep=False)
