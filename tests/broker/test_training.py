"""A federated training over a real broker: the same numbers as in one process, whoever is killed in mid-round."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from streamgp.gp.hierarchy.data import client_data
from streamgp.models.hgp.rounds import run_rounds, server_start
from streamgp.roles.training_records import state_of, units_from
from streamgp.roles.training_rows import newest_state
from streamgp.wire.codec import encode
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Outgoing, Subscription
from streamgp.wire.records import GlobalState, Observation, Update
from streamgp.wire.topics import topic_plan
from tests.flow.networks import records
from tests.roles.training import SETTINGS, rows_of

ROOT = Path(__file__).resolve().parents[2]
DAY_MS = 86_400_000


def answered(log: KafkaLog, prefix: str) -> Counter[tuple[str, int]]:
    """How often each client's each round is in ``updates``."""
    return Counter((update.client, update.round) for update in records(log, prefix, "updates", Update))


def kill_in_mid_round(process: subprocess.Popen[bytes], name: str, other: str, *, log: KafkaLog, prefix: str) -> int:
    """Kill -9 a client that owes its answer to a round that another has answered; that round."""
    deadline = time.monotonic() + 100.0
    while time.monotonic() < deadline:
        process.send_signal(signal.SIGSTOP)
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            given = answered(log, prefix)
            ahead = [round_ for client, round_ in given if client == other and (name, round_) not in given]
            if ahead:
                process.kill()
                process.wait(10)
                return ahead[0]
        process.send_signal(signal.SIGCONT)  # it had answered: the next round
        time.sleep(0.05)
    raise AssertionError("no round was open")


def test_processes_give_the_numbers_of_one_process_though_a_client_and_the_server_are_killed(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    settings = msgspec.structs.replace(SETTINGS, expected=2, min_clients=2, rounds=5, round_s=120.0, wait_s=240.0)
    table = {k: v for k, v in msgspec.structs.asdict(settings).items() if v is not None}
    lines = ["[training]", *(f"{name} = {json.dumps(value)}" for name, value in table.items())]
    (tmp_path / "s.toml").write_text("\n".join(lines), encoding="utf-8")
    data = rows_of(2)
    log = KafkaLog(broker)
    log.create_topics(topic_plan(prefix))
    writer = log.writer()
    rows = {}
    for name, (X, Y) in data.items():
        times = [int(t * DAY_MS) for t in X[:, 0]]
        rows[name] = (np.array([[t / DAY_MS] for t in times]), Y)
        observed = [Observation(station=name, time_ms=t, y=tuple(y)) for t, y in zip(times, Y.tolist(), strict=True)]
        writer.write([Outgoing(f"{prefix}.observations", name, encode(o)) for o in observed])
    writer.flush(30.0)

    def newest() -> GlobalState | None:
        return newest_state(log.reader([Subscription(f"{prefix}.globals")]), "default")

    def start(*words: str) -> subprocess.Popen[bytes]:
        common = ["--broker", broker, "--prefix", prefix, "--settings", str(tmp_path / "s.toml")]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen([sys.executable, "-m", "streamgp.cli", *words, *common], env=env, cwd=tmp_path)

    running = [start("trainer", "--state", str(tmp_path))]
    try:
        # all rows are at hand before a station hears of round 0, as in one process
        running += [start("trainee", "--station", n, "--state", str(tmp_path)) for n in data]
        victim, other = tuple(data)
        owed = kill_in_mid_round(running[1], victim, other, log=log, prefix=prefix)
        state = newest()
        assert state is not None
        assert state.round == owed  # it stays open: the others wait
        running[1] = start("trainee", "--station", victim, "--state", str(tmp_path))
        deadline = time.monotonic() + 200.0
        while ((state := newest()) is None or state.round < owed + 1) and time.monotonic() < deadline:
            time.sleep(0.2)
        running[0].send_signal(signal.SIGKILL)
        running[0].wait(10)
        running[0] = start("trainer", "--state", str(tmp_path))
        assert [process.wait(200) for process in running] == [0, 0, 0]
    finally:
        for process in running:
            process.kill()
            process.wait(10)
    last = newest()
    given = answered(log, prefix)
    closed = [s.round for s in records(log, prefix, "globals", GlobalState) if s.status in ("ok", "done")]
    log.close()
    assert given == Counter({(name, round_): 1 for name in data for round_ in range(5)})
    assert closed == [1, 2, 3, 4, 5]
    assert last is not None
    assert (last.status, last.round, last.clients) == ("done", 5, tuple(data))
    plan, units = settings.plan(), units_from(settings)
    ready = {name: client_data(units.inputs(X), Y) for name, (X, Y) in rows.items()}
    begin = server_start(plan, settings.schedule(), low=np.array([-5.0]), high=np.array([5.0]))
    with threadpool_limits(1):  # as the processes: sums of several threads round otherwise
        state, _ = run_rounds(ready, begin, plan, settings.schedule())
    got = state_of(last)
    for name, a in state.block.items():
        np.testing.assert_allclose(got.block[name], a, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(got.precision, state.precision, rtol=1e-10, atol=1e-10)
