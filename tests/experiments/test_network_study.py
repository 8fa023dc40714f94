"""The study of the network layer: its forecasts are prequential, its scores the textbook's, its lies what they say."""

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from streamgp.experiments.network import STUDIES, gain
from streamgp.experiments.network import stations as data
from streamgp.experiments.network.autoregression import vector_autoregression
from streamgp.experiments.network.liars import attacked, drawn, n_liars, summary, under_attack
from streamgp.experiments.network.local import Belief, Forecasts, default_station, forecasts
from streamgp.experiments.network.picture import draw, weights, write_influences
from streamgp.experiments.network.rounds import LIES, Outcome, innovations, lie, run_layer
from streamgp.experiments.network.scores import persistence, running_ratio, scorable, score
from streamgp.experiments.network.stations import DAY_MS, SensorNetwork
from streamgp.experiments.registry import no_progress
from streamgp.experiments.results import Row
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
    found = under_attack(network, made, clean, clean.belief, liars=[4], burn_in=200)
    assert found["kept"] == pytest.approx(1.0)
    assert found["ratio"] < found["worst"]
    scored = scorable(network, [made.local], steps=1, burn_in=200)
    ours = score(network, clean.belief, scored, steps=1, columns=[0, 1, 2, 3])["rmse"]
    theirs = score(network, made.local, scored, steps=1, columns=[0, 1, 2, 3])["rmse"]
    assert found["ratio"] == pytest.approx(ours / theirs)
    running = running_ratio(network, clean.belief, made.local, steps=1, columns=[0, 1, 2, 3], first=1)
    assert running[-1] < 1.0
    assert found["worst"] == running.max() >= 1.0  # the first forecasts are the local ones
    alone = [
        running_ratio(network, clean.belief, made.local, steps=1, columns=[i], first=200).max() for i in (0, 1, 2, 3)
    ]
    assert found["worst station"] == max(alone)


def test_one_station_in_six_lies_and_the_draws_differ() -> None:
    sizes = {4: 1, 12: 2, 27: 4}
    assert {n: n_liars(toy(2, n, seed=0)) for n in sizes} == sizes
    twelve = toy(2, 12, seed=0)
    sets = drawn(twelve, 5, seed=3)
    assert sets == drawn(twelve, 5, seed=3) != drawn(twelve, 5, seed=4)
    assert len(set(sets)) == 5
    assert all(len(set(s)) == 2 and s == tuple(sorted(s)) for s in sets)
    assert drawn(toy(2, 4, seed=0), 9, seed=3) == [(0,), (1,), (2,), (3,)]


def test_every_lie_is_told_by_those_who_were_drawn() -> None:
    network = toy(50, 3, seed=11)
    made = climatology(network)
    e = innovations(network, made)
    clean = run_layer(network, made, e)
    found = attacked(network, made, clean.belief, seed=5, draws=1, progress=no_progress, burn_in=30)
    assert tuple(found) == LIES
    (liars,) = drawn(network, 1, seed=5)
    told = run_layer(network, made, lie("noise", e, liars, rng=np.random.default_rng([5, 0])))
    expected = under_attack(network, made, told, clean.belief, liars=liars, burn_in=30)
    assert {m: v for m, (v, _) in found["noise"].items() if m in expected} == pytest.approx(expected, nan_ok=True)


def test_the_worst_of_all_draws_is_told_and_the_mean_of_the_rest() -> None:
    one = {"ratio": 0.9, "kept": 0.8, "worst": 1.2, "worst station": 1.3}
    two = {"ratio": 0.7, "kept": 0.2, "worst": 1.0, "worst station": 1.4}
    found = summary([one, two])
    assert found["ratio"] == pytest.approx((0.8, 0.1))
    assert found["kept"] == pytest.approx((0.5, 0.3))
    assert [found[m][0] for m in ("kept, least", "worst", "worst station")] == [0.2, 1.2, 1.4]


def test_each_network_is_a_part_that_can_be_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts' tables, one after the other, are the whole's; each has a figure and a matrix of its own."""
    assert tuple(STUDIES[0].parts) == (
        "wind", "pm10", "pm2.5", "temperature", "ozone", "solent",
        "pm2.5-far", "temperature-far", "ozone-far", "solent-far",
    )  # fmt: skip
    cases = {f"toy-{seed}": gain.Case(partial(toy, 5, 3 + seed, seed=seed), draws=1, lied=5 - seed) for seed in (0, 1)}
    monkeypatch.setattr(gain, "CASES", cases)
    monkeypatch.setattr(gain, "forecasts", lambda network, horizons, **_: {h: climatology(network) for h in horizons})

    def compared(network: SensorNetwork, made: Forecasts) -> tuple[list[Row], Outcome]:
        outcome = run_layer(network, made, innovations(network, made))
        return [Row("gain", gain.setting(network, made.steps), "network", "ratio", float(network.y.mean()))], outcome

    monkeypatch.setattr(gain, "compare", compared)
    monkeypatch.setattr(gain, "draw", lambda path, *_: path.touch())
    monkeypatch.setattr(gain, "attacked", lambda *_, seed, **__: {"copy": {"kept": (0.5 + seed, None)}})
    run = partial(gain.run, quick=False, seed=2, out=tmp_path, progress=no_progress)
    whole = run(networks=tuple(cases))
    parts = [run(networks=(name,), name=f"gain-{name}") for name in cases]
    assert [row for part in parts for row in part.rows] == whole.rows
    assert [r.setting for r in whole.rows if r.metric == "kept"] == [
        "toy, 1 step, 1 liar of 3, copy", "toy, 1 step, first 4 steps, 1 liar of 4, copy",
    ]  # fmt: skip
    assert {p.name for p in tmp_path.iterdir()} == {
        f"{name}{end}" for name in ("gain", "gain-toy-0", "gain-toy-1") for end in (".png", "-influences.csv")
    }


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
