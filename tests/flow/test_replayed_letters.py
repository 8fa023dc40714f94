"""What a wrong setting refused is learned once the setting is mended and the dead letters are written again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from streamgp.cli import main
from streamgp.wire.deadletter import read_dead_letter
from streamgp.wire.records import Observation
from tests.flow.network import HOUR, STATIONS, Network, observations, settings_of

SENT = observations(8)


def replayed(network: Network, *, reason: str = "out of range") -> dict[str, int]:
    done = CliRunner().invoke(main, ["dead-letters", "replay", "--reason", reason, "--json"], obj=network.log)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)  # type: ignore[no-any-return]  # an object, by --json's promise


def test_refused_readings_are_learned_after_the_setting_is_mended_and_once(tmp_path: Path) -> None:
    """The range was in another unit: everything is a dead letter; mended, restarted and replayed it is all learned."""
    network = Network(tmp_path, replace(settings_of(), door={"y_range": [200.0, 300.0]}))
    network.send(SENT)
    network.run()
    letters = [read_dead_letter(m) for m in network.read("dead-letter")]
    assert {(letter.field, letter.topic) for letter in letters} == {("y", "streamgp.observations")}
    assert {network.roles[f"agent.{s}"].counts["learned"] for s in STATIONS} == {0}
    for name in network.names():
        network.kill(name)
    network.settings = replace(network.settings, door={})
    network.run(quiet=10)
    assert replayed(network) == {"found": len(SENT), "written": len(SENT), "cannot": {}}
    network.run()
    assert {network.roles[f"agent.{s}"].counts["learned"] for s in STATIONS} == {len(SENT) // len(STATIONS)}
    assert replayed(network)["written"] == len(SENT)
    network.run()
    assert {network.roles[f"agent.{s}"].counts["learned"] for s in STATIONS} == {len(SENT) // len(STATIONS)}
    again = {read_dead_letter(m).reason.partition(" by ")[0] for m in network.read("dead-letter")[len(SENT) :]}
    assert again == {"late", "duplicate"}


@pytest.mark.parametrize(
    ("values", "door", "mended", "reason"),
    [
        ([7.0] * 6, {"max_equal_run": 3}, {}, "stuck"),
        ([1.0, 2.0, 1.5, 500.0, 501.0, 502.0], {"shift_after": 2}, {"shift_ranges": 1e5}, "level/unit"),
    ],
)
def test_what_was_refused_for_its_value_is_learned_after_the_setting_is_mended(
    tmp_path: Path, values: list[float], door: dict[str, Any], mended: dict[str, Any], reason: str
) -> None:
    """It came back as a duplicate of itself, or late behind itself."""
    network = Network(tmp_path, replace(settings_of(), door=door))
    network.send([Observation(station=s, time_ms=i * HOUR, y=y) for i, y in enumerate(values) for s in STATIONS])
    network.run()
    assert {network.roles[f"agent.{s}"].counts["learned"] for s in STATIONS} == {3}
    for name in network.names():
        network.kill(name)
    network.settings = replace(network.settings, door=mended)
    network.run(quiet=10)
    assert replayed(network, reason=reason)["written"] == 3 * len(STATIONS)
    network.run()
    assert {network.roles[f"agent.{s}"].counts["learned"] for s in STATIONS} == {len(values)}
    assert len(network.read("dead-letter")) == 3 * len(STATIONS)


def test_readings_of_a_station_that_was_not_named_are_told_and_learned_once_it_has_an_agent(tmp_path: Path) -> None:
    """`stations` did not name it and no agent ran: no letter told of its readings, nor anything else."""
    network = Network(tmp_path, settings_of())
    network.send([Observation(station="Borkum", time_ms=i * HOUR, y=float(i)) for i in range(4)])
    network.run(quiet=5)
    letters = [read_dead_letter(m) for m in network.read("dead-letter")]
    assert [letter.reason.partition(":")[0] for letter in letters] == ["foreign station"] * 4
    network.kill("scorer")
    network.settings = replace(network.settings, stations=(*STATIONS, "Borkum"))
    network.run(quiet=5)
    assert len(network.read("dead-letter")) == 4
    assert replayed(network, reason="foreign station")["written"] == 4
    network.run(quiet=5)
    assert list(network.roles["scorer"]._station("Borkum").truth) == [i * HOUR for i in range(4)]
