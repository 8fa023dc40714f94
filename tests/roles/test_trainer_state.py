"""What a training keeps: kills, restarts and snapshots change nothing, and nothing foreign is opened."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from streamgp.errors import CheckpointError
from streamgp.roles.training_store import FileStore, Saved
from streamgp.wire.log import Outgoing
from tests.roles.training import Federation, changed, rows_of


def test_a_server_killed_in_mid_round_goes_on_as_if_nothing_had_been() -> None:
    """The successor has the newest record and the group's offsets alone, and gives the same numbers."""
    data = rows_of(3)

    def trained(*, kill: bool) -> tuple:
        federation = Federation(changed(expected=3))
        clients = {n: federation.client(n, *rows) for n, rows in data.items()}
        server = federation.server()
        pairs = federation.parts(server, clients)
        writer = federation.log.writer()
        writer.write(server.start(0.0))
        for turn in range(40):
            if kill and turn == 5:
                # two of three answers of the round are in the server's memory, and gone with it
                pairs[0][1].close()
                server = federation.server(resume=federation.states()[-1])
                pairs[0] = federation.parts(server, {})[0]
                writer.write(server.start(0.0))
            for role, reader, out in pairs[1 + turn % 3 : 2 + turn % 3] + pairs[:1]:
                role.feed(reader.poll(0.0), 0.0)
                out.write(role.drain(0.0))
                if role is server:
                    reader.commit(role.done())
        assert server.outcome == "done"
        return server, federation

    undisturbed, _ = trained(kill=False)
    server, federation = trained(kill=True)
    np.testing.assert_array_equal(server.shared.precision, undisturbed.shared.precision)
    for name, a in undisturbed.shared.block.items():
        np.testing.assert_array_equal(server.shared.block[name], a)
    rounds = [s.round for s in federation.states() if s.status in ("ok", "done")]
    assert rounds == sorted(set(rounds))


def test_r66_a_client_keeps_its_residual_over_rounds_and_a_restart(tmp_path: Path) -> None:
    """R66: what was learned of the residual in round 1 is there, byte for byte, in round 2 and after a restart."""
    federation = Federation(changed(expected=1, rounds=3))
    X, Y = rows_of(1)["station-0"]
    store = FileStore(tmp_path / "own.npz")
    client = federation.client("a", X, Y, store=store)
    federation.run(federation.server(), {"a": client})
    again = federation.client("a", X, Y, store=FileStore(tmp_path / "own.npz"))
    for name, a in client.saved.own.items():
        assert again.saved.own[name].tobytes() == a.tobytes()
    # killed after saving, before sending: the successor sends the very same bytes for that round
    fresh = Federation(changed(expected=1, rounds=3))
    server = fresh.server()
    fresh.log.writer().write(server.start(0.0))
    first = fresh.client("a", X, Y, store=FileStore(tmp_path / "other.npz"))
    reader = fresh.parts(None, {"a": first})[0][1]
    first.feed(reader.poll(0.0), 0.0)
    (lost,) = first.drain(0.0)
    second = fresh.client("a", X, Y, store=FileStore(tmp_path / "other.npz"))
    second.feed(fresh.parts(None, {"a": second})[0][1].poll(0.0), 0.0)
    (sent,) = second.drain(0.0)
    assert sent.value == lost.value


def test_c43_pickles_are_never_opened(tmp_path: Path) -> None:
    """C43, R65: on the round topics a dead letter, as a snapshot a refusal; the file it would make is not made."""
    trap = tmp_path / "made"

    class Trap:
        def __reduce__(self) -> tuple:
            return (Path.touch, (trap,))

    poison = pickle.dumps(Trap())
    federation = Federation(changed(expected=1, rounds=1))
    writer = federation.log.writer()
    writer.write([Outgoing("t.updates", "a", poison), Outgoing("t.globals", "default", poison)])
    X, Y = rows_of(1)["station-0"]
    client, server = federation.client("a", X, Y), federation.server()
    pairs = federation.parts(server, {"a": client})
    for role, reader, out in pairs:
        role.feed(reader.poll(0.0), 0.0)
        out.write(role.drain(0.0))
    letters = federation.records("t.dead-letter")
    assert len(letters) == 2
    (tmp_path / "own.npz").write_bytes(poison)
    with pytest.raises(CheckpointError, match="no snapshot"):
        FileStore(tmp_path / "own.npz").load()
    np.savez(tmp_path / "objects.npz", version=np.array([Trap()], dtype=object))
    with pytest.raises(CheckpointError):
        FileStore(tmp_path / "objects.npz").load()
    assert not trap.exists()


def test_snapshots_come_back_as_they_were_and_other_versions_are_refused(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "s.npz")
    assert store.load() is None
    saved = Saved("r", 3, {"x": np.arange(6.0).reshape(2, 3)}, b"\x00\xffbytes", 2)
    store.save(saved)
    back = store.load()
    assert (back.run, back.round, back.update, back.noised) == ("r", 3, b"\x00\xffbytes", 2)
    np.testing.assert_array_equal(back.own["x"], saved.own["x"])
    with np.load(tmp_path / "s.npz") as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(tmp_path / "s.npz", **{**arrays, "version": np.array(99)})
    with pytest.raises(CheckpointError, match="version 99"):
        store.load()
