"""What a role does with the state that it finds: the last good one, or a clear refusal, never a silent fresh start."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from streamgp.errors import CheckpointError, DeliveryError, FencedError
from streamgp.roles.kept import Kept
from streamgp.wire.checkpoint import pack, unpack
from streamgp.wire.log import Outgoing
from streamgp.wire.memory import MemoryLog
from tests.flow.network import STATIONS, Network, observations, settings_of

SENT = observations(30)
FEW = observations(13)  # the warm-up takes ten


def stopped(folder: Path) -> Network:
    """A network that has done its work and was killed; its agents have snapshots and commits after them."""
    network = Network(folder, settings_of(snapshot_every_s=0.2))
    network.send(SENT)
    network.run()
    for name in network.names():
        network.kill(name)
    return network


def snapshots(folder: Path) -> list[Path]:
    return sorted(folder.glob("snapshot-*.sgp"))


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    changed = {
        "truncated": data[: len(data) // 2],
        "flipped": data[:-50] + bytes([data[-50] ^ 1]) + data[-49:],
        "empty": b"",
    }
    path.write_bytes(changed[how])


def test_no_good_snapshot_is_no_fresh_start(tmp_path: Path) -> None:
    network = stopped(tmp_path)
    for path in snapshots(tmp_path / "agent.A"):
        damage(path, "flipped")
    with pytest.raises(CheckpointError, match="none that can be used"):
        network.start("agent.A")


def test_a_lost_folder_is_noticed(tmp_path: Path) -> None:
    """The snapshots topic remembers that there was one."""
    network = stopped(tmp_path)
    shutil.rmtree(tmp_path / "agent.A")
    with pytest.raises(CheckpointError, match=r"snapshot \d+ is known to streamgp.snapshots.*stop this one.*--fresh"):
        network.start("agent.A")
    assert network.roles["agent.A"].state()["agent"]["model"]["early"] == []


def test_a_journal_that_does_not_reach_back_is_noticed(tmp_path: Path) -> None:
    network = stopped(tmp_path)
    saved = [p.read_bytes() for p in snapshots(tmp_path / "cloud")]
    network.send(observations(40)[len(SENT) :])
    network.run()
    network.kill("cloud")
    for path in snapshots(tmp_path / "cloud"):
        path.unlink()
    (tmp_path / "cloud" / "snapshot-000000000001.sgp").write_bytes(saved[0])
    topic = network.settings.topic("journal")
    ends = {(topic, i): network.log.partitions(topic)[i].end for i in range(2)}  # type: ignore[attr-defined]  # MemoryLog
    network.log.delete_records(ends)
    for i in range(2):  # another role's segment, so that the topic is not empty
        network.log.writer().write([Outgoing(topic, "agent.Z", b"no segment", partition=i)])
    with pytest.raises(CheckpointError, match="does not reach back"):
        network.start("cloud")


def test_the_state_of_other_topics_is_refused(tmp_path: Path) -> None:
    """The same folder, and topics that were made anew."""
    stopped(tmp_path)
    other = Network(tmp_path, settings_of())
    with pytest.raises(CheckpointError, match="none that can be used"):
        other.start("agent.A")


def test_the_state_of_another_role_is_refused(tmp_path: Path) -> None:
    network = stopped(tmp_path)
    shutil.rmtree(tmp_path / "agent.B")
    shutil.copytree(tmp_path / "agent.A", tmp_path / "agent.B")
    with pytest.raises(CheckpointError, match="none that can be used"):
        network.start("agent.B")


def test_fresh_on_purpose_learns_everything_again(tmp_path: Path) -> None:
    network = stopped(tmp_path)
    before = network.model("A")
    shutil.rmtree(tmp_path / "agent.A")
    network.fresh.add("agent.A")
    network.run()
    assert network.model("A") == before
    network.kill("agent.A")
    network.fresh.clear()
    network.run()
    assert network.model("A") == before


def test_a_second_process_of_a_role_fences_the_first(tmp_path: Path) -> None:
    """C41, R63: the one that was there before stops, and says why."""
    network = Network(tmp_path / "one", settings_of())
    network.send(SENT)
    network.run(quiet=5)
    first: Kept = network.kept.pop("agent.A")
    shutil.copytree(tmp_path / "one" / "agent.A", tmp_path / "two" / "agent.A")
    network.folder = tmp_path / "two"
    network.start("agent.A")
    network.send(observations(34)[len(SENT) :])
    first.step(0.0)
    network.clock.advance(1.0)
    with pytest.raises(FencedError, match="another process"):
        first.step(0.0)
    network.run()
    network.check(observations(34))


def test_an_outage_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    """It comes while outputs wait for their commit; the role tries until the log is back."""
    network = Network(tmp_path, settings_of())
    network.send(SENT)
    log = network.log
    assert isinstance(log, MemoryLog)

    over = threading.Event()

    def back() -> None:
        log.available = True
        over.set()

    def outage(round_: int) -> None:
        if round_ in (4, 9):
            over.clear()
            log.available = False
            threading.Timer(0.3, back).start()
        elif round_ in (12, 20):
            over.wait(5.0)  # the clock of the test runs ahead of it

    network.run(outage)
    network.check(SENT)


@pytest.mark.parametrize("rounds", [3, 8, 30])
def test_every_role_is_the_same_after_its_state_was_written_and_read(rounds: int, tmp_path: Path) -> None:
    """C46, R55, R66: in the middle of its work, to the bit, with all that it holds back."""
    network = Network(tmp_path, settings_of())
    network.send(SENT)
    for _ in range(rounds):
        for name in network.names():
            network.step(name)
        network.clock.advance(0.02)
    for name, role in network.roles.items():
        data = pack(role.state())
        twin, _ = network.role(name)
        twin.restore(unpack(data))
        assert pack(twin.state()) == data
        with pytest.raises(CheckpointError, match="version"):
            twin.restore({**unpack(data), "v": 99})
        with pytest.raises(CheckpointError, match="damaged"):
            twin.restore({"v": unpack(data)["v"]})


def newer(data: bytes) -> bytes:
    """The same snapshot as a later release would write it, checksum and all."""
    head = data[:8] + (99).to_bytes(2, "big") + data[10:-32]
    return head + hashlib.sha256(head).digest()


@pytest.mark.parametrize("how", ["truncated", "flipped", "empty", "newer", "pickle"])
@pytest.mark.parametrize("state", ["folder", "topic"])
def test_in_either_store_the_last_good_snapshot_is_used_and_none_is_a_refusal(
    how: str, state: str, tmp_path: Path
) -> None:
    """C43, C46: the newest damaged: the one before; both damaged: a clear error, never a silent fresh start."""
    network = Network(tmp_path, settings_of(snapshot_every_s=0.2), state=state)
    network.send(FEW)
    network.run()
    before = network.model("A")
    network.kill("agent.A")
    spoilt = {
        "truncated": lambda data: data[: len(data) // 2],
        "flipped": lambda data: data[:-50] + bytes([data[-50] ^ 1]) + data[-49:],
        "empty": lambda data: b"",
        "newer": newer,
        "pickle": lambda data: pickle.dumps({"n": 1}),
    }[how]
    for turn in (1, 2):
        spoil(network, spoilt, turn)
        if turn == 1:
            network.start("agent.A")
            assert network.model("A") == before
            assert network.kept["agent.A"].differs == 0
            network.kill("agent.A")
    with pytest.raises(CheckpointError, match="none that can be used is in its store"):
        network.start("agent.A")


def spoil(network: Network, change: Callable[[bytes], bytes], turn: int) -> None:
    """Damage the newest snapshot of agent A, the second time the one before it as well."""
    if network.state == "folder":
        path = snapshots(network.folder / "agent.A")[-turn]
        path.write_bytes(change(path.read_bytes()))
        return
    topic = network.settings.topic("snapshots")
    newest = {m.key: m for m in network.read("snapshots")}
    slots = [(json.loads(newest[f"agent.A/{slot}"].value or b"")["number"], slot) for slot in (0, 1)]
    slot = sorted(slots)[-turn][1]
    part = newest[f"agent.A/{slot}/0"]
    data = change(part.value or b"")
    manifest = {"number": sorted(slots)[-turn][0], "parts": 1, "sha256": hashlib.sha256(data).hexdigest()}
    network.log.writer().write(
        [
            Outgoing(topic, f"agent.A/{slot}/0", data, partition=part.partition),
            Outgoing(topic, f"agent.A/{slot}", json.dumps(manifest).encode(), partition=part.partition),
        ]
    )


def test_a_snapshot_that_cannot_be_written_is_tried_again_and_the_journal_bridges_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk, and a broker that takes no snapshot: the role works on."""
    for state in ("folder", "topic"):
        network = Network(tmp_path / state, settings_of(snapshot_every_s=0.1), state=state)
        network.start("agent.A")
        store = network.stores["agent.A"]
        kept, failures = store.save, 0

        def full(number: int, data: bytes, state: str = state) -> None:
            nonlocal failures
            failures += 1
            raise CheckpointError("disk full") if state == "folder" else DeliveryError("the log is away", [])

        store.save = full  # type: ignore[method-assign]  # as a full disk does
        network.send(FEW)
        network.run()
        assert failures > 1
        network.check(FEW)
        store.save = kept  # type: ignore[method-assign]  # as it was
        before = network.model("A")
        network.kill("agent.A")
        network.start("agent.A")
        assert network.model("A") == before
        for name in list(network.kept):
            network.kill(name)
    assert "disk full" in caplog.text
    assert "the log is away" in caplog.text


def test_agents_that_start_one_after_another_restore_once_and_run(tmp_path: Path) -> None:
    """R20: cold starts a second apart; who is restored already works on and knocks nobody out."""
    network = Network(tmp_path, settings_of(snapshot_every_s=1e6))
    network.send(SENT)
    network.run()
    for name in network.names():
        network.kill(name)
    network.starts.clear()
    more = observations(len(SENT) // len(STATIONS) + 4)[len(SENT) :]
    network.send(more)
    for name in network.names():
        network.start(name)
        for _ in range(50):
            for running in list(network.kept):
                network.step(running)
            network.clock.advance(0.02)
    network.run()
    assert set(network.starts.values()) == {1}
    assert all(kept.differs == 0 for kept in network.kept.values())
    network.check(SENT + more)
