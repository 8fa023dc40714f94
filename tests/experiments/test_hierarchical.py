"""The simulator of section 4, the exact predictor and the metrics; the studies run."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.experiments.hierarchical import STUDIES
from streamgp.experiments.hierarchical.faults import by_cycle
from streamgp.experiments.hierarchical.metrics import evaluate
from streamgp.experiments.hierarchical.scenarios import run
from streamgp.experiments.hierarchical.simulate import NOISE_STD, exact_bayes, simulate
from streamgp.experiments.hierarchical.waveforms import CHANNELS, POINTS, strokes
from streamgp.experiments.hierarchical.zones import RULES, STATIONS, agreement, raw_distances


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


def test_zones_are_found_where_stations_of_a_zone_go_together() -> None:
    rng = np.random.default_rng(0)
    own = {zone: rng.standard_normal((200, 1)) for zone in ("urban", "west", "east")}
    Ys = [own[zone] + 0.5 * rng.standard_normal((200, 1)) for zone, *_ in STATIONS.values()]
    Ys[0][:20] = np.nan
    assert agreement(raw_distances(Ys)) == dict.fromkeys(RULES, 1.0)
    strangers = [rng.standard_normal((200, 1)) for _ in STATIONS]
    assert max(agreement(raw_distances(strangers)).values()) < 0.7


def test_a_stroke_is_told_by_the_window_that_a_missing_part_changes() -> None:
    """The same press whatever the generator; the faults differ from the normal stroke where they should."""
    normal, fault = (strokes(20, k, np.random.default_rng(3)).mean(axis=0) for k in (0, 2))
    assert normal.shape == (POINTS, CHANNELS)
    changed = np.abs(normal - fault).max(axis=1)
    assert 0.4 < np.argmax(changed) / POINTS < 0.6
    assert changed[:240].max() < 0.2 * changed.max()
