"""Each station's observations in a topic of its own: the same network, and nobody subscribes to a neighbour's rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from streamgp.errors import SettingsError
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


def test_the_names_of_all_stations_are_needed() -> None:
    with pytest.raises(SettingsError, match="needs the names of all"):
        parse_settings('observation_topics = "per-station"')
