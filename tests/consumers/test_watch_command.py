"""``streamgp watch`` where nobody answers."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import consumers.watch


def test_without_a_broker_it_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers.watch, "PATIENCE_S", 0.5)
    done = CliRunner().invoke(consumers.watch.command, ["--broker", "127.0.0.1:1", "--timeout", "3"])
    assert done.exit_code == 5
    assert "127.0.0.1:1" in done.stderr
    assert done.stdout == ""
