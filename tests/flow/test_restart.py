"""What a role does with the state that it finds: the last good one, or a clear refusal, never a silent fresh start."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamgp.errors import CheckpointError, DeliveryError, FencedError, SettingsError
from streamgp.roles.cloud import CloudRole
from streamgp.roles.kept import Kept
from streamgp.roles.settings import CloudSettings, ModelSettings, RowSettings
from streamgp.wire.checkpoint import pack, unpack
from streamgp.wire.codec import decode
from streamgp.wire.log import Outgoing
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Forecast
from tests.flow.network import STATIONS, Network, observations, settings_of

SENT = observations(20)
FEW = observations(13)  # the warm-up takes ten


def stopped(folder: Path, *, snapshot_every_s: float = 0.2) -> Network:
    """A network that has done its work and was killed; its agents have snapshots and commits after them."""
    network = Network(folder, settings_of(snapshot_every_s=snapshot_every_s))
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
    network = stopped(tmp_path, snapshot_every_s=1e6)
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


def test_a_network_moves_to_another_machine_with_its_state_in_the_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the first machine is left; snapshots are in many parts, the topic was compacted meanwhile."""
    monkeypatch.setattr("streamgp.wire.snapshot_topic.PART_BYTES", 1_500)
    whole = Network(tmp_path / "whole", settings_of())
    whole.send(FEW)
    whole.run()
    whole.send(SENT[len(FEW) :])
    whole.run()
    first = Network(tmp_path / "first", settings_of(snapshot_every_s=0.2), state="topic")
    first.send(FEW)
    first.run()
    for name in first.names():
        first.kill(name)
    for part in first.log.partitions(first.settings.topic("snapshots")):  # type: ignore[attr-defined]  # MemoryLog
        part.compact()
    keys = {m.key for m in first.read("snapshots")}
    assert {f"agent.A/{slot}/{i}" for slot in (0, 1) for i in range(3)} <= keys
    second = Network(tmp_path / "second", first.settings, first.log, state="topic")
    second.send(SENT[len(FEW) :])
    second.run()
    assert not (tmp_path / "second").exists()
    second.check(SENT)
    for station in STATIONS:
        assert second.model(station) == whole.model(station)


def _down_in_the_middle(folder: Path, *, days: float) -> Network:
    """Killed with windows open and questions asked, and started again after so long."""
    network = Network(folder, settings_of())
    network.send(SENT)
    for _ in range(14):
        for name in network.names():
            network.step(name)
        network.clock.advance(0.02)
    cloud, agent = network.roles["cloud"], network.roles["agent.A"]
    assert isinstance(cloud, CloudRole)
    assert cloud.windows.filling
    assert 0 < agent.counts["learned"] < len(SENT) // len(STATIONS)
    for name in network.names():
        network.kill(name)
    network.clock.advance(days * 86_400.0)
    network.run()
    return network


def test_a_network_that_was_down_for_days_gives_nothing_up_meanwhile(tmp_path: Path) -> None:
    """Every wait goes on where it was."""
    network = _down_in_the_middle(tmp_path, days=6.0)
    network.check(SENT)
    forecasts = [decode(m.value, Forecast) for m in network.read("forecasts")]
    assert {f.missing for f in forecasts} == {()}
    assert not any(network.roles[f"agent.{s}"].counts["forecast alone"] for s in STATIONS)


def test_who_was_down_for_longer_than_questions_are_kept_has_its_observations_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Questions and answers are kept for seven days: what was read of them since the snapshot is gone, and told."""
    network = _down_in_the_middle(tmp_path, days=8.0)
    assert "records were gone that it had read before" in caplog.text
    for station in STATIONS:
        role = network.roles[f"agent.{station}"]
        assert role.counts["learned"] == len(SENT) // len(STATIONS)
        assert role.counts["read twice"] == 0
    assert not network.read("dead-letter")


@pytest.mark.parametrize("changed", ["features", "model"])
def test_a_setting_that_the_kept_state_cannot_take_is_a_wrong_setting_and_no_damaged_snapshot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changed: str
) -> None:
    """Exit 3 and not 7; with the setting as it was the role goes on where it stood."""
    network = stopped(tmp_path)
    settings = network.settings
    other: dict[str, Any] = {
        "features": RowSettings(lags=(1, 3), averages=(), calendar=()),
        "model": ModelSettings(kind="cpoe"),
    }
    network.settings = msgspec.structs.replace(settings, **{changed: other[changed]})
    caplog.clear()
    with pytest.raises(SettingsError, match=r"^agent.A: (features.lags = \(1, 3\)|model.kind is cpoe).*--fresh"):
        network.start("agent.A")
    assert "cannot be used" not in caplog.text
    network.kill("agent.A")
    network.settings = settings
    network.run()
    network.check(SENT)


def test_a_setting_changed_between_two_lives_is_taken_or_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was committed stays, what comes then is by the new settings, and nothing is lost or answered twice."""
    network = stopped(tmp_path)
    network.settings = msgspec.structs.replace(
        network.settings, cloud=CloudSettings(beta=0.0), model=ModelSettings(warm_up=10, n_neighbors=5)
    )
    before = len(network.read("forecasts"))
    sent = observations(24)
    network.send(sent[len(SENT) :])
    network.run()
    network.check(sent)
    betas = [decode(m.value, Forecast).beta for m in network.read("forecasts")]
    assert set(betas[:before]) == {1 / 6}
    assert set(betas[before:]) == {0.0}
    for station in STATIONS:
        said = (
            f"agent {station}: model.n_neighbors = 5 is not taken: the kept state has 32; --fresh begins anew with it"
        )
        assert said in caplog.text
