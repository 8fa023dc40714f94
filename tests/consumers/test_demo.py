"""What the demo cannot do it refuses before the run, in one line; what is empty is still drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from consumers.demo import command
from streamgp.demo.picture import draw
from streamgp.demo.plan import Plan
from streamgp.demo.tally import Tally
from streamgp.errors import SettingsError
from streamgp.roles.settings import Settings, parse_settings
from streamgp.wire.records import Observation


def test_a_folder_that_cannot_be_made_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(command, ["--out", str(tmp_path / "file" / "below"), "--period", "1961:1963"])
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.startswith("error: --out ")
    assert result.stderr.count("\n") == 1


def test_a_small_network_has_fewer_liars_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One station of elecdemand cannot have two liars; by default it has none."""
    arguments = ["--out", str(tmp_path), "--json"]
    for stations, liars in (("ABCDEFGHIJKLMN", 2), ("ABCDEFG", 1), ("A", 0)):
        rows = [Observation(station=s, time_ms=1, x={}, y=1.0) for s in stations]
        monkeypatch.setattr("consumers.demo.observations", lambda *_, rows=rows, **__: rows)
        assert len(json.loads(CliRunner().invoke(command, arguments).stdout)["liars"]) == liars


def test_a_late_station_that_would_never_come_is_refused() -> None:
    rows = [Observation(station=s, time_ms=t, x={}, y=1.0) for t in range(10) for s in ("A", "B")]
    with pytest.raises(SettingsError, match="no observation of B"):
        Plan("rows", rows, Settings(), liars=0, late={"B": 10})
    assert len(Plan("rows", rows, Settings(), liars=0, late={"B": 9}).sent()) == 11


def test_a_run_without_any_score_is_drawn(tmp_path: Path) -> None:
    draw(Tally("p", liars=frozenset("A")), tmp_path / "empty.png", unit="y", attack_from_ms=None)
    assert (tmp_path / "empty.png").read_bytes().startswith(b"\x89PNG")


def test_correlated_experts_serve_the_demo(tmp_path: Path) -> None:
    """``--model cpoe``: every station forecasts with it, better than persistence, and its interval holds."""
    (tmp_path / "settings.toml").write_text("[model]\nwarm_up = 40\nexpert_size = 32\nmax_experts = 4\n")
    arguments = ["--model", "cpoe", "--settings", str(tmp_path / "settings.toml"), "--period", "1961-01-01:1961-03-22"]
    result = CliRunner().invoke(command, [*arguments, "--json", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    methods = json.loads(result.stdout)["methods"]
    for method in ("local", "cloud_trimmed", "chosen"):
        assert methods[method]["rmse"] < methods["persistence"]["rmse"]
        assert 0.8 < methods[method]["coverage"] < 0.99


def test_settings_of_the_model_are_checked_by_name() -> None:
    with pytest.raises(SettingsError, match="max_experts must be at least"):
        parse_settings('[model]\nkind = "cpoe"\nmax_experts = 1\n')
    with pytest.raises(SettingsError, match="expert_size"):
        parse_settings("[model]\nexpert_size = 0\n")
