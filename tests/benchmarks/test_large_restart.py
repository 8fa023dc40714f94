"""How long an agent that has learned a hundred thousand observations takes from its start to its first answer."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from streamgp.models.local import EstimatorModel
from streamgp.models.nearest_stream import NearestStream
from streamgp.roles.settings import AgentSettings, KeepSettings, ModelSettings, Settings
from streamgp.roles.wiring import agent_role
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Log, Subscription
from streamgp.wire.memory import MemoryLog
from streamgp.wire.topics import topic_plan
from tests.benchmarks.reliable import kept, rows
from tests.broker.test_processes import command, processes

pytestmark = pytest.mark.bench
COUNT = 100_000
LARGE = Settings(
    prefix="bench",
    agent=AgentSettings(settle_s=0.0, idle_wait_s=0.0, horizons=()),
    model=ModelSettings(max_points=COUNT, n_neighbors=8),
    keep=KeepSettings(snapshot_every_s=1e6, snapshot_busy_s=1e6, commit_interval_s=0.05),
)


#: after so many the last of the model's fits is done
FITTED = 1_100


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The state of an agent that has learned a hundred thousand observations.

    Once its hyperparameters are fitted they are held until all is learned: to follow them takes minutes, and it
    changes neither the size of the state nor the work of a restart.
    """
    log = MemoryLog()
    log.create_topics(topic_plan("bench"))
    role = agent_role(LARGE, "A")
    one = kept(log, role, "agent.A", LARGE, str(tmp_path_factory.mktemp("large")))
    one.recover()
    log.writer().write(rows(LARGE, ("A",), COUNT))
    while role.counts["learned"] < FITTED:
        one.step(0.0)
    local = role.agent.model._model
    assert isinstance(local, EstimatorModel)
    assert isinstance(local.estimator, NearestStream)
    model = local.estimator.model_
    assert model is not None
    tuner, model.tuner = model.tuner, None
    while role.counts["learned"] < COUNT:
        one.step(0.0)
    model.tuner = tuner
    one.finish()
    state = {**role.state(), "next": []}  # the offsets of the log that it is put into begin anew
    one.close()
    return state


def _behind(log: Log, settings: Settings, state: str, large: dict[str, Any]) -> Settings:
    """Keep the large state where an agent finds it, with one reading more to be learned; the agent's settings."""
    log.create_topics(topic_plan(settings.prefix))
    role = agent_role(settings, "A")
    role.restore(large)
    first = kept(log, role, "agent.A", settings, state)
    first.recover()
    first.commit()
    first.close()
    writer = log.writer()
    writer.write(rows(settings, ("A",), COUNT + 1)[-1:])
    writer.flush(10.0)
    return replace(settings, agent=replace(settings.agent, horizons=(1,)))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("where", "store"), [("memory", "folder"), ("broker", "folder"), ("broker", "topic")])
def test_restart_with_a_hundred_thousand_observations(
    where: str, store: str, large: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """To the first answer in less than 2 s; what is read again, from the disk or from the topic, is all of it."""
    log = MemoryLog() if where == "memory" else KafkaLog(request.getfixturevalue("broker"))
    settings = replace(LARGE, prefix=request.getfixturevalue("prefix"))
    state = "topic" if store == "topic" else str(tmp_path)
    settings = _behind(log, settings, state, large)
    begun, used = time.perf_counter(), time.process_time()
    again = kept(log, agent_role(settings, "A"), "agent.A", settings, state)
    again.recover()
    restored_s = time.perf_counter() - begun
    while again.role.counts["answered"] < 1:
        again.step(0.05)
    seconds, cpu_s = time.perf_counter() - begun, time.process_time() - used
    print(
        f"\n{where}, {store}: restored in {restored_s:.2f} s, first answer after {seconds:.2f} s, {cpu_s:.2f} s of CPU"
    )
    assert again.role.counts["learned"] == COUNT + 1
    again.close()
    log.close()
    assert seconds < 2.0


PROCESS = """
[agent]
settle_s = 0.0
idle_wait_s = 0.0
[model]
max_points = 100000
n_neighbors = 8
"""


@pytest.mark.timeout(900)
def test_a_process_with_a_hundred_thousand_observations(
    large: dict[str, Any], broker: str, prefix: str, tmp_path: Path
) -> None:
    """The same as ``streamgp agent``, from the start of the interpreter to the answer in the topic."""
    log, settings = KafkaLog(broker), replace(LARGE, prefix=prefix)
    _behind(log, settings, str(tmp_path / "state"), large)
    (tmp_path / "settings.toml").write_text(PROCESS)
    reader = log.reader([Subscription(f"{prefix}.predictions")])
    while not reader.stats.exhausted:
        reader.poll(0.2)
    shared = ["--broker", broker, "--prefix", prefix, "--settings", str(tmp_path / "settings.toml")]
    begun = time.perf_counter()
    with processes(
        {"A": command("agent", "--station", "A", *shared, "--state", str(tmp_path / "state"))}, tmp_path
    ) as a:
        while not reader.poll(0.05):
            assert a["A"].poll() is None, (tmp_path / "A.log").read_text()
        seconds = time.perf_counter() - begun
        used = Path(f"/proc/{a['A'].pid}/stat").read_text().rsplit(")", 1)[1].split()
    cpu_s = (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")
    print(f"\nprocess: first answer after {seconds:.2f} s, {cpu_s:.2f} s of CPU")
    reader.close()
    log.close()
    assert seconds < 2.0
