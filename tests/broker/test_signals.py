"""What a signal does to a process that is hard at work."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np

from streamgp.wire.codec import encode
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Outgoing
from streamgp.wire.records import Observation
from tests.broker.test_processes import ROOT, command, processes, wait_for

HOUR = 3_600_000


def test_sigterm_in_the_middle_of_tuning(broker: str, prefix: str, tmp_path: Path) -> None:
    """C47: a backlog whose hyperparameters are being fitted; exit 0 within 5 s, and what was learned is kept."""
    (tmp_path / "settings.toml").write_text("[model]\nwarm_up = 400\nn_neighbors = 64\n")
    shared = ["--broker", broker, "--prefix", prefix, "--settings", str(tmp_path / "settings.toml")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command("topics", "create", *shared), env=env, check=True, capture_output=True)
    log, y = KafkaLog(broker), np.random.default_rng(0).normal(size=20_000)
    writer = log.writer()
    rows = (Observation(station="A", time_ms=i * HOUR, y=float(v)) for i, v in enumerate(y))
    writer.write([Outgoing(f"{prefix}.observations", "A", encode(row)) for row in rows])
    writer.flush(60.0)
    log.close()
    state = tmp_path / "state"
    words = command("agent", "--station", "A", *shared, "--state", str(state))
    with processes({"A": words}, tmp_path) as running:
        wait_for("a first snapshot", lambda: list(state.rglob("*.sgp")), seconds=60)
        time.sleep(1.0)  # 20,000 rows are minutes of work: it is in the middle of them
        begun = time.monotonic()
        running["A"].send_signal(signal.SIGTERM)
        assert running["A"].wait(30) == 0
        took = time.monotonic() - begun
    assert took < 5.0, (tmp_path / "A.log").read_text()
    with processes({"A": words}, tmp_path) as running:  # goes on: neither anew nor refused
        time.sleep(1.0)
        assert running["A"].poll() is None, (tmp_path / "A.log").read_text()
