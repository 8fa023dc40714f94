"""One life after another of one role: what began anew, or began twice at once, never goes on from the other's state."""

from __future__ import annotations

import json
import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from streamgp.errors import CheckpointError, FencedError
from streamgp.roles.commits import Commits
from streamgp.wire.codec import decode
from streamgp.wire.journal import VERSION, decode_segment, encode_segment, place_of
from streamgp.wire.log import Message, Outgoing, Reader
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import StationForecast
from tests.flow.network import Network, observations, settings_of

A = "agent.A"
FEW = observations(13)  # the warm-up takes ten
MORE = observations(16)
STORES = pytest.mark.parametrize("state", ["folder", "topic"])


def alone(network: Network, rounds: int = 60) -> None:
    """Agent A works, and nobody else."""
    for _ in range(rounds):
        network.step(A)
        network.clock.advance(0.02)


def lived(folder: Path, state: str = "folder", *, snapshot_every_s: float = 0.2) -> Network:
    """Agent A has worked, with two snapshots and commits after the older one, and was killed."""
    network = Network(folder, settings_of(snapshot_every_s=snapshot_every_s), state=state)
    for at in range(0, len(FEW), 9):
        network.send(FEW[at : at + 9])
        alone(network, 12)
    network.kill(A)
    return network


def anew(network: Network) -> None:
    """It begins anew, with a snapshot at once."""
    network.fresh.add(A)
    network.start(A)
    network.fresh.clear()


def under_its_key(network: Network, suffix: str, key: str = A) -> list[Message]:
    return [m for m in network.read(suffix) if m.key == key]


def write(network: Network, suffix: str, values: list[bytes | None], key: str = A) -> None:
    """As somebody else would, into the role's partition."""
    place = place_of(network.log, network.settings.topic("journal"), A)[1]
    topic = network.settings.topic(suffix)
    network.log.writer().write([Outgoing(topic, key, value, partition=place) for value in values])


def spoil(network: Network) -> None:
    """No snapshot that is in the store now is whole any more."""
    if network.state == "folder":
        for path in (network.folder / A).glob("*.sgp"):
            path.write_bytes(path.read_bytes()[:-1])
    else:
        manifests = [m for slot in (0, 1) for m in under_its_key(network, "snapshots", f"{A}/{slot}")[-1:]]
        for m in manifests:
            parts = [k for k in {m.key for m in network.read("snapshots")} if k and k.startswith(f"{m.key}/")]
            for key in parts:
                write(network, "snapshots", [b"damaged"], key=key)


# -- begun anew


def test_anew_beside_snapshots_of_other_topics_with_higher_numbers_is_there_at_the_next_start(tmp_path: Path) -> None:
    """The topics were made anew, so that what is in the folder counts for nothing and its numbers are higher."""
    lived(tmp_path)
    before = sorted(path.name for path in (tmp_path / A).glob("*.sgp"))
    other = Network(tmp_path, settings_of(snapshot_every_s=1e6))
    other.send(FEW)
    with pytest.raises(CheckpointError, match="none that can be used is in its store"):
        other.start(A)
    other.stores[A].close()
    anew(other)
    (first,) = (tmp_path / A).glob("*.sgp")
    assert first.name > max(before)
    alone(other)
    model = other.model("A")
    other.kill(A)
    other.start(A)
    assert other.model("A") == model


def numbers_of_files(folder: Path) -> list[int]:
    return sorted(int(path.stem.rpartition("-")[2]) for path in (folder / A).glob("*.sgp"))


@STORES
def test_a_life_before_is_never_gone_on_from(state: str, tmp_path: Path) -> None:
    """Its snapshots are gone with the first of the new one; nor does a backup of them lead into the new one."""
    network = lived(tmp_path, state)
    backup = shutil.copytree(tmp_path / A, tmp_path / "backup") if state == "folder" else None
    last = max(decode_segment(m.value).number for m in under_its_key(network, "journal"))
    for works in (False, True):
        anew(network)
        (number,) = network.stores[A].numbers()
        assert number == last + 2 or works
        assert number > last
        if works:
            alone(network)
        network.kill(A)
        spoil(network)
        with pytest.raises(CheckpointError, match="none that can be used is in its store"):
            network.start(A)
        network.stores[A].close()
        if backup:
            shutil.rmtree(tmp_path / A)
            shutil.copytree(backup, tmp_path / A)
            with pytest.raises(CheckpointError, match=r"does not reach back.*began anew.*--fresh"):
                network.start(A)
            network.stores[A].close()


@STORES
def test_a_life_goes_on_by_itself_after_it_began_anew(state: str, tmp_path: Path) -> None:
    network = lived(tmp_path, state)
    anew(network)
    alone(network, 15)
    model, commits = network.model("A"), network.kept[A].number
    network.kill(A)
    network.start(A)
    assert (network.model("A"), network.kept[A].number) == (model, commits)
    assert network.kept[A].differs == 0


def test_anew_with_nothing_known_begins_at_zero_and_what_is_asked_twice_is_answered_twice(tmp_path: Path) -> None:
    """What docs/failures.md says of it: the ids are the same."""
    network = Network(tmp_path, settings_of())
    network.send(FEW)
    anew(network)
    assert network.kept[A].number == 0
    network.run()
    first = [decode(m.value, StationForecast).query_id for m in network.read("station-forecasts")]
    network.kill(A)
    anew(network)
    network.run()
    both = [decode(m.value, StationForecast).query_id for m in network.read("station-forecasts")]
    again = both[len(first) :]
    assert again
    assert set(again) <= {query_id for query_id in first if query_id.startswith("A:")}


# -- two at once


def meanwhile(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
    """Between what the next process finds when it looks and its fence, this is done."""
    waiting, fence = [work], Commits.open

    def late(self: Commits) -> None:
        if waiting:
            waiting.pop()()
        fence(self)

    monkeypatch.setattr(Commits, "open", late)


def two(folder: Path, state: str) -> tuple[Network, Network]:
    """Two machines over one log."""
    one = Network(folder / "one", settings_of(snapshot_every_s=0.2), state=state)
    other = Network(folder / "other", one.settings, one.log, state=state)
    other.clock = one.clock
    return one, other


def hand_over(one: Network, other: Network) -> None:
    """The other's agent A is the one that the network works with; the first is fenced at its next commit."""
    first = one.kept[A]
    one.kept[A], one.roles[A], one.stores[A] = other.kept[A], other.roles[A], other.stores[A]
    one.send(MORE[len(FEW) :])
    first.step(0.0)
    one.clock.advance(1.0)
    with pytest.raises(FencedError, match="another process"):
        first.step(0.0)


def test_who_is_fenced_at_its_very_first_start_has_worked_for_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at their first start, no snapshot anywhere; the slower one finds what the other committed meanwhile."""
    one, other = two(tmp_path, "topic")
    one.send(FEW)
    meanwhile(monkeypatch, one.run)
    other.start(A)
    assert other.model("A") == one.model("A")
    hand_over(one, other)
    one.run()
    one.check(MORE)


def test_a_first_start_that_was_overtaken_elsewhere_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other's state is in a folder of its own: never from zero."""
    one, other = two(tmp_path, "folder")
    one.send(FEW)
    meanwhile(monkeypatch, one.run)
    with pytest.raises(CheckpointError, match=r"snapshot \d+ is known to streamgp.snapshots.*stop this one"):
        other.start(A)
    one.kill(A)
    one.send(MORE[len(FEW) :])
    one.run()
    one.check(MORE)


@STORES
def test_who_is_overtaken_at_a_later_start_goes_on_from_the_last_commit(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has restored a snapshot, and the other commits and keeps two newer ones before the fence."""
    one, other = two(tmp_path, state)
    one.send(FEW[:36])
    one.run()
    if state == "folder":
        shutil.copytree(tmp_path / "one" / A, tmp_path / "other" / A)
    number = one.kept[A].number

    def on() -> None:
        one.send(FEW[36:])
        one.run()

    meanwhile(monkeypatch, on)
    other.start(A)
    assert other.kept[A].number == one.kept[A].number > number + 2
    assert other.model("A") == one.model("A")
    hand_over(one, other)
    one.run()
    one.check(MORE)


def test_who_is_overtaken_by_one_that_begins_anew_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = lived(tmp_path / "one")
    _, other = two(tmp_path, "folder")
    other.log, other.logs = network.log, network.logs
    shutil.copytree(tmp_path / "one" / A, tmp_path / "other" / A)
    meanwhile(monkeypatch, lambda: anew(network))
    with pytest.raises(CheckpointError, match="began anew"):
        other.start(A)


def test_commits_without_a_snapshot_or_its_number_are_no_first_start(tmp_path: Path) -> None:
    """The folder is lost, and the snapshots topic holds nothing of this role any more."""
    network = lived(tmp_path)
    shutil.rmtree(tmp_path / A)
    log = network.log
    assert isinstance(log, MemoryLog)
    topic = network.settings.topic("snapshots")
    log.delete_records({(topic, i): part.end for i, part in enumerate(log.partitions(topic))})
    with pytest.raises(CheckpointError, match=r"commits 1 to \d+ are in streamgp.journal, and no snapshot.*--fresh"):
        network.start(A)


class Slow:
    """A reader over a slow line: the end that its first answers told is the end to it."""

    def __init__(self, inner: Reader) -> None:
        self._inner = inner
        self._end: int | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def poll(self, timeout_s: float, max_records: int = 500, *, without: frozenset[str] = frozenset()) -> list[Message]:
        end = sum(self._inner.ends().values())
        self._end = end if self._end is None else self._end
        return self._inner.poll(timeout_s, max_records, without=without) if end == self._end else []


def test_what_was_committed_since_an_earlier_look_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit whose fate is unknown is looked for, and is there: it must not be made again."""
    network = lived(tmp_path)
    last = decode_segment(under_its_key(network, "journal")[-1].value)
    log = network.log
    made = log.reader
    monkeypatch.setattr(log, "reader", lambda *reads, **how: Slow(made(*reads, **how)))
    journal = network.settings.topic("journal")
    commits = Commits(
        log, prefix=network.settings.prefix, role=A, journal=journal, clock=network.clock, stop=threading.Event()
    )
    assert commits.segments(last.number - 1, {}) == [last]
    later = replace(last, number=last.number + 1)
    write(network, "journal", [encode_segment(later)])
    assert commits.segments(last.number, {}) == [later]
    commits.close()


# -- records of others under its key

GARBAGE = [b"not a number", b"garbage", b"", None, b"-1", b"9" * 5_000, b"\xff", b"\x93\x01\x02\x03", b"1e3"]


@pytest.mark.parametrize("fresh", [False, True])
def test_what_others_write_under_its_key_is_left_out_and_told_once(
    fresh: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C43: neither the start nor the number that goes on is another's to decide."""
    network = lived(tmp_path)
    network.start(A)
    before, commits = network.model("A"), network.kept[A].number
    network.kill(A)
    stranger = replace(decode_segment(under_its_key(network, "journal")[-1].value), role="agent.B", number=99)
    misfit = replace(stranger, role=A, positions=())
    write(network, "journal", [*GARBAGE, encode_segment(stranger), encode_segment(misfit)])
    write(network, "snapshots", GARBAGE, key=f"{A}/head")
    first = {s: under_its_key(network, s, k)[-n] for s, k, n in (("journal", A, 11), ("snapshots", f"{A}/head", 9))}
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        if fresh:
            anew(network)
            assert network.kept[A].number > commits
        else:
            network.start(A)
            assert (network.model("A"), network.kept[A].number) == (before, commits)
    told = [r.getMessage() for r in caplog.records if "left out" in r.getMessage()]
    assert len(told) == 2
    for suffix, m in first.items():
        (line,) = [text for text in told if m.topic in text]
        assert f"{m.topic}[{m.partition}] at offset {m.offset}" in line, suffix


def test_a_head_with_a_number_that_nobody_reached_is_a_refusal_and_anew_goes_beyond_it(tmp_path: Path) -> None:
    network = lived(tmp_path)
    write(network, "snapshots", [b"123456789012345"], key=f"{A}/head")
    with pytest.raises(CheckpointError, match=r"commit \d+ is not in streamgp.journal, though 123456789012345"):
        network.start(A)
    network.stores[A].close()
    anew(network)
    alone(network)
    network.kill(A)
    network.start(A)
    assert numbers_of_files(tmp_path)[0] > 123456789012345


def test_left_out_records_hide_no_gap(tmp_path: Path) -> None:
    """The newest snapshot is damaged and the journal gone: the commit between the two is known all the same."""
    network = lived(tmp_path)
    kept = under_its_key(network, "journal")
    log = network.log
    assert isinstance(log, MemoryLog)
    log.delete_records({(kept[-1].topic, kept[-1].partition): kept[-1].offset + 1})
    write(network, "journal", [b"garbage"])
    newest = tmp_path / A / f"snapshot-{numbers_of_files(tmp_path)[-1]:012d}.sgp"
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="does not reach back"):
        network.start(A)


def test_a_copy_of_a_commit_is_left_out_and_another_of_its_number_is_a_refusal(tmp_path: Path) -> None:
    """A mirror of a topic may hold a record twice."""
    network = lived(tmp_path, snapshot_every_s=1e6)
    model = network.model("A")
    values = [m.value for m in under_its_key(network, "journal")]
    write(network, "journal", [values[0], values[-1], values[1]])
    network.start(A)
    assert network.model("A") == model
    network.kill(A)
    write(network, "journal", [encode_segment(replace(decode_segment(values[1]), crc=7))])
    with pytest.raises(CheckpointError, match=r"streamgp.journal holds two different commits 2.*--fresh"):
        network.start(A)
    network.stores[A].close()
    anew(network)


def test_a_commit_of_a_later_release_is_no_stray_record(tmp_path: Path) -> None:
    """Leaving it out would take back what was committed."""
    network = lived(tmp_path)
    last = decode_segment(under_its_key(network, "journal")[-1].value)
    write(network, "journal", [encode_segment(replace(last, number=last.number + 1, v=VERSION + 1))])
    with pytest.raises(CheckpointError, match=r"journal\[\d\] at offset \d+: a segment of version 2.*--fresh"):
        network.start(A)
    network.stores[A].close()
    anew(network)


@pytest.mark.parametrize(
    "manifest", [{"number": -1}, {"number": 10**18}, {"parts": 10**12}, {"parts": -1}, {"number": "x"}]
)
def test_a_damaged_manifest_is_not_used_and_takes_no_memory(manifest: dict[str, object], tmp_path: Path) -> None:
    """C43, C46."""
    network = lived(tmp_path, "topic")
    slots = {slot: under_its_key(network, "snapshots", f"{A}/{slot}")[-1] for slot in (0, 1)}
    older = min(slots, key=lambda slot: json.loads(slots[slot].value or b"")["number"])
    value = {**json.loads(slots[older].value or b""), **manifest}
    network.start(A)
    model = network.model("A")
    network.kill(A)
    write(network, "snapshots", [json.dumps(value).encode()], key=f"{A}/{older}")
    network.start(A)
    assert network.model("A") == model
