"""Lives of one role that do not share a folder: whose commits a kept snapshot leads to, in all orders of a kill."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from streamgp.errors import CheckpointError, FencedError
from streamgp.roles.commits import Commits
from streamgp.roles.kept import Kept
from streamgp.roles.snapshots import Snapshots
from streamgp.wire.checkpoint import pack, unpack
from streamgp.wire.codec import decode
from streamgp.wire.log import TopicSpec
from streamgp.wire.memory import MemoryLog, SimulatedCrash
from streamgp.wire.records import Prediction
from tests.flow.network import Network, observations, settings_of
from tests.flow.test_lives import A, alone

SENT = [o for o in observations(20) if o.station == "A"]
FIRST = SENT[:13]


def two(
    folder: Path, *, snapshot_every_s: float = 0.2, state: str = "folder", state_topics: str = "shared"
) -> tuple[Network, Network]:
    """Two machines over one log; the network is the one station."""
    settings = replace(settings_of(snapshot_every_s=snapshot_every_s), stations=("A",), state_topics=state_topics)
    one = Network(folder / "one", settings, state=state)
    other = Network(folder / "other", settings, one.log, state=state)
    other.clock = one.clock
    return one, other


def lived(one: Network) -> None:
    """It has worked and was killed."""
    for at in range(0, len(FIRST), 9):
        one.send(FIRST[at : at + 9])
        alone(one, 12)
    alone(one)
    assert own(one) == 13
    one.kill(A)


def answered_once(network: Network) -> None:
    ids = [decode(m.value, Prediction).query_id for m in network.read("predictions")]
    assert ids
    assert len(ids) == len(set(ids))


def own(network: Network) -> int:
    return network.roles[A].counts["learned"]


# -- a snapshot that is made after another process has fenced this one


def test_a_first_snapshot_after_the_commits_of_another_leads_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood still between the empty journal that it read and its first snapshot; the other was killed meanwhile."""
    one, other = two(tmp_path, snapshot_every_s=1e6)
    one.send(FIRST)
    keep, waiting = Kept.snapshot, [True]

    def late(self: Kept) -> None:
        if waiting:
            waiting.clear()
            one.start(A)
            alone(one)
            one.kill(A)
        keep(self)

    monkeypatch.setattr(Kept, "snapshot", late)
    other.start(A)
    with pytest.raises(FencedError):
        alone(other)
    other.kill(A)
    other.start(A)
    assert other.model("A") == one.model("A")
    other.send(SENT[len(FIRST) :])
    alone(other)
    assert own(other) == 20
    answered_once(other)


def test_a_later_snapshot_after_the_commits_of_another_leads_to_them(tmp_path: Path) -> None:
    """The other began from a copy of the folder, and the first does not know yet that it is fenced."""
    one, other = two(tmp_path)
    one.send(FIRST)
    one.start(A)
    alone(one)
    shutil.copytree(tmp_path / "one" / A, tmp_path / "other" / A)
    other.start(A)
    other.send(SENT[len(FIRST) :])
    alone(other)
    one.kept[A].snapshot()
    one.kill(A)
    other.kill(A)
    one.start(A)
    assert one.model("A") == other.model("A")
    alone(one)
    assert own(one) == 20
    answered_once(one)


def test_a_commit_of_another_is_not_taken_for_the_own_whose_fate_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker answers late, and another process has fenced this one and made a commit of that number."""
    one, other = two(tmp_path, state="topic")
    one.send(FIRST)
    one.start(A)
    alone(one)
    other.start(A)
    other.send(SENT[len(FIRST) :])
    alone(other)
    first = one.kept[A]
    commits = first._commits
    assert isinstance(commits, Commits)
    monkeypatch.setattr(commits, "_stale", True)
    first.step(0.0)
    one.clock.advance(1.0)
    with pytest.raises(FencedError, match="made commit"):
        first.step(0.0)


# -- begun anew, and killed before it could work


def anew_killed(network: Network, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that begins anew is killed before its mark, right after it, or before what it replaces is removed."""
    network.fresh.add(A)
    crash = {
        "before the mark": (Commits, "mark"),
        "after the mark": (Kept, "snapshot"),
        "after the snapshot": (Snapshots, "forget_before"),
    }[place]

    def killed(*args: object) -> None:
        raise SimulatedCrash(place)

    with monkeypatch.context() as patch:
        patch.setattr(*crash, killed)
        with pytest.raises(SimulatedCrash):
            network.start(A)
    network.kill(A)
    network.fresh.clear()


def begun_anew_elsewhere(folder: Path) -> tuple[Network, Network]:
    """One has lived and was killed; the other has a folder of its own."""
    one, other = two(folder)
    lived(one)
    return one, other


def test_killed_before_its_mark_a_life_begun_anew_never_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old life goes on to higher numbers, and no snapshot of the other leads into them."""
    one, other = begun_anew_elsewhere(tmp_path)
    anew_killed(other, "before the mark", monkeypatch)
    one.start(A)
    for at in range(len(FIRST), len(SENT), 3):
        one.send(SENT[at : at + 3])
        alone(one, 12)
    assert own(one) == 20
    one.kill(A)
    with pytest.raises(CheckpointError, match=r"snapshot \d+ is known to .*stop this one"):
        other.start(A)
    one.start(A)
    assert own(one) == 20
    answered_once(one)


def test_killed_after_its_mark_neither_life_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = begun_anew_elsewhere(tmp_path)
    anew_killed(other, "after the mark", monkeypatch)
    with pytest.raises(CheckpointError, match=r"began anew after it.*--fresh"):
        one.start(A)
    with pytest.raises(CheckpointError, match=r"is known to .*--fresh"):
        other.start(A)
    other.stores[A].close()
    other.fresh.add(A)
    other.start(A)
    alone(other)
    assert own(other) == 13


def test_killed_after_its_snapshot_the_new_life_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = begun_anew_elsewhere(tmp_path)
    anew_killed(other, "after the snapshot", monkeypatch)
    with pytest.raises(CheckpointError, match="began anew after it"):
        one.start(A)
    other.start(A)
    alone(other)
    assert own(other) == 13


def test_overtaken_before_its_mark_it_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old life starts again between the fence and the mark: the one that begins anew is fenced there."""
    one, other = begun_anew_elsewhere(tmp_path)
    other.fresh.add(A)
    mark = Commits.mark

    def late(self: Commits, *args: object) -> None:
        one.start(A)
        mark(self, *args)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(Commits, "mark", late)
    with pytest.raises(FencedError):
        other.start(A)
    alone(one)
    assert own(one) == 13
    assert not list((tmp_path / "other" / A).glob("*.sgp"))


# -- the topics of the other setting


@pytest.mark.parametrize("before", ["shared", "per-role"])
@pytest.mark.parametrize("state", ["folder", "topic"])
def test_state_topics_changed_under_a_kept_state_is_no_first_start(state: str, before: str, tmp_path: Path) -> None:
    """A folder by the topics' identity, as the default one is, and the topic are empty then; going back is no help."""
    after = {"shared": "per-role", "per-role": "shared"}[before]
    one, _ = two(tmp_path, state=state, state_topics=before)
    lived(one)
    other = Network(tmp_path / "other", replace(one.settings, state_topics=after), one.log, state=state)
    other.clock = one.clock
    with pytest.raises(CheckpointError, match=rf'commits up to \d+ .*state_topics = "{before}"; set that.*--fresh'):
        other.start(A)
    other.stores[A].close()
    other.fresh.add(A)
    other.start(A)
    alone(other)
    assert own(other) == 13
    other.kill(A)
    other.fresh.clear()
    with pytest.raises(CheckpointError, match="began anew after it"):
        one.start(A)
    other.start(A)
    alone(other)
    assert own(other) == 13


def test_with_the_topics_of_both_settings_a_first_start_is_one(tmp_path: Path) -> None:
    """Another role's state in the shared ones is nothing to this."""
    one, _ = two(tmp_path)
    lived(one)
    settings = replace(one.settings, stations=("A", "B"), state_topics="per-role")
    other = Network(tmp_path / "other", settings, one.log)
    other.start("agent.B")
    assert other.kept["agent.B"].number == 0


# -- inputs made anew


@pytest.mark.parametrize("state", ["folder", "topic"])
def test_an_input_that_was_made_anew_is_a_refusal(state: str, tmp_path: Path) -> None:
    """Its journal is as it was, and leads to offsets of a topic that is gone."""
    network, _ = two(tmp_path, state=state)
    lived(network)
    topic = network.settings.topic("observations")
    log = network.log
    assert isinstance(log, MemoryLog)
    del log._topics[topic]
    log.create_topics([TopicSpec(topic, partitions=2)])
    network.send(SENT)
    with pytest.raises(CheckpointError, match=r"streamgp.observations was deleted and made anew.*--fresh"):
        network.start(A)
    network.stores[A].close()
    network.fresh.add(A)
    network.start(A)
    network.kill(A)
    network.fresh.clear()
    network.start(A)
    alone(network)
    assert own(network) == 20


def test_a_snapshot_of_a_release_that_kept_the_journals_identity_alone_is_read(tmp_path: Path) -> None:
    network, _ = two(tmp_path)
    lived(network)
    paths = list((tmp_path / "one" / A).glob("*.sgp"))
    for path in paths:
        base = unpack(path.read_bytes())
        assert "streamgp.observations=" in base["log"]
        path.write_bytes(pack({**base, "log": base["log"].split(" ")[0]}))
    network.start(A)
    assert paths
    assert own(network) == 13
