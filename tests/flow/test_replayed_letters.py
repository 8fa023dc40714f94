"""What a wrong setting refused is learned once the setting is mended and the dead letters are written again."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from msgspec.structs import replace

from streamgp.cli import main
from streamgp.wire.deadletter import read_dead_letter
from tests.flow.network import STATIONS, Network, observations, settings_of

SENT = observations(8)


def replayed(network: Network) -> dict[str, int]:
    done = CliRunner().invoke(main, ["dead-letters", "replay", "--reason", "out of range", "--json"], obj=network.log)
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
