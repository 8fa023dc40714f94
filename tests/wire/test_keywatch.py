"""A role whose own key counts no more says so, and a damaged list is told once."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from streamgp.cli import main
from streamgp.errors import SettingsError
from streamgp.wire.clock import ManualClock
from streamgp.wire.keys import LIST, Allowed, make_key, read_list, read_private, write_list, write_private
from streamgp.wire.keywatch import KeyWatch
from streamgp.wire.signing import SigningGate

NOW_MS = 1_790_000_000_000


def at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat()


@pytest.fixture
def own(tmp_path: Path) -> Allowed:
    pem, entry = make_key("agent.DUB")
    write_private(tmp_path / "agent.DUB.pem", pem)
    write_list(tmp_path / LIST, [entry, make_key("cloud")[1]])
    return entry


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"revoked": True}, "agent.DUB is revoked: others would refuse"),
        ({"until": at(NOW_MS - 1)}, "agent.DUB is expired: others would refuse"),
        ({"role": "agent.MAL"}, "does not allow the key of agent.DUB"),
        ({"public": "no base 64"}, "is no key"),
    ],
)
def test_a_key_that_counts_no_more_is_refused_at_the_start(
    changed: dict[str, object], said: str, own: Allowed, tmp_path: Path
) -> None:
    key = read_private(tmp_path / "agent.DUB.pem")
    write_list(tmp_path / LIST, [replace(own, until=at(NOW_MS + 1_000))])
    SigningGate("agent.DUB", key, tmp_path, prefix="p", clock=ManualClock(NOW_MS))
    write_list(tmp_path / LIST, [replace(own, **changed)])
    with pytest.raises(SettingsError, match=said):
        SigningGate("agent.DUB", key, tmp_path, prefix="p", clock=ManualClock(NOW_MS))


def test_a_key_that_ends_while_its_role_runs_is_told_once(
    own: Allowed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Revoked, allowed again, and ended by the clock alone: a line for each change, however often it is looked at."""
    caplog.set_level(logging.INFO)
    clock = ManualClock(NOW_MS)
    watch = KeyWatch(tmp_path / LIST, "agent.DUB", own.id, clock)
    seen = []
    for entries in (
        [replace(own, revoked=True)],
        [replace(own, until=at(NOW_MS + 100_000))],
        [make_key("cloud")[1]],
        [replace(own, until=at(NOW_MS + 30_000))],
    ):
        write_list(tmp_path / LIST, entries)
        for _ in range(5):
            clock.advance(1.5)
            assert watch.look() is None
        seen.append(watch.barred)
    clock.advance(10.0)
    watch.look()
    assert [*seen, watch.barred] == ["revoked key", None, "unknown key", None, "expired key"]
    assert [r.levelname for r in caplog.records] == ["WARNING", "INFO", "WARNING", "INFO", "WARNING"]
    assert "agent.DUB: others refuse all it says (revoked key)" in caplog.text


@pytest.mark.parametrize("damage", ["text", "bytes", "cut", "empty", "gone", "folder", "no key"])
def test_a_damaged_list_changes_nothing_and_is_told_once(
    damage: str, own: Allowed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock, path = ManualClock(NOW_MS), tmp_path / LIST
    key = read_private(tmp_path / "agent.DUB.pem")
    gate = SigningGate("agent.DUB", key, tmp_path, prefix="p", clock=clock)
    before, good = gate.verifier.allowed, path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage == "no key":
        write_list(path, [replace(own, public="AAAA")])
    elif damage != "gone":
        path.write_bytes({"text": b"no list", "bytes": b"\xff\x00", "cut": good[:-30], "empty": b""}[damage])
    for _ in range(10):
        clock.advance(1.5)
        gate.look()
    assert gate.verifier.allowed is before
    assert gate.barred is None
    assert [(r.levelname, "not read" in r.getMessage()) for r in caplog.records] == [("WARNING", True)]
    assert list(gate.counts.values()) == [1]
    if damage == "folder":
        path.rmdir()
    write_list(path, [own])
    for _ in range(3):
        clock.advance(1.5)
        gate.look()
    assert [r.levelname for r in caplog.records] == ["WARNING", "INFO"]
    assert len(gate.verifier.allowed.entries) == 1


def test_a_file_that_cannot_be_read_for_a_while_is_tried_again(
    own: Allowed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many open files, or no right to read it: its time and size do not change when that is over."""
    clock, path = ManualClock(NOW_MS), tmp_path / LIST
    watch = KeyWatch(path, "agent.DUB", own.id, clock)
    write_list(path, [replace(own, revoked=True)])

    def fails(path: Path) -> list[Allowed]:
        raise SettingsError("too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("streamgp.wire.keywatch.read_list", fails)
        clock.advance(1.5)
        assert watch.look() == "too many open files"
    assert watch.barred is None
    clock.advance(1.5)
    watch.look()
    assert watch.barred == "revoked key"


def test_keys_that_are_there_and_those_that_are_not_are_said(tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(main, ["keys", *words, "--keys", str(tmp_path)])
        return done.exit_code, done.stdout, done.stderr

    code, out, _ = run("make", "--station", "DUB", "--station", "DUB")
    assert (code, out.count("agent.DUB")) == (0, 1)
    entries = read_list(tmp_path / LIST)
    code, out, err = run("make", "--station", "DUB")
    assert (code, out) == (0, "")
    assert "agent.DUB has a key already" in err
    assert "streamgp keys rotate" in err
    code, out, err = run("make", "--station", "DUB", "--json")
    assert (code, json.loads(out)) == (0, {"made": []})
    code, _, err = run("rotate", "--station", "DUB", "--station", "NOPE")
    assert code == 3
    assert "nothing to rotate: no key of agent.NOPE" in err
    assert read_list(tmp_path / LIST) == entries
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.DUB.pem", LIST]
