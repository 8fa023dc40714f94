"""The rules of docs/acl.md, applied to a real broker's authorizer: an agent works, and sees no neighbour's rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from streamgp.cli import main
from streamgp.errors import LogError
from streamgp.roles.kinds import own_roles
from streamgp.roles.settings import Settings
from streamgp.wire.codec import encode
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Outgoing, Subscription
from streamgp.wire.records import Observation, Prediction
from streamgp.wire.topics import topic_plan
from tests.brokers import SOCKETS_ARE_LEFT, OwnBroker
from tests.flow.networks import records

pytestmark = SOCKETS_ARE_LEFT
ROOT = Path(__file__).resolve().parents[2]
PREFIX = "guarded"
STATIONS = ("A", "B")
USERS = ("admin", "agent.A", "agent.B", "cloud", "scorer")
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
SETTINGS = Settings(prefix=PREFIX, stations=STATIONS, observation_topics="per-station", state_topics="per-role")


def table(user: str) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": f"{user} secret",
    }


def settings_file(folder: Path, user: str) -> Path:
    path = folder / f"{user}.toml"
    rows = "\n".join(f"{key} = {json.dumps(value)}" for key, value in table(user).items())
    path.write_text(
        f'prefix = "{PREFIX}"\nstations = ["A", "B"]\n'
        'observation_topics = "per-station"\nstate_topics = "per-role"\n'
        f"[agent]\nsettle_s = 0.0\nmax_wait_s = 0.5\nidle_wait_s = 0.2\n[keep]\nend_within_s = 20.0\n[kafka]\n{rows}\n"
    )
    return path


@pytest.fixture(scope="module")
def guarded(own_broker: OwnBroker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A broker whose authorizer has the rules that the command line prints."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    users = " ".join(f'user_{user}="{user} secret"' for user in USERS)
    own_broker.extra = {
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f"{login} {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",  # its own listeners know no users
    }
    address = own_broker.start()
    log = KafkaLog(address, table("admin"))
    log.create_topics(topic_plan(PREFIX, partitions=2, stations=STATIONS, roles=own_roles(SETTINGS)))
    log.close()
    file = settings_file(tmp_path_factory.mktemp("admin"), "admin")
    told = json.loads(CliRunner().invoke(main, ["topics", "acl", "--settings", str(file), "--json"]).stdout)
    acls = [
        ACL(
            rule["principal"],
            "*",
            ACLOperation[rule["operation"].upper()],
            ACLPermissionType.ALLOW,
            ResourcePattern(KINDS[rule["kind"]], rule["name"]),
        )
        for rule in told["rules"]
    ]
    admin = KafkaAdminClient(bootstrap_servers=address, **table("admin"))
    admin.create_acls(acls)
    admin.close()
    return address


def test_an_agent_works_under_its_rules(guarded: str, tmp_path: Path) -> None:
    log = KafkaLog(guarded, table("admin"))
    writer = log.writer()
    sent = [Observation(station="A", time_ms=t * 60_000, y=float(t % 5)) for t in range(20)]
    writer.write([Outgoing(SETTINGS.observations_topic("A"), o.station, encode(o)) for o in sent])
    writer.flush(20.0)
    words = ["agent", "--station", "A", "--settings", str(settings_file(tmp_path, "agent.A")), "--broker", guarded]
    command = [sys.executable, "-m", "streamgp.cli", *words, "--state", str(tmp_path / "state")]
    with (tmp_path / "agent.log").open("wb") as out:
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 60.0
        answers: list[Any] = []
        while len(answers) < 11 and time.monotonic() < deadline and process.poll() is None:
            answers = records(log, PREFIX, "predictions", Prediction)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, (tmp_path / "agent.log").read_text()
        assert {a.agent for a in answers} == {"A"}
        assert len(answers) == 11  # the moving average is full at the tenth
    finally:
        process.kill()
        process.wait(10)
        log.close()


def test_a_neighbours_rows_are_out_of_reach(guarded: str) -> None:
    """Reading and writing them, and running as the neighbour."""
    log = KafkaLog(guarded, table("agent.B"))
    reader = log.reader([Subscription(SETTINGS.observations_topic("A"))])
    with pytest.raises(LogError, match=r"denies access|does not exist"):
        read_something(reader)
    forecasts = log.reader([Subscription(f"{PREFIX}.forecasts")])
    assert forecasts.poll(2.0) == []
    assert forecasts.stats.connected
    writer = log.writer()
    with pytest.raises(LogError, match=r"Authorization|denies|not confirmed|does not exist"):
        write_and_flush(writer, Outgoing(SETTINGS.observations_topic("A"), "A", b"{}"))
    with pytest.raises(LogError, match="denies access"):
        start_as(log, f"{PREFIX}.agent.A")
    log.close()


def test_a_neighbours_journal_and_snapshots_are_out_of_reach(guarded: str) -> None:
    """Nothing of its own making can stand under the neighbour's name; nor are the rows in a snapshot to be read."""
    log = KafkaLog(guarded, table("agent.B"))
    for suffix in ("journal", "snapshots"):
        topic = SETTINGS.state_topic(suffix, "agent.A")
        with pytest.raises(LogError, match=r"denies access|does not exist"):
            read_something(log.reader([Subscription(topic)]))
        with pytest.raises(LogError, match=r"Authorization|denies|not confirmed|does not exist"):
            write_and_flush(log.writer(), Outgoing(topic, "agent.A/head", b"7"))
    log.close()


def read_something(reader: Any) -> None:
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        reader.poll(0.5)


def write_and_flush(writer: Any, record: Outgoing) -> None:
    writer.write([record])
    writer.flush(20.0)


def start_as(log: KafkaLog, transactional_id: str) -> None:
    writer = log.writer(transactional_id=transactional_id)
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        try:
            with writer.transaction():
                return
        except LogError as error:
            if "not connected" not in str(error):
                raise
