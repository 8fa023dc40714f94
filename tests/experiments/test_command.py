"""The experiment command: names, files, columns and what a program may read."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from streamgp.errors import DatasetError
from streamgp.experiments import byzantine
from streamgp.experiments.command import command
from streamgp.experiments.registry import GROUPS, Study, studies
from streamgp.experiments.results import COLUMNS, Report, Row


def fake(*, quick, seed, out, progress, share=1.0) -> Report:
    for _ in progress(range(2), description="fake", total=2):
        (out / "fake.png").write_bytes(b"")
    value = share * (float(seed) + (0.5 if quick else 0.25))
    return Report([Row("fake", "n=1", "ours", "mse", value, paper=2.0)], ["a note"])


def broken(**_: object) -> Report:
    raise DatasetError("no such file")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    named = (
        Study(
            "fake", "a fake", fake, ("1.2.3",), {"half": partial(fake, share=0.5), "tenth": partial(fake, share=0.1)}
        ),
        Study("broken", "fails", broken),
    )
    monkeypatch.setattr(byzantine, "STUDIES", named)
    return lambda *args: CliRunner().invoke(command, ["byzantine", *args, "--out", str(tmp_path / "deep" / "out")])


def test_csv_has_the_columns_and_full_precision(run, tmp_path: Path) -> None:
    result = run("fake", "--seed", "3", "--quick")
    assert result.exit_code == 0, result.output
    with (tmp_path / "deep" / "out" / "fake.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS == ("study", "setting", "method", "metric", "ours", "spread", "paper")
    assert rows == [dict(zip(COLUMNS, ("fake", "n=1", "ours", "mse", "3.5", "", "2.0"), strict=True))]
    assert "a note" in result.output


def test_a_study_is_also_called_by_its_section(run, tmp_path: Path) -> None:
    assert run("1.2.3").exit_code == 0
    assert (tmp_path / "deep" / "out" / "1.2.3.csv").is_file()


def test_parts_of_a_study_are_run_alone_and_keep_their_own_files(run, tmp_path: Path) -> None:
    result = run("fake", "--seed", "3", "--part", "tenth", "--part", "half", "--json")
    told = json.loads(result.stdout)["studies"]
    assert {name: study["rows"][0]["ours"] for name, study in told.items()} == {"fake-tenth": 0.325, "fake-half": 1.625}
    assert {p.name for p in (tmp_path / "deep" / "out").glob("*.csv")} == {"fake-tenth.csv", "fake-half.csv"}


@pytest.mark.parametrize(("study", "there"), [("fake", "half, tenth"), ("broken", "it has none")])
def test_a_part_that_is_none_is_refused_before_anything_runs(run, study: str, there: str) -> None:
    result = run(study, "--part", "third")
    assert result.exit_code == 2
    assert "third" in result.output
    assert there in result.output


def test_json_is_alone_on_standard_output(run) -> None:
    result = run("fake", "--json")
    told = json.loads(result.stdout)
    assert told["studies"]["fake"]["rows"][0]["paper"] == 2.0
    assert told["seed"] == 0


def test_unknown_names_and_failures_have_their_own_exit_codes(run) -> None:
    unknown = run("nonsense")
    assert unknown.exit_code == 2
    assert "a fake" in unknown.output
    failed = run("broken")
    assert failed.exit_code == 1
    assert "broken: no such file" in failed.output


def test_all_runs_every_study_in_turn(run) -> None:
    assert run("all").exit_code == 1  # the second one fails, and says so
    assert "fake" in run("all").output


@pytest.mark.parametrize("group", GROUPS)
def test_names_and_aliases_are_distinct(group: str) -> None:
    names = [name for study in studies(group) for name in (study.name, *study.aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)
