"""The study of the network layer: its forecasts are prequential, its scores the textbook's, its lies what they say."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from streamgp.experiments.network import gain
from streamgp.experiments.network import stations as data
from streamgp.experiments.network.autoregression import vector_autoregression
from streamgp.experiments.network.local import Belief, Forecasts, default_station, forecasts
from streamgp.experiments.network.picture import draw, weights, write_influences
from streamgp.experiments.network.rounds import LIES, innovations, lie, run_layer
from streamgp.experiments.network.scores import persistence, running_ratio, scorable, score
from streamgp.experiments.network.stations import DAY_MS, SensorNetwork
from streamgp.experiments.registry import no_progress
from streamgp.fusion import trimmed_poe
from tests.data import DATA, needs


def toy(T: int, N: int, *, seed: int, pull: float = 0.7) -> SensorNetwork:
    """Stations in a row: tomorrow's value of each is today's of its left neighbour, and noise."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(T, N))
    for t in range(1, T):
        y[t, 1:] = pull * y[t - 1, :-1] + np.sqrt(1 - pull**2) * y[t, 1:]
    names = tuple(f"s{i}" for i in range(N))
    time_ms = DAY_MS * np.arange(T, dtype=np.int64)
    places = {name: (50.0 + i, 8.0 + i) for i, name in enumerate(names)}
    return SensorNetwork("toy", names, time_ms, 10.0 + 3.0 * y, DAY_MS, places)


def climatology(network: SensorNetwork, *, steps: int = 1) -> Forecasts:
    """Forecasts N(10, 9) whatever happens, and no product."""
    ones, nothing = np.ones_like(network.y), np.full_like(network.y, np.nan)
    local = Belief(10.0 * ones, 6.0 * ones, 3.0 * ones)
    return Forecasts(steps, local, Belief(nothing, nothing, nothing), 10.0 * ones, 3.0 * ones)


def test_local_forecasts_do_not_look_ahead_and_the_product_is_the_trimmed_one() -> None:
    network = toy(80, 5, seed=1)
    network.y[60, 2] = np.nan
    made = forecasts(network, (1, 2), seed=0, progress=no_progress, warm_up=30)
    changed = SensorNetwork(
        network.name, network.stations, network.time_ms, network.y.copy(), network.step_ms, network.places
    )
    changed.y[70:] += 50.0
    twin = forecasts(changed, (1, 2), seed=0, progress=no_progress, warm_up=30)
    for h in (1, 2):
        np.testing.assert_array_equal(made[h].local.mean[:70], twin[h].local.mean[:70])
        assert not np.allclose(made[h].local.mean[70:], twin[h].local.mean[70:])
    assert np.isnan(made[1].local.mean[60, 2])
    stations = [default_station(seed=0, warm_up=30) for _ in range(5)]
    for t in range(75):
        for i in range(5):
            if np.isfinite(network.y[t, i]):
                stations[i].observe(int(network.time_ms[t]), {}, float(network.y[t, i]))
    row, shift, scale = stations[3].ask(int(network.time_ms[75])) or (np.zeros(0), 0.0, 0.0)
    answers = [s.answer(row[None]) for s in stations]
    fused = trimmed_poe(np.stack([a.mean for a in answers]), np.stack([a.variance for a in answers]), 1)
    assert made[1].trimmed.mean[74, 3] == pytest.approx(float(fused.mean[0]) * scale + shift, rel=1e-9)
    assert made[1].local.mean[74, 3] == pytest.approx(float(answers[3].mean[0]) * scale + shift, rel=1e-9)


@pytest.mark.parametrize("steps", [1, 3])
def test_scores_are_the_textbooks(steps: int) -> None:
    network = toy(60, 2, seed=2)
    rng = np.random.default_rng(3)
    belief = Belief(rng.normal(10.0, 3.0, network.y.shape), np.full((60, 2), 4.0), np.full((60, 2), 1.0))
    scored = scorable(network, [belief], steps=steps, burn_in=40)
    found = score(network, belief, scored, steps=steps, columns=[1])
    unit = float(np.std(network.y[:, 1]))
    expected = []
    for t in range(40 + steps, 60):
        mean, sd, y = belief.mean[t - steps, 1] / unit, np.sqrt(5.0) / unit, network.y[t, 1] / unit
        crps = quad(lambda x: norm.cdf(x, mean, sd) ** 2, -40, y)[0]  # noqa: B023  # used within the loop's turn
        crps += quad(lambda x: norm.sf(x, mean, sd) ** 2, y, 40)[0]  # noqa: B023  # as above
        expected.append(((y - mean) ** 2, -norm.logpdf(y, mean, sd), crps, abs(y - mean) <= 1.6448536 * sd))
    mse, nlpd, crps, coverage = np.mean(expected, axis=0)
    assert found["rmse"] == pytest.approx(np.sqrt(mse), rel=1e-9)
    assert found["nlpd"] == pytest.approx(nlpd, rel=1e-9)
    assert found["crps"] == pytest.approx(crps, rel=1e-5)
    assert found["coverage"] == pytest.approx(coverage)


def test_innovations_are_known_at_the_target_and_not_before() -> None:
    network = toy(20, 2, seed=4)
    e = innovations(network, climatology(network, steps=3))
    assert np.isnan(e[:3]).all()
    np.testing.assert_allclose(e[3:], (network.y[3:] - 10.0) / 3.0)


def test_the_layer_beats_local_on_a_row_of_stations_and_shows_who_foretells_whom(tmp_path: Path) -> None:
    network = toy(700, 4, seed=5)
    rows, outcome = gain.compare(network, climatology(network), burn_in=250)
    ratio = {r.method: r.ours for r in rows if r.metric == "ratio"}
    assert set(ratio) == {"persistence", "local", "own", "network", "var"}
    best = np.sqrt((1.0 + 3.0 * (1.0 - 0.7**2)) / 4.0)
    assert ratio["network"] < 1.04 * best
    assert ratio["own"] > 0.98
    assert ratio["var"] < 1.04 * best
    W = weights(network, outcome)
    assert [int(np.argmax(np.abs(W[i]))) for i in (1, 2, 3)] == [0, 1, 2]
    found = {gain.setting(network, 1): (network, outcome)}
    write_influences(tmp_path / "who.csv", found)
    with (tmp_path / "who.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 4 * 3
    draw(tmp_path / "gain.png", rows, found)
    assert (tmp_path / "gain.png").stat().st_size > 10_000


def test_persistence_repeats_and_its_variance_is_known_in_time() -> None:
    network = toy(50, 3, seed=6)
    made = climatology(network)
    belief = persistence(network, made)
    np.testing.assert_array_equal(belief.mean, network.y)
    changes = np.square(np.diff(network.y[:21, 1]))
    assert belief.noise_variance[20, 1] == pytest.approx(changes.mean())


def test_the_vector_autoregression_does_not_look_ahead() -> None:
    network = toy(200, 3, seed=7)
    changed = SensorNetwork("toy", network.stations, network.time_ms, network.y.copy(), DAY_MS, {})
    changed.y[150:] = 0.0
    one, two = (vector_autoregression(n, climatology(network)) for n in (network, changed))
    np.testing.assert_array_equal(one.mean[:150], two.mean[:150])
    np.testing.assert_array_equal(one.noise_variance[:150], two.noise_variance[:150])


@pytest.mark.parametrize("kind", LIES)
def test_lies_are_what_they_are_called(kind: str) -> None:
    e = np.random.default_rng(8).normal(size=(1200, 4))
    e[7, 1] = np.nan
    told = lie(kind, e, [1, 2], rng=np.random.default_rng(9))
    np.testing.assert_array_equal(told[:, [0, 3]], e[:, [0, 3]])
    assert np.isnan(told[7, 1])
    known = np.isfinite(e[:, 1])
    said, true = told[known, 1], e[known, 1]
    if kind == "clip-high":
        assert (said == 8.0).all()
    elif kind == "sign-flipped":
        np.testing.assert_array_equal(said, -true)
    elif kind == "copy":
        np.testing.assert_array_equal(said, e[known, 3])
    elif kind == "sleeper":
        np.testing.assert_array_equal(said[:999], true[:999])
        np.testing.assert_array_equal(said[999:], -true[999:])
    else:
        assert abs(np.corrcoef(said, true)[0, 1]) < 0.1


def test_under_attack_counts_the_honest_alone() -> None:
    network = toy(500, 5, seed=10)
    made = climatology(network)
    said = innovations(network, made)
    clean = run_layer(network, made, said)
    found = gain.under_attack(network, made, clean, clean, liars=[4], burn_in=200)
    assert found["kept"] == pytest.approx(1.0)
    assert found["ratio"] < found["worst"]
    scored = scorable(network, [made.local], steps=1, burn_in=200)
    ours = score(network, clean.belief, scored, steps=1, columns=[0, 1, 2, 3])["rmse"]
    theirs = score(network, made.local, scored, steps=1, columns=[0, 1, 2, 3])["rmse"]
    assert found["ratio"] == pytest.approx(ours / theirs)
    running = running_ratio(network, clean.belief, made.local, steps=1, columns=[0, 1, 2, 3], first=1)
    assert running[-1] < 1.0


@pytest.mark.parametrize(("load", "shape"), [(data.irish_wind, (6574, 12)), (data.german_pm10, (4383, 27))])
def test_the_networks_that_ship(load: object, shape: tuple[int, int]) -> None:
    network = load()  # type: ignore[operator]  # a loader without arguments
    assert abs(network.y.shape[0] - shape[0]) <= 1
    assert network.y.shape[1] == shape[1]
    assert set(network.stations) <= set(network.places)
    assert list(network.stations) == sorted(network.stations)
    assert (np.diff(network.time_ms) == network.step_ms).all()


@pytest.mark.data
@needs("beijing_air_quality.parquet", "solent_weather.csv.gz")
@pytest.mark.parametrize(("load", "shape"), [(lambda: data.beijing("TEMP"), (12_000, 12)), (data.solent, (4320, 4))])
def test_the_networks_that_do_not_ship(load: object, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMGP_DATA", str(DATA))
    network = load()  # type: ignore[operator]  # a loader without arguments
    assert network.y.shape == shape
    assert (np.diff(network.time_ms) == network.step_ms).all()
