"""A producer of another partitioner, in a network: nothing vanishes, and all is learned once it is written again."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from streamgp.cli import main
from streamgp.roles.kept import Kept
from streamgp.roles.refusals import Refusals
from streamgp.wire.codec import encode
from streamgp.wire.deadletter import read_dead_letter
from streamgp.wire.log import Outgoing
from streamgp.wire.partitioner import partition_of
from tests.flow.network import STATIONS, Network, observations, settings_of

SENT = observations(4)


def refusals_of(kept: Kept) -> Refusals:
    return kept._refusals


def test_what_another_partitioner_misplaced_is_told_once_and_learned_when_it_is_written_again(tmp_path: Path) -> None:
    """R04: also where the scorer is killed in between, each has one letter."""
    network = Network(tmp_path, settings_of())
    topic = network.settings.topic("observations")
    misplaced = [
        Outgoing(topic, o.station, encode(o), partition=1 - partition_of(o.station, 2)) for o in SENT
    ]  # of two partitions it is always the other
    network.log.writer().write(misplaced[:6])
    network.run(quiet=5)
    network.kill("scorer")
    network.log.writer().write(misplaced[6:])
    network.run(quiet=5)
    letters = [read_dead_letter(m) for m in network.read("dead-letter")]
    assert len(letters) == len({letter.first for letter in letters}) == len(SENT)
    assert {letter.reason.partition(":")[0] for letter in letters} == {"wrong partition"}
    assert network.roles["scorer"].counts["refused: wrong partition"] == len(SENT)
    told = {source for reason, _, source in refusals_of(network.kept["scorer"]).counts if reason == "wrong partition"}
    assert told == {f"station '{s}'" for s in STATIONS}
    done = CliRunner().invoke(main, ["dead-letters", "replay", "--reason", "wrong partition"], obj=network.log)
    assert done.stdout == f"{len(SENT)} found, {len(SENT)} written\n"
    network.run(quiet=5)
    assert {network.roles[f"agent.{s}"].counts["learned"] for s in STATIONS} == {len(SENT) // len(STATIONS)}
    assert len(network.read("dead-letter")) == len(SENT)
