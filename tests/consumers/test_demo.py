"""What the demo cannot do it refuses before the run, in one line; what is empty is still drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from consumers.demo import command
from streamgp.demo.picture import draw
from streamgp.demo.plan import Plan
from streamgp.demo.tally import Tally
from streamgp.errors import SettingsError
from streamgp.roles.settings import Settings
from streamgp.wire.records import Observation


def test_a_folder_that_cannot_be_made_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(command, ["--out", str(tmp_path / "file" / "below"), "--period", "1961:1963"])
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.startswith("error: --out ")
    assert result.stderr.count("\n") == 1


def test_a_late_station_that_would_never_come_is_refused() -> None:
    rows = [Observation(station=s, time_ms=t, x={}, y=1.0) for t in range(10) for s in ("A", "B")]
    with pytest.raises(SettingsError, match="no observation of B"):
        Plan("rows", rows, Settings(), liars=0, late={"B": 10})
    assert len(Plan("rows", rows, Settings(), liars=0, late={"B": 9}).sent()) == 11


def test_a_run_without_any_score_is_drawn(tmp_path: Path) -> None:
    draw(Tally("p", liars=frozenset("A")), tmp_path / "empty.png", unit="y", attack_from_ms=None)
    assert (tmp_path / "empty.png").read_bytes().startswith(b"\x89PNG")
