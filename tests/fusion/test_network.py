"""The network layer as its callers see it: order, time, silence, liars, state."""

from collections.abc import Iterable

import numpy as np
import pytest

from streamgp.errors import SettingsError
from streamgp.fusion.network import Asked, Correction, NetworkLayer
from streamgp.fusion.network_settings import NetworkSettings

STEP = 3_600_000
QUICK = NetworkSettings(refresh=5)


def ring(T: int, n: int, *, seed: int, pull: float = 0.55) -> np.ndarray:
    """(T, n) innovations of unit variance: each station's next one follows the last one of its left neighbour."""
    rng = np.random.default_rng(seed)
    e = rng.normal(size=(T, n))
    for t in range(1, T):
        e[t] = pull * np.roll(e[t - 1], 1) + np.sqrt(1.0 - pull**2) * e[t]
    return e


def names(n: int) -> list[str]:
    return [f"s{i:02d}" for i in range(n)]


def asked(t: int, said: np.ndarray, *, who: Iterable[int] | None = None) -> list[Asked]:
    """Queries at step t of stations whose local forecast is N(0, 1) always, so that y is the innovation itself."""
    stations = names(len(said))
    return [
        Asked(
            stations[i],
            (t + 1) * STEP,
            0.0,
            0.75,
            0.25,
            None if np.isnan(said[i]) or t == 0 else float(said[i]),
            0.0,
            1.0,
        )
        for i in (range(len(said)) if who is None else who)
    ]


def run(layer: NetworkLayer, said: np.ndarray, *, start: int = 0) -> list[list[Correction]]:
    return [layer.step(t * STEP, asked(t, said[t])) for t in range(start, len(said))]


def table(answers: list[list[Correction]], field: str) -> np.ndarray:
    return np.array([[getattr(c, field) for c in step] for step in answers])


def gain(answers: list[list[Correction]], truth: np.ndarray, *, of: list[int], start: int = 0) -> float:
    """RMSE over that of the local forecasts (zero), from step ``start``."""
    error = truth[start + 1 :, of] - table(answers, "mean")[start:-1, of]
    return float(np.sqrt(np.mean(error**2) / np.mean(truth[start + 1 :, of] ** 2)))


def test_learns_whose_errors_foretell_whose() -> None:
    """A ring where 30% of the next error's variance is the neighbour's last one: nearly all of it is gained."""
    truth = ring(1000, 6, seed=1)
    layer = NetworkLayer(QUICK)
    answers = run(layer, truth)
    best = np.sqrt(1.0 - 0.55**2)
    assert gain(answers, truth, of=list(range(6)), start=500) < 1.02 * best
    found = {(i.station, i.source): i.weight for i in layer.influences(horizon_ms=STEP)}
    for i in range(6):
        weights = {s: w for (target, s), w in found.items() if target == f"s{i:02d}"}
        assert max(weights, key=lambda s: abs(weights[s])) == f"s{(i - 1) % 6:02d}"
    error = truth[501:] - table(answers, "mean")[500:-1]
    variance = table(answers, "variance")[500:-1] + table(answers, "noise_variance")[500:-1]
    assert np.mean(error**2 < 2.7055 * variance) == pytest.approx(0.9, abs=0.025)
    assert np.mean(error**2 / variance) == pytest.approx(1.0, abs=0.08)


def test_without_sources_a_station_still_learns_from_its_own_errors() -> None:
    """n_sources = 0: an AR(1) error is foretold by the last one alone, and nobody is named."""
    rng = np.random.default_rng(17)
    truth = rng.normal(size=(600, 2))
    for t in range(1, len(truth)):
        truth[t, 0] = 0.6 * truth[t - 1, 0] + 0.8 * truth[t, 0]
    layer = NetworkLayer(NetworkSettings(n_sources=0, refresh=5))
    answers = run(layer, truth)
    assert gain(answers, truth, of=[0], start=300) < 0.85
    assert layer.influences(horizon_ms=STEP) == []


def test_where_nothing_is_to_gain_little_is_lost() -> None:
    truth = ring(500, 6, seed=2, pull=0.0)
    answers = run(NetworkLayer(QUICK), truth)
    assert gain(answers, truth, of=list(range(6))) < 1.005


def test_the_first_forecasts_are_left_as_they_are() -> None:
    """Before anything is learned the local forecast comes back, variance and all."""
    layer = NetworkLayer(QUICK)
    for answer in run(layer, ring(15, 4, seed=3))[-1]:
        assert (answer.mean, answer.variance, answer.noise_variance) == (0.0, 0.75, 0.25)
        assert answer.weights == (1.0, 0.0, 0.0, 0.0)


def test_nothing_that_is_due_later_has_an_effect_now() -> None:
    """No look-ahead: innovations shifted or changed from step 150 on leave all answers before it untouched."""
    truth = ring(200, 5, seed=4)
    changed = truth.copy()
    changed[150:] = -7.0 * truth[150:][::-1]
    one, two = run(NetworkLayer(QUICK), truth), run(NetworkLayer(QUICK), changed)
    assert one[:150] == two[:150]
    assert one[150] != two[150]


@pytest.mark.parametrize("ahead", [1, 80])
def test_a_future_that_arrives_early_changes_nothing_before_it_is_due(ahead: int) -> None:
    """A copy of the stream runs ahead of it: every answer, of all stations and to the bit, is that without the copy.

    The copy is what the stations will say, told the layer up to all 80 steps before, between queries of one step too;
    a newcomer among them is not there before its time either.
    """
    truth = ring(80, 4, seed=5)
    plain, early = NetworkLayer(QUICK), NetworkLayer(QUICK)
    told = 1
    for t in range(len(truth)):
        questions = asked(t, truth[t], who=range(4 if t >= 50 else 3))
        for u in range(told, min(t + ahead + 1, len(truth))):
            early.hear(
                u * STEP,
                [(a.station, a.innovation) for a in asked(u, truth[u])[: 4 if u >= 50 else 3]],
                horizon_ms=STEP,
            )
        told = max(told, min(t + ahead + 1, len(truth)))
        expected = plain.step(t * STEP, questions)
        assert t == 0 or early.answer(t * STEP, questions[:2]) == expected[:2]
        assert early.step(t * STEP, questions) == expected
        assert early.stations == plain.stations
        assert early.influences(horizon_ms=STEP) == plain.influences(horizon_ms=STEP)


def test_a_changed_copy_of_the_future_is_not_looked_at() -> None:
    """What is told ahead of its time and is wrong by far moves nothing until that time, then it does."""
    truth = ring(150, 4, seed=5)
    plain, ahead = NetworkLayer(QUICK), NetworkLayer(QUICK)
    run(plain, truth)
    run(ahead, truth)
    for k in range(4):
        ahead.observe(f"s{k:02d}", 151 * STEP, 5.0, horizon_ms=STEP)
    now = asked(150, truth[149])
    assert plain.step(150 * STEP, now) == ahead.step(150 * STEP, now)
    assert plain.step(150 * STEP, now) == ahead.step(150 * STEP, now)
    then = asked(151, truth[148])
    assert plain.step(151 * STEP, then) != ahead.step(151 * STEP, then)


@pytest.mark.parametrize("seed", [6, 7])
def test_the_order_within_a_step_makes_no_difference(seed: int) -> None:
    """To the bit: any order, one call of step or single calls of observe and correct."""
    rng = np.random.default_rng(seed)
    truth = ring(70, 7, seed=seed)
    truth[rng.uniform(size=truth.shape) < 0.1] = np.nan
    one, two, three = (NetworkLayer(QUICK) for _ in range(3))
    for t in range(len(truth)):
        questions = asked(t, truth[t])
        first = one.step(t * STEP, questions)
        order = rng.permutation(7).tolist()
        second = two.step(t * STEP, [questions[i] for i in order])
        assert [second[order.index(i)] for i in range(7)] == first
        if t == 0:
            three.step(0, questions)
            continue
        for i in order:
            three.observe(questions[i].station, t * STEP, questions[i].innovation, horizon_ms=STEP)
        assert {c.station: c for c in (three.correct(t * STEP, questions[i]) for i in order)} == {
            c.station: c for c in first
        }


def test_state_round_trip_is_equal_to_the_bit() -> None:
    """C46: a twin from the state answers and learns the same; the state is not shared with it."""
    truth = ring(160, 6, seed=8)
    truth[80:90, 2] = np.nan
    layer = NetworkLayer(QUICK, coordinates={"s01": (50.0, 8.0), "s02": (51.0, 9.0)})
    run(layer, truth[:120])
    state = layer.state()
    twin = NetworkLayer.from_state(state)
    assert run(layer, truth, start=120) == run(twin, truth, start=120)
    again = NetworkLayer.from_state(state)
    assert run(again, truth, start=120) == run(NetworkLayer.from_state(state), truth, start=120)
    assert twin.influences(horizon_ms=STEP) == layer.influences(horizon_ms=STEP)


def test_states_of_other_versions_are_refused() -> None:
    state = NetworkLayer().state()
    with pytest.raises(ValueError, match="version 99"):
        NetworkLayer.from_state({**state, "version": 99})


def test_a_silent_source_is_integrated_out_and_named() -> None:
    """While the neighbour is silent the answer is what the others let expect, with a wider variance."""
    truth = ring(501, 5, seed=9)
    truth[500] = (3.0, 0.0, 0.0, 0.0, 0.0)
    layer = NetworkLayer(QUICK)
    run(layer, truth[:500])
    heard = NetworkLayer.from_state(layer.state()).step(500 * STEP, asked(500, truth[500]))[1]
    muted = layer.step(500 * STEP, asked(500, truth[500], who=[1, 2, 3, 4]))[0]
    assert muted.silent == ("s00",)
    assert heard.silent == ()
    assert heard.shift > 1.2
    assert abs(muted.shift) < 0.8
    assert muted.ratio > heard.ratio + 0.1


def test_a_late_innovation_serves_the_next_answer() -> None:
    truth = ring(400, 4, seed=10)
    on_time, late = NetworkLayer(QUICK), NetworkLayer(QUICK)
    run(on_time, truth[:300])
    run(late, truth[:300])
    said = truth[300].copy()
    said[0] = np.nan
    late.step(300 * STEP, asked(300, said))
    late.observe("s00", 300 * STEP, float(truth[300, 0]), horizon_ms=STEP)
    on_time.step(300 * STEP, asked(300, truth[300]))
    question = Asked("s01", 301 * STEP, 0.0, 0.75, 0.25, None, 0.0, 1.0)
    assert late.correct(300 * STEP, question).shift == pytest.approx(
        on_time.correct(300 * STEP, question).shift, abs=1e-9
    )


def test_stations_join_late_leave_and_come_back_after_a_month() -> None:
    """A newcomer gains in the end; one that was away for 720 hours goes on where it was, and harms nobody."""
    truth = ring(1500, 6, seed=11)
    layer = NetworkLayer(QUICK)
    answers: dict[int, dict[str, Correction]] = {}
    for t in range(len(truth)):
        here = [i for i in range(6) if (i != 5 or t >= 100) and (i != 2 or not 400 <= t < 1120)]
        answers[t] = {c.station: c for c in layer.step(t * STEP, asked(t, truth[t], who=here))}

    def ratio(who: int, span: range) -> float:
        error = [truth[t + 1, who] - answers[t][f"s{who:02d}"].mean for t in span]
        return float(np.sqrt(np.mean(np.square(error)) / np.mean(truth[span.start + 1 : span.stop + 1, who] ** 2)))

    best = np.sqrt(1.0 - 0.55**2)
    assert ratio(5, range(500, 1499)) < 1.05 * best
    assert ratio(2, range(1120, 1499)) < 1.08 * best
    assert ratio(3, range(420, 1100)) < 1.01
    assert ratio(3, range(1130, 1499)) < 1.08 * best


FLIP = 500


def lie(kind: str, said: np.ndarray, liars: list[int], *, seed: int) -> np.ndarray:
    told = said.copy()
    for j in liars:
        if kind == "clip-high":
            told[:, j] = 5.0
        elif kind == "noise":
            told[:, j] = np.random.default_rng(seed + j).normal(size=len(said))
        elif kind == "flipped":
            told[:, j] = -said[:, j]
        elif kind == "copy":
            told[:, j] = said[:, (j + 2) % said.shape[1]]
        else:
            told[FLIP:, j] = -said[FLIP:, j]
    return told


@pytest.fixture(scope="module")
def clean() -> tuple[np.ndarray, list[list[Correction]]]:
    truth = ring(800, 12, seed=12)
    return truth, run(NetworkLayer(), truth)


@pytest.mark.parametrize("kind", ["clip-high", "noise", "flipped", "copy", "sleeper"])
def test_two_liars_of_twelve_cannot_make_it_worse(kind: str, clean: tuple[np.ndarray, list[list[Correction]]]) -> None:
    """The honest never do worse than 1.01 x local; all keep half of the gain, those with an honest source most."""
    truth, undisturbed = clean
    liars = [3, 9]
    answers = run(NetworkLayer(), lie(kind, truth, liars, seed=13))
    honest = [i for i in range(12) if i not in liars]
    error = (truth[1:] - table(answers, "mean")[:-1]) ** 2
    local = truth[1:] ** 2
    alone = np.sqrt(np.cumsum(error[:, honest], axis=0) / np.cumsum(local[:, honest], axis=0))
    assert alone.max() <= 1.01  # each of them, at every step from the first forecast on
    for group, share in ((honest, 0.5), ([i for i in honest if (i - 1) % 12 not in liars], 0.9)):
        full = 1.0 - gain(undisturbed, truth, of=group, start=300)
        assert 1.0 - gain(answers, truth, of=group, start=300) >= share * full
    if kind == "sleeper":
        told = {(c.station, s) for step in answers[FLIP : FLIP + 200] for c in step for s in c.dropped}
        assert {("s04", "s03"), ("s10", "s09")} <= told


@pytest.mark.parametrize("kind", ["flattered", "clip-high"])
def test_all_but_one_may_lie(kind: str) -> None:
    """A station that alone is honest among six is no worse than 1.01 x its local forecasts at any step.

    flattered: the others know its next error, say so for 60 steps, and the contrary in the next 30, and so on.
    """
    truth = ring(300, 6, seed=18)
    told = lie(kind, truth, [1, 2, 3, 4, 5], seed=19)
    if kind == "flattered":
        coming = np.append(truth[1:, 0], 0.0)
        sign = np.where(np.arange(300) % 90 < 60, 1.0, -1.0)
        told = np.column_stack([truth[:, 0], *[sign * coming] * 5])
    error = truth[1:, 0] - table(run(NetworkLayer(QUICK), told), "mean")[:-1, 0]
    running = np.sqrt(np.cumsum(error**2) / np.cumsum(truth[1:, 0] ** 2))
    assert running.max() <= 1.01
    if kind == "flattered":
        assert running[-1] < 0.98  # what the liars said was worth more than it cost


def test_one_bad_number_is_refused_and_counted() -> None:
    """C37: NaN, infinity and absurd innovations neither enter nor stop anything; large ones are clipped."""
    truth = ring(100, 4, seed=14)
    layer, calm = NetworkLayer(QUICK), NetworkLayer(QUICK)
    run(layer, truth)
    run(calm, truth)
    for bad in (np.nan, np.inf, -np.inf):
        layer.observe("s00", 100 * STEP, bad, horizon_ms=STEP)
    assert layer.refused == 3
    layer.observe("s00", 100 * STEP, 1e300, horizon_ms=STEP)
    calm.observe("s00", 100 * STEP, QUICK.clip, horizon_ms=STEP)
    question = Asked("s01", 101 * STEP, 0.0, 0.75, 0.25, None, 0.0, 1.0)
    assert layer.correct(100 * STEP, question) == calm.correct(100 * STEP, question)


@pytest.mark.parametrize(
    ("mean", "variance", "noise"), [(np.nan, 1.0, 1.0), (0.0, np.inf, 1.0), (0.0, 0.0, 0.0), (0.0, -2.0, 1.0)]
)
def test_a_forecast_that_is_none_is_handed_back(mean: float, variance: float, noise: float) -> None:
    layer = NetworkLayer(QUICK)
    answer = layer.step(0, [Asked("a", STEP, mean, variance, noise), Asked("b", STEP, 1.0, 1.0, 1.0)])
    assert (answer[0].shift, answer[0].ratio) == (0.0, 1.0)
    assert answer[0].variance == variance
    assert answer[1].mean == 1.0


def test_units_do_not_matter() -> None:
    """C29: forecasts in other units are corrected by the same standardised shift."""
    truth = ring(80, 3, seed=15)
    layer, scaled = NetworkLayer(QUICK), NetworkLayer(QUICK)
    for t in range(len(truth)):
        plain = layer.step(t * STEP, asked(t, truth[t]))
        big = [
            Asked(a.station, a.target_ms, 5.0, 0.75 * 2**20, 0.25 * 2**20, a.innovation, 5.0, 1024.0)
            for a in asked(t, truth[t])
        ]
        for one, other in zip(plain, scaled.step(t * STEP, big), strict=True):
            assert other.shift == pytest.approx(one.shift, abs=1e-9)
            assert other.mean == pytest.approx(5.0 + 1024.0 * one.mean, abs=1e-6)
            assert other.variance == pytest.approx(2**20 * one.variance, rel=1e-9)


def test_several_horizons_of_one_station() -> None:
    """Each horizon learns from its own errors; the sources are heard through their shortest."""
    truth = ring(450, 4, seed=16)
    layer = NetworkLayer(QUICK)
    long_errors = []
    for t in range(len(truth)):
        questions = asked(t, truth[t])
        # The three-step error: its own, half foretold by the left neighbour's one-step innovation of three steps ago.
        for i in range(4):
            innovation = None if t < 3 else float(0.9 * truth[t - 3, (i - 1) % 4] + 0.3 * truth[t, i])
            questions.append(Asked(f"s{i:02d}", (t + 3) * STEP, 0.0, 0.75, 0.25, innovation, 0.0, 1.0))
        answers = layer.step(t * STEP, questions)
        assert [a.target_ms - t * STEP for a in answers] == [STEP] * 4 + [3 * STEP] * 4
        if 250 < t < 440:
            for i in range(4):
                y = 0.9 * truth[t, (i - 1) % 4] + 0.3 * truth[t + 3, i]
                long_errors.append((y - answers[4 + i].mean) ** 2)
    assert np.mean(long_errors) < 0.3


def test_horizons_without_end_do_not_fill_the_memory() -> None:
    layer = NetworkLayer(QUICK)
    for power in range(40):
        layer.correct(0, Asked("a", 2**power, 0.0, 1.0, 1.0))
    assert len(layer.state()["targets"]) <= 16
    assert layer.correct(5, Asked("a", 5, 1.0, 1.0, 1.0)).mean == 1.0


def test_two_queries_of_one_station_in_a_step() -> None:
    layer = NetworkLayer(QUICK)
    one, two = Asked("a", STEP, 1.0, 1.0, 1.0), Asked("a", STEP + 1, 2.0, 1.0, 1.0)
    assert [c.mean for c in layer.step(0, [two, one])] == [2.0, 1.0]


@pytest.mark.parametrize(
    "wrong",
    [{"n_sources": -1}, {"n_sources": 99}, {"clip": 0.0}, {"forgetting": ()}, {"forgetting": (1.1,)}, {"ridge": (0.0,)},
     {"refresh": 0}, {"warm_up": -1}, {"hedge_memory": 0.0}, {"handicap": -1.0}],
)  # fmt: skip
def test_settings_out_of_range_are_refused(wrong: dict) -> None:
    with pytest.raises(SettingsError):
        NetworkSettings(**wrong)
