"""What a study says of its own table, and the replay of a stream to the two robust rules."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.errors import DatasetError
from streamgp.experiments.byzantine import robots
from streamgp.experiments.byzantine.replay import play, send
from streamgp.experiments.byzantine.stations import Stream, german_pm10, irish_wind, station_stream
from streamgp.experiments.byzantine.trials import Trials
from streamgp.experiments.byzantine.verdicts import beside_the_paper, ordering
from streamgp.experiments.registry import no_progress
from streamgp.experiments.results import Row
from streamgp.experiments.tables import Table
from streamgp.fusion import trimmed_poe


def table(*values: tuple[str, float, float, float]) -> Trials:
    trials = Trials("s")
    for setting, *three in values:
        for method, value in zip(("attack-free", "trimmed", "attacked"), three, strict=True):
            trials.add(setting, method, value)
    return trials


def test_ordering_names_the_rows_where_it_does_not_hold() -> None:
    trials = table(("a", 1.0, 1.0, 10.0), ("b", 2.0, 1.0, 100.0), ("c", 1.0, 2.0, 1.5))
    notes = ordering(trials, ["a", "b", "c"])
    assert notes[0].startswith("attack-free <= trimmed << attacked holds in 1 of 3 rows")
    assert "b (trimmed is 0.5 x attack-free)" in notes[1]
    assert "c (attacked is 0.75 x trimmed and 1.5 x attack-free)" in notes[2]
    assert "a (" not in "".join(notes)


def test_only_columns_and_settings_of_ours_are_held_to_the_paper() -> None:
    rows = [
        Row("s", "x", "trimmed", "mse", 1.0, paper=2.0),
        Row("s", "x", "cloud", "mse", 3.0, paper=2.0),
        Row("s", "x", "attacked", "mse", 9.0, paper=2.0),
        Row("s", "x", "agent 3 local", "mse", 9.0, paper=2.0),
        Row("s", "partial", "cloud", "mse", 9.0, paper=2.0),
        Row("s", "x", "calibrated", "mse", 9.0),
    ]
    assert beside_the_paper(rows, shown="partial") == (
        "At least as good as the paper in 1 of 2 cells; not in x cloud (3, paper 2)."
    )


def stream(queries: int = 300, n: int = 12) -> Stream:
    """Honest agents around a truth of 0; the first claims a variance that is a fifth of the others', and is right."""
    rng = np.random.default_rng(4)
    variances = np.repeat(np.linspace(1.0, 2.0, n)[None], queries, axis=0)
    variances[:, 0] = 0.2
    means = np.sqrt(variances) * rng.normal(size=(queries, n))
    names = tuple(f"s{i}" for i in range(n))
    noise = np.full(n, 0.1)
    truth = np.sqrt(0.1) * rng.normal(size=queries)
    return Stream("s", names, means, variances, noise, truth, np.full(queries, -1), np.arange(queries))


def test_the_report_shows_an_honest_agent_that_is_always_cut() -> None:
    honest, nobody = stream(), np.array([], dtype=np.intp)
    trials = Trials("records")
    report = play(trials, "none", honest, send(honest, "none", nobody, 2, 0), nobody, 2)
    assert report[0].trimmed == report[0].variance_low == pytest.approx(1.0)
    assert not report[0].proof
    assert report[0].standing == "sound"
    assert trials.mean("none", "calibrated", metric="rmse") < trials.mean("none", "trimmed", metric="rmse")


@pytest.mark.parametrize("kind", ["tiny-variance", "hidden", "sleeper", "silence"])
def test_liars_are_cut_and_honest_askers_alone_are_scored(kind: str) -> None:
    honest, liars = stream(), np.array([3, 7])
    sent = send(honest, kind, liars, 2, 0)
    rest = np.setdiff1d(np.arange(12), liars)
    np.testing.assert_array_equal(sent.means[rest], honest.means.T[rest])
    trials = Trials("records")
    report = play(trials, kind, honest, sent, liars, 2)
    assert [a.agent for a in report if a.standing == "barred"] == (
        ["s3", "s7"] if kind in ("tiny-variance", "sleeper") else []
    )
    fused = trimmed_poe(sent.means, sent.variances, 2)
    expected = np.sqrt(np.mean((fused.mean - honest.truth) ** 2))
    assert trials.mean(kind, "trimmed", metric="rmse") == pytest.approx(expected)


def test_a_liars_own_questions_are_left_out() -> None:
    asked = stream()
    asker = np.arange(300) % 12
    mixed = Stream("s", asked.names, asked.means, asked.variances, asked.noise, asked.truth, asker, asked.learned)
    assert send(mixed, "same-value", np.array([3, 7]), 2, 0).means.shape == (12, 250)


def test_real_stations_answer_each_other() -> None:
    found = station_stream("irish-wind", irish_wind(), days=3, n_neighbors=1, seed=0, progress=no_progress)
    assert found.names[0] == "RPT"
    assert found.means.shape == (36, 12) == found.variances.shape
    assert np.isfinite(found.means).all()
    assert (found.variances > 0).all()
    daily, names = german_pm10()
    assert daily.shape[1] == len(names) == 20


def test_a_robot_whose_file_is_missing_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(400, 3))

    def table(name: str) -> Table:
        if name != "kin40k":
            raise DatasetError(f"{name}.csv.gz is not in here")
        return Table(rows[:, :2], rows[:, 2], ("a", "b"))

    monkeypatch.setattr(robots, "table", table)
    found, notes = robots.at_hand(("sarcos", "kin40k"), seed=0)
    assert list(found) == ["kin40k"]
    assert notes == ["sarcos is left out: sarcos.csv.gz is not in here."]
    study, warm = found["kin40k"]
    assert (len(study.y), len(warm.y)) == (300, 100)
    assert robots.largest(study, 9_000) == 0
    with pytest.raises(DatasetError):
        robots.at_hand(("sarcos",), seed=0)
