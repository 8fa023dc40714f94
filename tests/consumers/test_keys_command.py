"""``streamgp keys`` beside itself, and beside a list that does not know what lies there."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from consumers import keys
from streamgp.cli import main
from streamgp.wire.keys import (
    LIST,
    Allowed,
    key_id,
    make_key,
    raw_public,
    read_list,
    read_private,
    write_list,
    write_private,
)
from streamgp.wire.lock import try_lock

STATIONS = ("A", "B", "C")


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["keys", *words, "--keys", str(folder)])


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Keys of three stations and the cloud, made where there was no folder."""
    made = tmp_path / "deep" / "keys"
    stations = [word for name in STATIONS for word in ("--station", name)]
    assert run(made, "make", *stations, "--role", "cloud").exit_code == 0
    return made


@pytest.mark.parametrize("words", [("rotate", "--station", "A"), ("make", "--station", "Z")])
@pytest.mark.parametrize("damage", ["gone", "empty", "older"])
def test_a_list_that_does_not_know_the_keys_beside_it_is_not_written(
    damage: str, words: tuple[str, ...], folder: Path
) -> None:
    """It was written with the one new key alone, exit 0: all other roles were strangers from then on."""
    whole = (folder / LIST).read_text()
    if damage == "gone":
        (folder / LIST).unlink()
    else:
        write_list(folder / LIST, [] if damage == "empty" else read_list(folder / LIST)[:2])
    before = files(folder)
    result = run(folder, *words)
    assert result.exit_code == 3
    named = "agent.C.pem, cloud.pem" if damage == "older" else "agent.A.pem, agent.B.pem, agent.C.pem, cloud.pem"
    assert f"does not know the private keys {named}: nothing was changed" in result.stderr
    assert "Put the list back" in result.stderr
    assert files(folder) == before
    (folder / LIST).write_text(whole)
    assert run(folder, *words).exit_code == 0
    assert {e.role for e in read_list(folder / LIST)} >= {"agent.A", "agent.B", "agent.C", "cloud"}


def test_keys_that_are_moved_away_and_those_of_others_hinder_nobody(folder: Path, tmp_path: Path) -> None:
    (folder / "ca.pem").write_text("a certificate")
    write_private(folder / "client.pem", make_key("cloud")[0])  # not named as a role's
    (folder / "agent.A.pem").write_text("damaged")  # its role is known
    assert run(folder, "rotate", "--station", "A").exit_code == 0
    write_private(folder / "agent.D.pem", make_key("agent.D")[0])
    assert "the private key agent.D.pem: nothing" in run(folder, "make", "--station", "Z").stderr
    (folder / "agent.D.pem").rename(tmp_path / "agent.D.pem")
    assert run(folder, "make", "--station", "D").exit_code == 0
    assert [e.role for e in read_list(folder / LIST)].count("agent.D") == 1


def test_a_make_that_was_cut_off_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_off(path: Path, entries: list[Allowed]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(keys, "write_list", cut_off)
        assert run(tmp_path, "make", "--role", "cloud").exit_code != 0
    assert run(tmp_path, "make", "--role", "cloud").exit_code == 0
    assert sorted(files(tmp_path)) == [LIST, "cloud.pem"]
    assert [e.id for e in read_list(tmp_path / LIST)] == [key_id(raw_public(read_private(tmp_path / "cloud.pem")))]


def test_commands_beside_each_other_lose_no_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A station was left with a key that nobody knew, and a revocation that was told was lost."""

    def read_slowly(path: Path) -> list[Allowed]:
        entries = read_list(path)
        time.sleep(0.02)
        return entries

    monkeypatch.setattr(keys, "read_list", read_slowly)
    commands = [["rotate", "--station", name] for name in STATIONS] + [["revoke", "cloud"], ["make", "--role", "asker"]]
    with ThreadPoolExecutor(len(commands)) as pool:
        calls = [
            pool.submit(keys.command.main, [*words, "--keys", str(folder)], standalone_mode=False) for words in commands
        ]
    assert [call.exception() for call in calls] == [None] * len(commands)
    known = read_list(folder / LIST)
    assert len(known) == 2 * len(STATIONS) + 2
    for path in folder.glob("*.pem"):
        assert key_id(raw_public(read_private(path))) in {e.id for e in known}
    assert [e.role for e in known if e.revoked] == ["cloud"]
    assert not {path.suffix for path in folder.iterdir()} - {".pem", ".old", ".toml"}


def test_a_list_is_whole_though_several_write_it(tmp_path: Path) -> None:
    """They had one name for what is not yet the list."""
    entries = [make_key(f"agent.{i}")[1] for i in range(20)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda i: write_list(tmp_path / LIST, entries[: i + 1]), range(20)))
    assert read_list(tmp_path / LIST) in [entries[: i + 1] for i in range(20)]
    assert sorted(files(tmp_path)) == [LIST]


def test_a_list_that_another_changes_is_waited_for_and_not_for_ever(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "WAIT_S", 0.05)
    held = try_lock(folder / keys.LOCK)
    assert held is not None
    before = files(folder)
    for words in (["rotate", "--station", "A"], ["make", "--station", "Z"], ["revoke", "cloud"]):
        result = run(folder, *words)
        assert result.exit_code == 3
        assert "another process holds" in result.stderr
    assert files(folder) == before
    assert run(folder, "list").exit_code == 0
    os.close(held)
    assert run(folder, "revoke", "cloud").exit_code == 0


def test_where_nothing_is_nothing_is_made(tmp_path: Path) -> None:
    for words in (["rotate", "--station", "A"], ["revoke", "cloud"]):
        result = run(tmp_path / "keys", *words)
        assert result.exit_code == 3
        assert "`streamgp keys make` makes one" in result.stderr
    assert not files(tmp_path)


def test_a_list_with_a_key_that_is_none_is_told(folder: Path) -> None:
    write_list(folder / LIST, [*read_list(folder / LIST), Allowed(role="agent.X", public="AAA")])
    for words in (["rotate", "--station", "A"], ["make", "--station", "Z"], ["revoke", "cloud"], ["list"]):
        result = run(folder, *words)
        assert result.exit_code == 3
        assert "the allowed key of 'agent.X' is no key" in result.stderr
