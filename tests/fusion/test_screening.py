"""The choice of sources: found among many, kept when good, linear in memory, the same on every run."""

import numpy as np
import pytest

from streamgp.fusion.screening import NOBODY, Screening

NOWHERE = np.full((1000, 2), np.nan)


def screening(n: int, *, C: int, k: int, places: np.ndarray = NOWHERE) -> Screening:
    made = Screening(n_candidates=C, n_sources=k, forgetting=0.999)
    made.grow(n, coordinates=places)
    return made


def feed(s: Screening, row: int, *, steps: int, true: int, seed: int, strength: float = 0.7) -> None:
    """Errors of ``row`` that follow the station ``true``; everybody else says noise."""
    rng = np.random.default_rng(seed)
    n = s.table.n
    for step in range(steps):
        x = rng.normal(size=n)
        e = strength * x[true] + rng.normal() * np.sqrt(1 - strength**2)
        s.learn(np.array([row]), np.array([e]), x[s.candidates[[row]]])
        if step % 20 == 19:
            s.review(row, n_stations=n)


def test_small_networks_hear_everybody() -> None:
    s = screening(5, C=8, k=6)
    assert sorted(s.sources[2].tolist()) == [NOBODY, NOBODY, 0, 1, 3, 4]


def test_nobody_is_its_own_source_or_heard_twice() -> None:
    s = screening(40, C=8, k=4)
    feed(s, 3, steps=400, true=30, seed=1)
    for row in range(40):
        candidates = s.candidates[row].tolist()
        assert row not in candidates
        assert len(set(candidates)) == len(candidates)
    assert set(s.sources[3].tolist()) <= set(s.candidates[3].tolist())


def test_the_one_that_matters_is_found_among_many() -> None:
    """With 60 stations and 8 candidates at a time the rotation comes upon the only useful source, and keeps it."""
    s = screening(60, C=8, k=2)
    feed(s, 0, steps=1500, true=47, seed=2)
    assert 47 in s.sources[0]
    feed(s, 0, steps=300, true=47, seed=3)
    assert 47 in s.sources[0]


def test_a_source_that_stops_mattering_gives_way() -> None:
    s = screening(10, C=9, k=1)
    feed(s, 0, steps=200, true=4, seed=4)
    assert s.sources[0].tolist() == [4]
    feed(s, 0, steps=3000, true=7, seed=5)
    assert s.sources[0].tolist() == [7]


def test_near_stations_are_the_first_candidates() -> None:
    places = np.column_stack([np.linspace(50.0, 60.0, 100), np.zeros(100)])
    s = screening(100, C=10, k=4, places=places)
    for row in (0, 50, 99):
        gaps = np.abs(s.sources[row] - row)
        assert gaps.max() <= 5


def test_a_near_newcomer_displaces_a_far_candidate_but_no_source() -> None:
    places = np.array([[50.0, 0.0], *[[60.0 + i, 0.0] for i in range(8)], [50.1, 0.0]])
    s = screening(9, C=6, k=2, places=places[:9])
    before = s.sources[0].tolist()
    s.grow(10, coordinates=places)
    assert 9 in s.candidates[0]
    assert s.sources[0].tolist() == before


def test_the_date_line_and_unknown_places_do_no_harm() -> None:
    places = np.array([[0.0, 179.9], [0.0, -179.9], [0.0, 170.0], [np.nan, np.nan]])
    s = screening(4, C=1, k=1, places=places)
    assert s.sources[0].tolist() == [1]
    assert s.sources[3].tolist() == [0]


def test_memory_is_linear_in_stations() -> None:
    sizes = []
    for n in (100, 200):
        s = screening(n, C=16, k=4)
        sizes.append(sum(column.nbytes for column in s.state().values()))
    assert sizes[1] == 2 * sizes[0]


def test_the_rotation_is_the_same_on_every_run() -> None:
    one, two = (screening(60, C=8, k=2) for _ in range(2))
    for s in (one, two):
        feed(s, 5, steps=200, true=40, seed=6)
    twin = screening(0, C=8, k=2)
    twin.restore(one.state())
    for s in (one, two, twin):
        feed(s, 5, steps=100, true=40, seed=7)
    for name, column in one.state().items():
        np.testing.assert_array_equal(column, two.state()[name])
        np.testing.assert_array_equal(column, twin.state()[name])


def test_correlations_are_shrunk_while_pairs_are_few() -> None:
    s = screening(3, C=2, k=1)
    s.learn(np.array([0]), np.array([1.0]), np.array([[1.0, np.nan]]))
    assert s.correlation(0) == pytest.approx([1.0 / 31.0, 0.0])
