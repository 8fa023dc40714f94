"""A role whose own key counts no more says so, and a damaged list is told once."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec.structs import replace

from streamgp.cli import main
from streamgp.errors import SettingsError
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import encode
from streamgp.wire.keys import (
    LIST,
    Allowed,
    AllowList,
    key_id,
    make_key,
    raw_public,
    read_list,
    read_private,
    write_list,
    write_private,
)
from streamgp.wire.keywatch import KeyWatch
from streamgp.wire.log import Message, Outgoing
from streamgp.wire.records import Progress
from streamgp.wire.signing import Signer, SigningGate, Verifier

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


class Rotating:
    """A gate of a role whose own file and list are changed, and a reader that knows every list there was."""

    def __init__(self, folder: Path, own: Allowed) -> None:
        self.clock, self.folder, self.old = ManualClock(NOW_MS), folder, own
        self.path, self.list = folder / "agent.DUB.pem", folder / LIST
        self.gate = SigningGate(
            "agent.DUB", read_private(self.path), folder, prefix="p", clock=self.clock, own=self.path
        )
        self.verifier = Verifier(AllowList.of([own]), prefix="p")
        self.pem, self.new = make_key("agent.DUB")

    def write(self, pem: bytes) -> None:
        part = self.path.with_suffix(".part")
        part.unlink(missing_ok=True)
        write_private(part, pem)
        part.replace(self.path)

    def signers(self, steps: int = 3) -> set[bytes]:
        """Ids of the keys that sign in the next seconds; whatever they sign is believed by today's list."""
        ids = []
        for _ in range(steps):
            self.clock.advance(1.5)
            word = Outgoing("p.progress", "DUB", encode(Progress(station="DUB", time_ms=1)))
            (signed,) = self.gate.signed([word])
            ids.append(signed.headers[0][1][1:9])
            self.verifier.allowed = AllowList.of(read_list(self.list))
            message = Message(signed.topic, 0, 0, signed.key, signed.value, self.clock.now_ms(), signed.headers)
            assert self.verifier.why_not(message) is None
        return set(ids)


@pytest.fixture
def rotating(tmp_path: Path, own: Allowed) -> Rotating:
    return Rotating(tmp_path, own)


@pytest.mark.parametrize("first", ["list", "file"])
def test_a_role_that_runs_takes_its_new_key_once_the_list_knows_it(
    first: str, rotating: Rotating, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever of the two comes first, all that it signs is believed, also where the clock steps back meanwhile."""
    caplog.set_level(logging.INFO)
    assert rotating.signers() == {rotating.old.id}
    before = rotating.gate.sequence
    for what in (first, {"list": "file", "file": "list"}[first]):
        assert rotating.signers() == {rotating.old.id}
        if what == "list":
            write_list(rotating.list, [replace(rotating.old, until=at(NOW_MS + 3_600_000)), rotating.new])
        else:
            rotating.write(rotating.pem)
    rotating.clock._start_ms -= 500_000  # less than makes a record stale, more than has passed
    assert rotating.signers() == {rotating.new.id}
    assert rotating.gate.sequence > before
    told = [(r.levelname, r.getMessage().partition(" ")[2]) for r in caplog.records]
    waited = [("WARNING", f"private key not taken, the one before signs on: {rotating.path}: others refuse key "
              f"{rotating.new.id.hex()} (unknown key)")]  # fmt: skip
    taken = [("INFO", f"signs with its new key {rotating.new.id.hex()} from now on")]
    assert told == (taken if first == "list" else waited + taken)


def test_a_stolen_key_is_replaced_while_its_role_runs(rotating: Rotating, caplog: pytest.LogCaptureFixture) -> None:
    """Revoked and followed by another in one change: at no look does it say that others refuse it."""
    rotating.write(rotating.pem)
    write_list(rotating.list, [replace(rotating.old, revoked=True), rotating.new])
    assert rotating.signers() == {rotating.new.id}
    assert rotating.gate.barred is None
    assert "WARNING" not in {r.levelname for r in caplog.records}


@pytest.mark.parametrize("reason", ["foreign", "revoked key", "expired key"])
def test_a_key_that_others_would_refuse_is_not_taken(reason: str, rotating: Rotating) -> None:
    changed: dict[str, dict[str, object]] = {
        "foreign": {"role": "agent.MAL"}, "revoked key": {"revoked": True}, "expired key": {"until": at(NOW_MS - 1)},
    }  # fmt: skip
    rotating.write(rotating.pem)
    write_list(rotating.list, [rotating.old, replace(rotating.new, **changed[reason])])
    assert rotating.signers() == {rotating.old.id}
    write_list(rotating.list, [rotating.old, rotating.new])
    assert rotating.signers() == {rotating.new.id}


@pytest.mark.parametrize("damage", ["cut", "bytes", "empty", "gone", "folder", "open to others", "another kind"])
def test_a_damaged_private_key_leaves_the_one_before_and_is_told_once(
    damage: str, rotating: Rotating, caplog: pytest.LogCaptureFixture
) -> None:
    """And is tried again, also where nothing but its mode is mended, which changes neither its time nor its size."""
    caplog.set_level(logging.INFO)
    write_list(rotating.list, [rotating.old, rotating.new])
    raw = {"cut": rotating.pem[:-40], "bytes": b"\xff\x00", "empty": b""}
    if damage == "another kind":
        other = X25519PrivateKey.generate()
        rotating.write(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    else:
        rotating.write(raw.get(damage, rotating.pem))
    if damage in ("gone", "folder"):
        rotating.path.unlink()
    if damage == "folder":
        rotating.path.mkdir(mode=0o700)
    if damage == "open to others":
        rotating.path.chmod(0o644)
    assert rotating.signers(10) == {rotating.old.id}
    assert rotating.gate.barred is None
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert "agent.DUB: private key not taken, the one before signs on: " in caplog.text
    if damage == "folder":
        rotating.path.rmdir()
    if damage == "open to others":
        rotating.path.chmod(0o600)
    else:
        rotating.write(rotating.pem)
    assert rotating.signers() == {rotating.new.id}
    assert [r.levelname for r in caplog.records] == ["WARNING", "INFO"]


def test_a_private_key_that_is_put_back_is_told(rotating: Rotating, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    good = rotating.path.read_bytes()
    rotating.write(b"")
    assert rotating.signers() == {rotating.old.id}
    rotating.write(good)
    assert rotating.signers() == {rotating.old.id}
    assert [r.getMessage().split(":")[1] for r in caplog.records] == [
        " private key not taken, the one before signs on", " private key read again",
    ]  # fmt: skip


def test_who_reads_is_not_slower_to_know_a_new_key_than_who_signs(own: Allowed, tmp_path: Path) -> None:
    """Both look once a second: a reader that looked just before the list changed looks again before it refuses."""
    cloud = make_key("cloud")
    write_private(tmp_path / "cloud.pem", cloud[0])
    write_list(tmp_path / LIST, [own, cloud[1]])
    clock = ManualClock(NOW_MS)
    reader = SigningGate("cloud", read_private(tmp_path / "cloud.pem"), tmp_path, prefix="p", clock=clock)
    pem, entry = make_key("agent.DUB")
    write_private(tmp_path / "new.pem", pem)
    signer = Signer(read_private(tmp_path / "new.pem"), clock_ns=lambda: clock.now_ms() * 1_000_000)

    def refused() -> bool:
        signed = signer.sign(Outgoing("p.progress", "DUB", encode(Progress(station="DUB", time_ms=1))))
        message = Message(signed.topic, 0, 0, signed.key, signed.value, clock.now_ms(), signed.headers)
        return reader.check(message) is not None

    assert refused()
    write_list(tmp_path / LIST, [own, cloud[1], entry])
    assert not refused()
    assert reader.counts == {"unknown key": 1}


def test_keys_rotate_leaves_no_moment_without_a_key_that_counts(
    own: Allowed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is written before the private key is replaced; a call that was cut off in between is done again."""
    words = ["keys", "rotate", "--station", "DUB", "--keys", str(tmp_path)]

    def cut_off(path: Path, entries: list[Allowed]) -> None:
        write_list(path, entries)
        raise SettingsError("cut off")

    with monkeypatch.context() as patched:
        patched.setattr("consumers.keys.write_list", cut_off)
        assert CliRunner().invoke(main, words).exit_code == 3
    watched = SigningGate(
        "agent.DUB", read_private(tmp_path / "agent.DUB.pem"), tmp_path, prefix="p", clock=ManualClock()
    )
    assert watched.barred is None
    assert CliRunner().invoke(main, words).exit_code == 0
    newest = read_list(tmp_path / LIST)[-1]
    assert key_id(raw_public(read_private(tmp_path / "agent.DUB.pem"))) == newest.id != own.id
    assert key_id(raw_public(read_private(tmp_path / "agent.DUB.pem.old"))) == own.id
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.DUB.pem", "agent.DUB.pem.old", LIST]
