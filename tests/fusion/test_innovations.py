"""The history of innovations, and the answers that wait for their truth."""

import numpy as np
import pytest

from streamgp.fusion.innovations import DEPTH, MEAN_FAST, VALUE, InnovationStore
from streamgp.fusion.pending import Pending
from streamgp.fusion.table import Table

HOUR = 3_600_000


def store(*entries: tuple[int, float], period: int = HOUR) -> InnovationStore:
    made = InnovationStore()
    made.grow(1)
    for time, value in entries:
        made.push(0, time, value, period_ms=period)
    return made


def value(s: InnovationStore, time_ms: int, *, lag: int = 0, span: int = 1) -> float:
    return float(s.read(np.array([0]), np.array([time_ms]), lag=lag, span=span)[0, VALUE])


def test_nothing_is_seen_before_its_time() -> None:
    s = store((1 * HOUR, 1.0), (2 * HOUR, 2.0))
    assert np.isnan(value(s, 1 * HOUR - 1))
    assert value(s, 1 * HOUR) == 1.0
    assert value(s, 2 * HOUR - 1) == 1.0
    assert value(s, 2 * HOUR) == 2.0


def test_a_silent_hour_is_a_gap_and_not_yesterdays_news() -> None:
    s = store((1 * HOUR, 1.0), (3 * HOUR, 3.0))
    assert np.isnan(value(s, 2 * HOUR))
    assert value(s, 3 * HOUR, lag=2) == 1.0
    assert np.isnan(value(s, 3 * HOUR, lag=1))
    assert value(s, 5 * HOUR, span=DEPTH) == 3.0
    assert np.isnan(value(s, 3 * HOUR + DEPTH * HOUR, span=DEPTH))


def test_late_entries_find_their_place() -> None:
    """R21: a very late row changes nothing; one within the history goes where its time belongs."""
    s = store((1 * HOUR, 1.0), (3 * HOUR, 3.0))
    assert s.push(0, 2 * HOUR, 2.0, period_ms=HOUR)
    assert [value(s, 3 * HOUR, lag=lag) for lag in range(3)] == [3.0, 2.0, 1.0]
    for hour in range(4, 12):
        s.push(0, hour * HOUR, float(hour), period_ms=HOUR)
    assert not s.push(0, 1 * HOUR, 99.0, period_ms=HOUR)
    assert value(s, 11 * HOUR, lag=DEPTH - 1) == 4.0


def test_a_repetition_is_not_counted_twice() -> None:
    s = store((1 * HOUR, 1.0))
    before = s.state()
    assert not s.push(0, 1 * HOUR, -1.0, period_ms=HOUR)
    for name, column in s.state().items():
        np.testing.assert_array_equal(column, before[name])


def test_running_means_follow_the_entries() -> None:
    s = store(*[(h * HOUR, 1.0) for h in range(1, 60)])
    at = s.read(np.array([0]), np.array([59 * HOUR]), lag=0)[0]
    assert at[MEAN_FAST] == pytest.approx(1.0 - 0.8**59)


def test_the_shortest_horizon_speaks_for_a_station() -> None:
    s = store((3 * HOUR, 3.0), period=3 * HOUR)
    assert s.push(0, 4 * HOUR, 1.0, period_ms=HOUR)
    assert not s.push(0, 6 * HOUR, 9.0, period_ms=3 * HOUR)
    assert value(s, 4 * HOUR) == 1.0
    assert np.isnan(value(s, 6 * HOUR))


def test_a_day_of_23_hours_is_still_a_day() -> None:
    s = store((24 * HOUR, 1.0), period=24 * HOUR)
    assert s.push(0, 47 * HOUR, 2.0, period_ms=23 * HOUR)
    assert s.push(0, 71 * HOUR, 3.0, period_ms=24 * HOUR)
    assert [value(s, 71 * HOUR, lag=lag) for lag in (0, 1)] == [3.0, 2.0]


def test_nobody_has_said_nothing() -> None:
    s = store((HOUR, 1.0))
    assert np.isnan(s.read(np.array([[-1]]), np.array([[HOUR]]), lag=0)).all()


def queue() -> Pending:
    made = Pending({"a": 1, "b": 2})
    made.grow(2)
    return made


def put(q: Pending, row: int, target: int, number: float) -> None:
    q.put(np.array([row]), np.array([target]), {"a": np.full((1, 1), number), "b": np.full((1, 2), -number)})


def test_many_answers_may_wait() -> None:
    q = queue()
    for target in range(1, 25):
        put(q, 0, target, float(target))
    for target in range(1, 25):
        rows, found = q.take(np.array([0, 1]), target, tolerance_ms=0)
        assert rows.tolist() == [0]
        assert found["a"].tolist() == [[target]]
        assert found["b"].tolist() == [[-target, -target]]
    assert len(q.take(np.array([0]), 24, tolerance_ms=100)[0]) == 0


def test_the_truth_is_matched_to_the_nearest_answer_and_older_ones_lapse() -> None:
    q = queue()
    for target in (1000, 2000, 3000):
        put(q, 1, target, target)
    assert len(q.take(np.array([1]), 2500, tolerance_ms=100)[0]) == 0
    assert q.take(np.array([1]), 3050, tolerance_ms=100)[1]["a"].tolist() == [[3000.0]]


def test_an_answer_given_twice_waits_once() -> None:
    q = queue()
    put(q, 0, 1000, 1.0)
    put(q, 0, 1000, 2.0)
    assert q.take(np.array([0]), 1000, tolerance_ms=0)[1]["a"].tolist() == [[2.0]]
    assert len(q.take(np.array([0]), 1000, tolerance_ms=0)[0]) == 0


def test_blank_reaches_every_answer_of_the_row() -> None:
    q = queue()
    put(q, 0, 1, 5.0)
    put(q, 0, 2, 6.0)
    put(q, 1, 2, 7.0)
    q.blank(0, "b", 1)
    assert q.take(np.array([0]), 2, tolerance_ms=0)[1]["b"].tolist() == [[-6.0, 0.0]]
    assert q.take(np.array([1]), 2, tolerance_ms=0)[1]["b"].tolist() == [[-7.0, -7.0]]


def test_tables_refuse_another_shape() -> None:
    table = Table({"x": np.zeros(2), "y": 0.0})
    with pytest.raises(ValueError, match="no column 'y'"):
        table.restore({"x": np.zeros((1, 2))})
    with pytest.raises(ValueError, match="shape"):
        table.restore({"x": np.zeros((1, 3)), "y": np.zeros(1)})
    with pytest.raises(ValueError, match="length"):
        table.restore({"x": np.zeros((1, 2)), "y": np.zeros(2)})


def test_tables_keep_their_rows_when_they_grow() -> None:
    table = Table({"x": np.arange(2.0)})
    for n in range(1, 40):
        table.grow(n)
        assert table["x"][n - 1].tolist() == [0.0, 1.0]
        table["x"][n - 1] = n
    assert table["x"][:, 0].tolist() == list(range(1, 40))
