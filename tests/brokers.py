"""A real broker without Docker, as tests use it: through docker/broker, like everybody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "docker" / "broker"


def unavailable(reason: str) -> None:
    """No broker: a reason to skip at a desk, a failure in CI."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"no broker, and CI=true: {reason}", pytrace=False)
    pytest.skip(f"no broker: {reason}")


class OwnBroker:
    """A broker that a test may stop, start and freeze."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = ""
        self.pid = 0
        self.extra: dict[str, str] = {}

    def start(self) -> str:
        port = ["--port", self.address.rpartition(":")[2]] if self.address else []
        extra = [word for key, value in self.extra.items() for word in ("--set", f"{key}={value}")]
        done = self._call("start", "--json", *port, *extra)
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


#: For modules of failed attempts to connect: kafka-python leaves their sockets to the garbage collector.
SOCKETS_ARE_LEFT = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("garbage_collected"),
]
