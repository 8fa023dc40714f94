"""A file that one at a time holds."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamgp.errors import SettingsError
from streamgp.wire.lock import locked, try_lock


def test_one_at_a_time_holds_it_though_each_removes_it(tmp_path: Path) -> None:
    """Who waits has the removed file open, and must not take that for the lock."""
    counted = tmp_path / "counted"
    counted.write_text("0")

    def count(_: int) -> None:
        with locked(tmp_path / "lock", wait_s=20.0):
            before = int(counted.read_text())
            time.sleep(0.001)
            counted.write_text(str(before + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(40)))
    assert counted.read_text() == "40"
    assert not (tmp_path / "lock").exists()


def test_a_removed_file_is_nobodys_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed after it was opened and before it was locked: whoever comes next would make and hold another."""
    path, opened = tmp_path / "lock", os.open

    def opened_late(*given: int) -> int:
        held = opened(*given)
        path.unlink()
        return held

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opened_late)
        assert try_lock(path) is None
    held = try_lock(path)
    assert held is not None
    os.close(held)


def test_another_is_waited_for_and_not_for_ever(tmp_path: Path) -> None:
    held = try_lock(tmp_path / "lock")
    assert held is not None
    with pytest.raises(SettingsError, match=r"another process holds .*lock.* nothing was changed"):
        locked(tmp_path / "lock", wait_s=0.05).__enter__()
    os.close(held)  # a file that was left behind holds nothing
    with locked(tmp_path / "lock", wait_s=0.0):
        assert try_lock(tmp_path / "lock") is None
