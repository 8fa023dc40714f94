"""Each station's observations in a topic of its own: the same network, and nobody subscribes to a neighbour's rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from streamgp.errors import SettingsError
from streamgp.roles.access import rules
from streamgp.roles.kinds import own_roles
from streamgp.roles.settings import parse_settings
from streamgp.roles.wiring import subscriptions
from streamgp.wire.codec import encode
from streamgp.wire.log import Outgoing
from streamgp.wire.topics import topic_plan
from tests.flow.network import STATIONS, Network, observations, settings_of

SENT = observations(20)


def test_the_numbers_do_not_depend_on_where_the_rows_are(tmp_path: Path) -> None:
    shared = Network(tmp_path / "shared", settings_of())
    shared.send(SENT)
    shared.run()
    settings = replace(settings_of(), observation_topics="per-station")
    network = Network(tmp_path / "own", settings)
    network.log.create_topics(topic_plan(settings.prefix, stations=settings.own_topics()))
    network.log.writer().write([Outgoing(settings.observations_topic(o.station), o.station, encode(o)) for o in SENT])
    network.run()
    network.check(SENT)
    assert network.read("scores")
    for station in STATIONS:
        assert network.model(station) == shared.model(station)


def test_an_agent_reads_its_own_rows_alone() -> None:
    settings = replace(settings_of(), observation_topics="per-station")
    topics = {s.topic for s in subscriptions("agent", settings, station="A")}
    assert {t for t in topics if "observations" in t} == {"streamgp.observations.A"}
    scorer = {s.topic for s in subscriptions("scorer", settings)}
    assert {t for t in scorer if "observations" in t} == {f"streamgp.observations.{s}" for s in STATIONS}


@pytest.mark.parametrize("setting", ['observation_topics = "per-station"', 'state_topics = "per-role"'])
def test_the_names_of_all_stations_are_needed(setting: str) -> None:
    with pytest.raises(SettingsError, match="needs the names of all"):
        parse_settings(setting)


@pytest.mark.parametrize("state", ["folder", "topic"])
def test_a_network_lives_on_with_journals_and_snapshots_in_topics_of_their_own(state: str, tmp_path: Path) -> None:
    """Nothing of a role's state is in a topic that others need; who is killed finds it again."""
    settings = replace(settings_of(snapshot_every_s=0.2), state_topics="per-role")
    network = Network(tmp_path, settings, state=state)
    half = len(SENT) // 2
    for sent in (SENT[:half], SENT[half:]):
        network.send(sent)
        network.run()
        models = [network.model(station) for station in STATIONS]
        for name in network.names():
            network.kill(name)
            network.start(name)
        assert [network.model(station) for station in STATIONS] == models
        assert not any(kept.differs for kept in network.kept.values())
    network.check(SENT)
    assert not network.read("journal") + network.read("snapshots")
    for name in network.names():
        for suffix in ("journal", "snapshots"):
            assert {(m.key or "").split("/")[0] for m in network.read(f"{suffix}.{name}")} == {name}


def test_nobody_else_may_write_or_read_the_state_of_a_role() -> None:
    settings = replace(settings_of(), state_topics="per-role")
    for training in (False, True):
        found = rules(settings, training=training)
        kept = [rule for rule in found if rule.kind == "topic" and rule.name.split(".")[1] in ("journal", "snapshots")]
        assert {rule.name for rule in kept} <= {spec.name for spec in topic_plan("streamgp", roles=own_roles(settings))}
        assert all(rule.name in (f"streamgp.journal.{rule.role}", f"streamgp.snapshots.{rule.role}") for rule in kept)
        assert len(kept) == 4 * len({rule.role for rule in found})


def test_topics_of_their_own_are_kept_as_the_shared_ones_are() -> None:
    plan = {spec.name: spec for spec in topic_plan("p", roles=["agent.Malin Head"])}
    for suffix in ("journal", "snapshots"):
        own, shared = plan[f"p.{suffix}.agent.Malin_20Head"], plan[f"p.{suffix}"]
        assert (own.compacted, own.retention_ms, own.config) == (shared.compacted, shared.retention_ms, shared.config)
        assert own.partitions == 1
