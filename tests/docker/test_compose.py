"""docker/compose.yaml without an engine: read, and held against the command line, the data set and a real broker."""

from __future__ import annotations

import base64
import csv
import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from streamgp.cli import main
from tests.brokers import OwnBroker

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ROLES = {name: service for name, service in SERVICES.items() if name != "kafka"}
KAFKA = SERVICES["kafka"]

#: the keys of a service in the Compose specification, as far as they are used here
KEYS = {
    *("image", "build", "command", "environment", "depends_on", "healthcheck", "ports", "volumes", "profiles"),
    *("restart", "init", "read_only", "tmpfs", "cap_drop", "security_opt", "stop_grace_period", "mem_limit", "tty"),
}
TYPES: dict[str, type] = {
    "image": str,
    "command": list,
    "ports": list,
    "volumes": list,
    "profiles": list,
    "tmpfs": list,
    "depends_on": dict,
    "environment": dict,
    "healthcheck": dict,
    "build": dict,
    "cap_drop": list,
    "init": bool,
    "read_only": bool,
    "tty": bool,
    "restart": str,
    "mem_limit": str,
    "stop_grace_period": str,
}


def properties() -> dict[str, str]:
    """What the official image makes of its variables: KAFKA_A_B is a.b, __ a dash, ___ an underscore."""
    found = {}
    for name, value in KAFKA["environment"].items():
        if name.startswith("KAFKA_"):
            key = name[6:].lower().replace("___", "\0").replace("__", "-").replace("_", ".").replace("\0", "_")
            found[key] = value
    return found


def test_the_file_has_no_unknown_part() -> None:
    assert {key for key in COMPOSE if not key.startswith("x-")} == {"name", "services", "volumes"}
    for name, service in SERVICES.items():
        assert set(service) <= KEYS, name
        for key, value in service.items():
            assert isinstance(value, TYPES.get(key, object)), f"{name}.{key}"
        assert service["restart"] in ("no", "unless-stopped")


def test_every_variable_is_text() -> None:
    """YAML reads true, 1 and no as something else than text, and an engine would not."""
    assert all(isinstance(value, str) for value in KAFKA["environment"].values())
    for service in ROLES.values():
        assert all(isinstance(word, str) for word in service["command"])


def test_every_service_can_start() -> None:
    """An image or a build that is there, and dependencies that exist, come true, and make no circle."""
    for name, service in SERVICES.items():
        assert service.get("image") or service.get("build")
        if "build" in service:
            context = (FOLDER / service["build"]["context"]).resolve()
            assert context == ROOT
            assert (context / service["build"]["dockerfile"]).is_file()
        for needed, how in service.get("depends_on", {}).items():
            assert needed in SERVICES, name
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed]
            else:
                assert how["condition"] == "service_completed_successfully"
                assert SERVICES[needed]["restart"] == "no"
    order: list[str] = []
    while len(order) < len(SERVICES):
        ready = [n for n, s in SERVICES.items() if n not in order and set(s.get("depends_on", {})) <= set(order)]
        assert ready, "a circle of dependencies"
        order += ready
    assert order[0] == "kafka"


@pytest.mark.parametrize("name", sorted(ROLES))
def test_every_command_is_one_of_this_version(name: str) -> None:
    command: click.Command = main
    context = click.Context(main, info_name="streamgp")
    words = list(ROLES[name]["command"])
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    parsed = command.make_context(name, words, parent=context)
    assert parsed.params.get("broker") == (None if name == "keys" else "kafka:9092")


def test_every_role_has_a_key_and_keeps_its_state_in_the_topic() -> None:
    """Brokers that are not on this machine are spoken to with signatures."""
    words = SERVICES["keys"]["command"]
    allowed = {words[i + 1] for i, word in enumerate(words) if word in ("--station", "--role")}
    agents = [s["command"] for n, s in SERVICES.items() if n.startswith("agent-")]
    assert allowed == {"cloud", "scorer", "asker"} | {command[command.index("--station") + 1] for command in agents}
    for name, service in ROLES.items():
        assert service["environment"] == {"STREAMGP_STATE": "topic", "STREAMGP_KEYS": "/keys"}
        assert service["volumes"] == (["keys:/keys"] if name == "keys" else ["keys:/keys:ro"])


def test_there_is_one_agent_for_each_station_of_the_data_set() -> None:
    commands = [s["command"] for n, s in SERVICES.items() if n.startswith("agent-")]
    with (ROOT / "producers/datasets/irish_wind_stations.csv").open() as lines:
        stations = sorted(row["station"] for row in csv.DictReader(lines))
    assert sorted(command[command.index("--station") + 1] for command in commands) == stations
    assert len(commands) == 12


def test_containers_may_do_no_more_than_they_must() -> None:
    for name, service in ROLES.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert int(service["stop_grace_period"].rstrip("s")) > 5
        assert "ports" not in service
    for port in KAFKA["ports"]:
        assert port.startswith("127.0.0.1:")


def test_profiles_keep_what_is_started_by_hand_apart() -> None:
    assert {n for n, s in SERVICES.items() if "profiles" in s} == {"replay", "watch"}


def test_images_are_pinned_and_the_broker_is_the_one_that_the_tests_use() -> None:
    version = re.search(r'KAFKA_VERSION = "([\d.]+)"', (FOLDER / "broker").read_text())
    assert version is not None
    assert KAFKA["image"] == f"apache/kafka:{version.group(1)}"
    assert f"<version>{version.group(1)}</version>" in (FOLDER / "pom.xml").read_text()
    assert all(re.search(r":[\w.]+$", s["image"]) and not s["image"].endswith(":latest") for s in SERVICES.values())


def test_the_broker_is_found_at_the_address_that_the_roles_use() -> None:
    told = properties()
    listeners = {item.split("://")[0]: item.split("://")[1] for item in told["listeners"].split(",")}
    assert "INTERNAL://kafka:9092" in told["advertised.listeners"].split(",")
    assert listeners["INTERNAL"] == ":9092"
    assert set(listeners) == {item.split(":")[0] for item in told["listener.security.protocol.map"].split(",")}
    assert KAFKA["ports"] == ["127.0.0.1:29092:" + listeners["HOST"].lstrip(":")]
    assert told["auto.create.topics.enable"] == "false"
    assert len(base64.urlsafe_b64decode(KAFKA["environment"]["CLUSTER_ID"] + "==")) == 16
    assert any(volume.split(":")[1] == told["log.dirs"] for volume in KAFKA["volumes"])
    mounted = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert set(COMPOSE["volumes"]) == mounted


def test_every_property_is_one_that_a_real_broker_knows(broker: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker)
    node = str(admin.describe_cluster()["brokers"][0]["broker_id"])
    wanted = [ConfigResource(ConfigResourceType.BROKER, node)]
    (resources,) = admin.describe_configs(wanted, config_filter="all").values()
    admin.close()
    known = set(resources[node])
    assert "log.dirs" in known
    assert "log.dir.of.nobody" not in known
    assert set(properties()) <= known


def test_a_real_broker_serves_with_the_same_properties(own_broker: OwnBroker) -> None:
    """All but the addresses and the folder, which are those of a container."""
    elsewhere = {"listeners", "advertised.listeners", "controller.quorum.voters", "log.dirs", "node.id"}
    elsewhere |= {"listener.security.protocol.map", "inter.broker.listener.name"}
    own_broker.extra = {key: value for key, value in properties().items() if key not in elsewhere}
    admin = KafkaAdminClient(bootstrap_servers=own_broker.start())
    assert admin.list_topics() == []
    admin.close()
    written = (own_broker.folder / "server.properties").read_text().splitlines()
    assert {f"{key}={value}" for key, value in own_broker.extra.items()} <= set(written)
