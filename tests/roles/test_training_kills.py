"""A client killed at any place of a round: its successor sends what it would have sent, and nothing counts twice."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from streamgp.roles.trainer import TrainingServer
from streamgp.roles.training_store import FileStore
from tests.roles.training import SETTINGS, Federation, rows_of


def trained(folder: Path, *, killed: str | None) -> tuple[TrainingServer, Federation]:
    """Three clients; the second is killed in round 1: before it has answered, before it has sent, or after."""
    federation = Federation(msgspec.structs.replace(SETTINGS, expected=3))
    data = rows_of(3)
    folder.mkdir()
    clients = {n: federation.client(n, *rows, store=FileStore(folder / f"{n}.npz")) for n, rows in data.items()}
    server, name = federation.server(), "station-1"
    pairs = federation.parts(server, clients)
    federation.log.writer().write(server.start(0.0))
    for _ in range(60):
        for at, (role, reader, writer) in enumerate(pairs):
            dies = killed is not None and at == 2 and server.round == 1
            if dies and killed == "before it answers":
                killed = None
                role = None
            else:
                role.feed(reader.poll(0.0), 0.0)
                out = role.drain(0.0)
                if dies and out and killed == "before it sends":
                    killed, role = None, None
                else:
                    writer.write(out)
                    if dies and out:
                        killed, role = None, None
            if role is None:
                reader.close()
                twin = federation.client(name, *data[name], store=FileStore(folder / f"{name}.npz"))
                pairs[2] = federation.parts(None, {name: twin})[0]
            elif role is server:
                reader.commit(role.done())
        if server.outcome:
            break
    assert killed is None
    return server, federation


@pytest.mark.parametrize("place", ["before it answers", "before it sends", "after it has sent"])
def test_the_training_ends_as_if_nothing_had_been(place: str, tmp_path: Path) -> None:
    undisturbed, _ = trained(tmp_path / "a", killed=None)
    server, federation = trained(tmp_path / "b", killed=place)
    assert server.outcome == undisturbed.outcome == "done"
    np.testing.assert_array_equal(server.shared.precision, undisturbed.shared.precision)
    for name, a in undisturbed.shared.block.items():
        np.testing.assert_array_equal(server.shared.block[name], a)
    rounds = [s.round for s in federation.states() if s.status in ("ok", "done")]
    assert rounds == sorted(set(rounds))
    assert server.ignored.get("repeated", 0) == 0 or place == "after it has sent"
