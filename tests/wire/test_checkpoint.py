"""Snapshots come back to the bit; damage is told, never read; the one before is kept."""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamgp.errors import CheckpointError, FencedError
from streamgp.wire.checkpoint import FolderStore, pack, unpack

ARRAYS = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.uint8, np.bool_, np.complex128]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLAIN = st.none() | st.booleans() | st.integers(-(2**130), 2**130) | st.floats() | TEXT | st.binary(max_size=9) | ARRAYS
NESTED = st.recursive(PLAIN, lambda s: st.lists(s, max_size=3) | st.dictionaries(TEXT, s, max_size=3), max_leaves=6)
STATES = st.dictionaries(TEXT, NESTED, max_size=4)


def same(a: Any, b: Any) -> bool:
    """Equal to the bit, types included."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    return bool(a == b)


@given(state=STATES)
@settings(max_examples=60, deadline=None)
def test_states_come_back_to_the_bit(state: dict[str, Any]) -> None:
    assert same(state, unpack(pack(state)))


def test_arrays_in_any_layout_and_numpy_numbers_are_kept() -> None:
    wide = np.asfortranarray(np.arange(12.0).reshape(3, 4))[:, ::2]
    back = unpack(pack({"wide": wide, "big": np.arange(3, dtype=">i4"), "n": np.int32(4), "f": np.float64(0.1)}))
    assert np.array_equal(back["wide"], wide)
    assert back["big"].dtype == np.dtype(">i4")
    assert (back["n"], back["f"]) == (4, 0.1)
    back["wide"][0, 0] = 9.0  # it owns its memory


@pytest.mark.parametrize("bad", [object(), np.array([None]), np.array(["a"]), np.datetime64("now"), lambda: 0, 3 + 4j])
def test_what_would_need_pickle_is_refused(bad: object) -> None:
    with pytest.raises(CheckpointError, match="cannot be kept"):
        pack({"bad": bad})


def test_every_cut_and_every_flipped_bit_is_noticed() -> None:
    """C46: never a wrong state."""
    data = pack({"rows": np.arange(5.0), "names": ["A", "B"]})
    for length in range(len(data)):
        with pytest.raises(CheckpointError):
            unpack(data[:length])
    for at in range(len(data)):
        for bit in range(8):
            with pytest.raises(CheckpointError):
                unpack(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
    with pytest.raises(CheckpointError):
        unpack(data + b"\0")


def test_a_newer_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """C46."""
    monkeypatch.setattr("streamgp.wire.checkpoint.VERSION", 3)
    newer = pack({"n": 1})
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="newer version, 3; this release reads 1"):
        unpack(newer)


class _Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


def test_a_pickle_is_no_snapshot(tmp_path: Path) -> None:
    """C43: nothing of it is executed."""
    bomb = pickle.dumps(_Trap(tmp_path / "made"))
    with pytest.raises(CheckpointError, match="unknown format"):
        unpack(bomb)
    assert not (tmp_path / "made").exists()


def test_the_one_before_is_kept(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "a" / "b")
    for number in (0, 5, 7):
        store.save(number, pack({"n": number}))
    assert [(n, unpack(data)) for n, data in store.load()] == [(7, {"n": 7}), (5, {"n": 5})]
    store.close()


def test_what_was_just_kept_stays_whatever_else_is_there(tmp_path: Path) -> None:
    """Files with higher numbers, of other topics, are no newer snapshots of this role."""
    for number in (19, 23):
        (tmp_path / f"snapshot-{number:012d}.sgp").write_bytes(b"another's")
    store = FolderStore(tmp_path)
    for number in (3, 4, 12):
        store.save(number, pack({"n": number}))
    assert [n for n, _ in store.load()] == store.numbers() == [23, 19, 12, 4]
    store.save(10**13, pack({"n": 10**13}))
    store.forget(23)
    assert store.numbers() == [10**13, 23]
    store.close()


def test_one_process_a_folder(tmp_path: Path) -> None:
    """C41: the second of the two stops, and says why."""
    store = FolderStore(tmp_path)
    with pytest.raises(FencedError, match="another process uses the state folder"):
        FolderStore(tmp_path)
    store.close()
    FolderStore(tmp_path).close()


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="state folder"):
        FolderStore(tmp_path / "file" / "sub")


FULL = """
import resource, signal, sys
from pathlib import Path
from streamgp.errors import CheckpointError
from streamgp.wire.checkpoint import FolderStore, pack
store = FolderStore(Path(sys.argv[1]))
store.save(1, pack({"n": 1}))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    store.save(2, pack({"n": 2, "rows": b"x" * 100_000}))
except CheckpointError as error:
    print(error)
"""


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """A write that the system refuses in the middle."""
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "snapshot 2 was not written" in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lock", "snapshot-000000000001.sgp"]


@pytest.mark.parametrize("place", ["write", "fsync", "rename"])
def test_an_end_within_the_write_leaves_the_last_good_one(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kill -9 would end it, before or after each step."""

    class Killed(BaseException):
        pass

    def kill(*_: object, **__: object) -> None:
        raise Killed

    store = FolderStore(tmp_path)
    store.save(1, pack({"n": 1}))
    targets = {"write": (Path, "open"), "fsync": (os, "fsync"), "rename": (Path, "rename")}
    with monkeypatch.context() as patch:
        patch.setattr(*targets[place], kill)
        with pytest.raises(Killed):
            store.save(2, pack({"n": 2}))
    store.close()
    again = FolderStore(tmp_path)
    assert [n for n, _ in again.load()] == [1]
    again.save(2, pack({"n": 2}))
    assert [n for n, _ in again.load()] == [2, 1]
    again.close()


def test_a_snapshot_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    """It holds the rows that the model was learned from."""
    store = FolderStore(tmp_path / "state")
    store.save(1, pack({}))
    store.close()
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "state", *(tmp_path / "state").iterdir())]
    assert all(mode & 0o077 == 0 for mode in modes)
