"""The simulator of section 4, the exact predictor and the metrics; the studies run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamgp.experiments.hierarchical import STUDIES, scenarios
from streamgp.experiments.hierarchical.channels import weighed
from streamgp.experiments.hierarchical.faults import by_channel, by_cycle
from streamgp.experiments.hierarchical.kept import Kept
from streamgp.experiments.hierarchical.methods import Answers
from streamgp.experiments.hierarchical.metrics import evaluate
from streamgp.experiments.hierarchical.scenarios import QUICK_SEEDS, TOLD, run
from streamgp.experiments.hierarchical.simulate import NOISE_STD, Sample, exact_bayes, simulate
from streamgp.experiments.hierarchical.waveforms import CHANNELS, POINTS, strokes
from streamgp.experiments.hierarchical.zones import SEEDS, STATIONS, agreement, raw_distances
from streamgp.experiments.registry import no_progress


@pytest.mark.parametrize("scenario", ["A", "B", "D"])
def test_the_exact_predictor_is_calibrated_on_what_the_simulator_draws(scenario: str) -> None:
    covered, nll = [], []
    for seed in range(2):
        sample = simulate(scenario, seed, n_clients=3, n_train=30, n_test=60)
        metrics = evaluate(exact_bayes(sample), sample.Y_test, sample.clean_test, noise_std=NOISE_STD)
        covered.append(metrics["coverage"])
        nll.append(metrics["nll"])
    assert 0.9 < np.mean(covered) < 0.99
    assert np.mean(nll) < 0.0


def test_a_seed_gives_one_draw() -> None:
    a, b = simulate("A", 3), simulate("A", 3)
    np.testing.assert_array_equal(a.Y[2], b.Y[2])
    assert not np.array_equal(a.Y[2], simulate("A", 4).Y[2])


def test_metrics_of_a_known_gaussian() -> None:
    rng = np.random.default_rng(0)
    mean, C = np.zeros((4000, 2)), np.array([[1.0, 0.5], [0.5, 2.0]])
    Y = rng.multivariate_normal([0.0, 0.0], C, 4000)
    m = evaluate([(mean, np.tile(C, (4000, 1, 1)))], [Y], [Y], noise_std=0.0)
    entropy = 0.5 * np.log(np.linalg.det(2.0 * np.pi * np.e * C))
    assert m["nll"] == pytest.approx(entropy, abs=0.05)
    assert m["coverage"] == pytest.approx(0.95, abs=0.01)
    assert m["rmse"] == pytest.approx(np.sqrt(1.5), rel=0.03)
    assert m["cov_err"] < 0.1
    assert m["ece"] < 0.02


def test_every_scenario_has_its_study_and_methods_answer() -> None:
    assert [s.name for s in STUDIES] == [*(f"scenario-{x}" for x in "abcd"), "faults", "waveforms", "zones"]
    ((seed, method, metrics),) = run("A", seeds=[0], methods=["exact Bayes"])
    assert set(metrics) == set(TOLD)
    assert (seed, method) == (0, "exact Bayes")
    assert metrics["rmse"] == pytest.approx(0.264, abs=0.001)


def test_cycles_are_told_by_the_class_whose_newcomer_they_are_likeliest_to_be() -> None:
    """Two classes of one mean curve that differ in how much their cycles vary: no mean could tell them apart."""
    rng = np.random.default_rng(0)
    t = np.arange(10.0)
    labels = np.repeat(["steady", "wild"], 12)
    size = np.where(labels == "wild", 1.0, 0.1)[:, None, None]
    made = np.sin(t)[:, None] + size * rng.standard_normal((24, 1, 2)) + 0.05 * rng.standard_normal((24, 10, 2))
    train = np.arange(24) % 3 > 0
    told = by_cycle(made[train], labels[train], made[~train])
    assert np.mean(told == labels[~train]) >= 0.75


def test_a_channel_that_says_nothing_of_the_classes_counts_nothing() -> None:
    """Cycles as different in size as recorded ones; only the first channel's curve depends on the class."""
    rng = np.random.default_rng(1)
    t, labels = np.arange(8.0), np.repeat(["down", "up"], 14)
    size = 5.0 * np.exp(rng.standard_normal((28, 1, 1)))
    made = size * rng.standard_normal((28, 8, 2))
    made[:, :, 0] = np.where(labels == "up", 1.0, -1.0)[:, None] * np.sin(t) * size[:, :, 0] * 2.0
    made[:, :, 0] += 0.1 * size[:, :, 0] * rng.standard_normal((28, 8))
    train = np.arange(28) % 4 > 0
    assert (by_channel(made[train], labels[train], made[~train]) == labels[~train]).all()


def test_weights_are_those_that_make_the_labels_likeliest() -> None:
    """Derivatives by hand lead where a search without them does; a channel of noise gets the least weight."""
    rng = np.random.default_rng(2)
    truth = np.arange(60) % 3
    evidence = 10.0 * rng.standard_normal((3, 60, 3))
    evidence[truth, np.arange(60), 0] += 20.0
    found = weighed(evidence, truth)
    assert found.channels[0] > 2.0 * max(found.channels[1:])

    def loss(w: np.ndarray, classes: np.ndarray) -> float:
        odds = np.einsum("ksq,q->sk", evidence, w) + classes
        likely = odds[np.arange(60), truth] - np.log(np.exp(odds).sum(axis=1))
        return float(-likely.sum() + 0.5 * np.sum((np.log(w) - np.log(w).mean()) ** 2) + 0.5 * classes @ classes)

    best = loss(found.channels, found.classes)
    for _ in range(30):
        moved = found.channels * np.exp(0.05 * rng.standard_normal(3)), found.classes + 0.05 * rng.standard_normal(3)
        assert loss(*moved) > best - 1e-6


def test_zones_are_found_where_stations_of_a_zone_go_together() -> None:
    rng = np.random.default_rng(0)
    own = {zone: rng.standard_normal((200, 1)) for zone in ("urban", "west", "east")}
    Ys = [own[zone] + 0.5 * rng.standard_normal((200, 1)) for zone, *_ in STATIONS.values()]
    Ys[0][:20] = np.nan
    assert agreement(raw_distances(Ys)) == {"average linkage": [1.0], "spectral": [1.0] * SEEDS}
    strangers = [rng.standard_normal((200, 1)) for _ in STATIONS]
    assert max(max(found) for found in agreement(raw_distances(strangers)).values()) < 0.7


def test_a_stroke_is_told_by_the_window_that_a_missing_part_changes() -> None:
    """The same press whatever the generator; the faults differ from the normal stroke where they should."""
    normal, fault = (strokes(20, k, np.random.default_rng(3)).mean(axis=0) for k in (0, 2))
    assert normal.shape == (POINTS, CHANNELS)
    changed = np.abs(normal - fault).max(axis=1)
    assert 0.4 < np.argmax(changed) / POINTS < 0.6
    assert changed[:240].max() < 0.2 * changed.max()


def test_a_study_that_was_cut_off_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in its second seed, in the middle of a line; what was made is not made again, the table is of all."""
    made: list[int] = []

    def answer(sample: Sample, seed: int) -> Answers:
        if len(made) == 1 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            raise KeyboardInterrupt
        made.append(seed)
        return [(np.zeros(Y.shape), np.tile((1.0 + seed) * np.eye(4), (len(Y), 1, 1))) for Y in sample.Y_test]

    monkeypatch.setattr(scenarios, "METHODS", {"full": answer})
    study = next(s for s in STUDIES if s.name == "scenario-d")
    settings = {"quick": True, "seed": 5, "out": tmp_path, "progress": no_progress}
    with pytest.raises(KeyboardInterrupt):
        study.run(**settings)
    fits = tmp_path / "scenario-d-fits.csv"
    fits.write_text(fits.read_text() + fits.read_text().splitlines()[-1][:40])
    report = study.run(**settings)
    assert made == [5, 6, 7]
    assert len(fits.read_text().splitlines()) == 1 + QUICK_SEEDS
    assert [row.metric for row in report.rows] == list(TOLD)
    width = next(row.ours for row in report.rows if row.metric == "width")
    assert width == pytest.approx(2.0 * 1.959964 * np.mean(np.sqrt([6.0, 7.0, 8.0])), rel=1e-6)
    assert (tmp_path / "scenario-d.png").exists()
    ten = study.part("seeds-10-19")
    assert ten.name == "scenario-d-seeds-10-19"


def test_fits_of_other_code_are_not_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "fits.csv"
    Kept(file, ["rmse", "nll"], mark="old").add((0, "full, joint"), {"rmse": 0.1, "nll": -4.0})
    assert Kept(file, ["rmse", "nll"], mark="old").fits == {(0, "full, joint"): {"rmse": 0.1, "nll": -4.0}}
    assert Kept(file, ["rmse"], mark="old").fits == {}
    now = Kept(file, ["rmse"], mark="new")
    now.add((1, "full"), {"rmse": 0.2})
    assert Kept(file, ["rmse"], mark="new").fits == {(1, "full"): {"rmse": 0.2}}
