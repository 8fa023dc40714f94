"""A role's folder, key and topic have names that are taken whatever its station is called, and are its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from consumers.options import check_station
from streamgp.cli import main
from streamgp.roles.identity import key_path
from streamgp.roles.stores import folder_name
from streamgp.wire.checkpoint import FolderStore
from streamgp.wire.topics import station_topic

#: names as long as a station's may be, of one, three and four bytes a character, and those that differ at their end
LONG = [
    name + end for name in ("a" * 229, "a" * 228 + ".", "\u96e8" * 229, "\U0001f300" * 100, "_" * 80) for end in "xy"
]
SHORT = ["Dublin", "Malin Head", "a" * 229, "\u96e8" * 26, ".." + "/" * 5]


def test_long_names_get_folders_keys_and_topics_of_their_own(tmp_path: Path) -> None:
    names = [folder_name(f"agent.{station}") for station in LONG]
    assert len(set(names)) == len(LONG)
    for name, station in zip(names, LONG, strict=True):
        store = FolderStore(tmp_path / name)
        store.save(1, b"x")
        assert store.load() == [(1, b"x")]
        store.close()
        key_path(tmp_path, f"agent.{station}").with_suffix(".pem.new").touch()
    topics = {station_topic("p" * 100, station) for station in LONG}
    assert len(topics) == len(LONG)
    assert max(map(len, topics)) <= 249
    assert len(station_topic("p" * 200, LONG[0])) <= 249


def test_short_names_keep_the_folders_and_topics_that_they_have() -> None:
    assert [folder_name(f"agent.{s}") for s in SHORT] == [
        "agent.Dublin",
        "agent.Malin_20Head",
        "agent." + "a" * 229,
        "agent." + "_e9_9b_a8" * 26,
        "agent._2e_2e" + "_2f" * 5,
    ]
    assert station_topic("streamgp", "\u96e8" * 25) == "streamgp.observations." + "_e9_9b_a8" * 25


def test_no_station_has_the_name_that_another_s_was_cut_to() -> None:
    cut = folder_name("agent." + LONG[0] * 2)
    assert folder_name(cut) != cut


@pytest.mark.parametrize("station", ["a" * 300, "\u96e8" * 231, "x\ny", "x\u2028y", "\x1b[2J", "\udcff"])
@pytest.mark.parametrize("role", ["agent", "trainee"])
def test_a_name_that_no_record_could_carry_is_a_wrong_setting(role: str, station: str) -> None:
    done = CliRunner().invoke(main, [role, "--station", station, "--broker", "127.0.0.1:1"])
    assert done.exit_code == 3, done.output
    assert "error: --station" in done.stderr


@pytest.mark.parametrize("station", ["a" * 230, "Malin Head", "\u0645\u06cc\u200c\u0631", "Saint\u00a0Denis"])
def test_names_of_any_script_are_names(station: str) -> None:
    check_station(station)
