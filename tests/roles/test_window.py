"""Windows close when all have answered or their time is up, and count nothing twice."""

from __future__ import annotations

import msgspec

from streamgp.roles.window import Windows
from streamgp.wire.records import Prediction, Query


def query(name: str, time_ms: int = 0) -> Query:
    return Query(id=name, station="A", time_ms=time_ms, target_ms=time_ms + 1, points=((0.0,),))


def answer(name: str, agent: str, mean: float = 0.0) -> Prediction:
    return Prediction(
        query_id=name, agent=agent, time_ms=0, mean=(mean,), variance=(1.0,), noise_variance=(0.1,), learned=1
    )


def windows(*agents: str, most: int = 100) -> Windows:
    w = Windows(deadline_s=10.0, patience=3, most=most)
    for agent in agents:
        w.join(agent)
    return w


def test_a_window_closes_when_every_known_agent_has_answered() -> None:
    w = windows("A", "B")
    w.open(query("q"), 0.0)
    w.add(answer("q", "A"), 0.0)
    assert w.close(0.0) == []
    w.add(answer("q", "B"), 0.0)
    (closed,) = w.close(0.0)
    assert list(closed.answers) == ["A", "B"]
    assert closed.missing == ()


def test_a_window_closes_at_its_deadline_and_names_who_is_missing() -> None:
    w = windows("A", "B")
    w.open(query("q"), 0.0)
    w.add(answer("q", "A"), 0.0)
    assert w.close(9.9) == []
    assert w.wake_s(9.0) == 1.0
    (closed,) = w.close(10.0)
    assert closed.missing == ("B",)


def test_late_repeated_and_unasked_answers_are_counted_and_change_nothing() -> None:
    w = windows("A")
    w.open(query("q"), 0.0)
    w.add(answer("q", "A", 1.0), 0.0)
    w.add(answer("q", "A", 99.0), 0.0)
    (closed,) = w.close(0.0)
    assert closed.answers["A"].mean == (1.0,)
    w.add(answer("q", "A", 99.0), 0.0)
    w.open(query("q"), 0.0)
    assert w.close(0.0) == []
    assert w.counts == {"answer twice": 1, "late answer": 1, "query twice": 1}


def test_answers_read_before_their_query_count() -> None:
    w = windows("A")
    w.add(answer("q", "A"), 0.0)
    w.open(query("q"), 0.0)
    assert [c.query.id for c in w.close(0.0)] == ["q"]


def test_answers_to_queries_never_asked_are_forgotten_in_time() -> None:
    w = windows("A", most=10)
    for i in range(1000):
        w.add(answer(f"made up {i}", "A"), 0.0)
    assert w.counts["answer to a query never asked"] == 990
    assert w.close(1e9) == []


def test_an_agent_that_never_answers_is_not_waited_for_for_long() -> None:
    """A liar that falls silent delays three forecasts, not all of them."""
    w = windows("A", "B")
    for i in range(5):
        w.open(query(f"q{i}"), float(i))
        w.add(answer(f"q{i}", "A"), float(i))
    closed = w.close(12.0)  # q0 to q2 are overdue; after three misses B is not waited for
    assert [c.query.id for c in closed] == ["q0", "q1", "q2", "q3", "q4"]
    assert [c.missing for c in closed] == [("B",)] * 3 + [()] * 2
    w.open(query("q5"), 20.0)
    w.add(answer("q5", "B"), 20.0)  # it is back
    assert w.close(20.0) == []
    w.add(answer("q5", "A"), 20.0)
    assert len(w.close(20.0)) == 1


def test_an_agent_that_leaves_lets_the_open_windows_close() -> None:
    w = windows("A", "B")
    w.open(query("q"), 0.0)
    w.add(answer("q", "A"), 0.0)
    assert w.close(0.0) == []
    w.leave("B")
    assert len(w.close(0.0)) == 1


def test_open_windows_are_bounded() -> None:
    w = windows("A", most=10)
    for i in range(50):
        w.open(query(f"q{i}", i), 0.0)
    assert len(w.close(0.0)) == 40
    assert w.filling == 10


def station_query(station: str, time_ms: int) -> Query:
    return Query(id=f"{station}:{time_ms}", station=station, time_ms=time_ms, target_ms=time_ms + 1, points=((0.0,),))


def claiming(name: str, agent: str, asked: str) -> Prediction:
    return msgspec.structs.replace(answer(name, agent), asked=asked)


def test_windows_close_in_event_time_order_once_what_was_asked_before_is_read() -> None:
    w = windows("A", "B")
    w.open(station_query("A", 2), 0.0)
    w.open(station_query("A", 1), 0.0)
    for agent in ("A", "B"):
        w.add(answer("A:2", agent), 0.0)
    assert w.close(0.0) == []  # an earlier window is open
    w.add(answer("A:1", "A"), 0.0)
    w.add(claiming("A:1", "B", "B:1"), 0.0)
    assert w.close(0.0) == []  # B says that it had asked before it answered
    w.open(station_query("B", 1), 0.0)
    for agent in ("A", "B"):
        w.add(answer("B:1", agent), 0.0)
    assert [c.query.id for c in w.close(0.0)] == ["A:1", "B:1", "A:2"]


def test_a_question_from_outside_neither_waits_nor_holds_back() -> None:
    w = windows("A")
    w.open(station_query("A", 5), 0.0)
    outside = Query(id="x", time_ms=9, target_ms=9, points=((0.0,),))
    w.open(outside, 0.0)
    w.add(answer("x", "A"), 0.0)
    assert [c.query.id for c in w.close(0.0)] == ["x"]
    w.open(msgspec.structs.replace(outside, id="y", time_ms=0), 0.0)
    w.add(answer("A:5", "A"), 0.0)
    assert [c.query.id for c in w.close(0.0)] == ["A:5"]


def test_a_liar_that_claims_queries_it_never_sent_is_not_waited_for_for_long() -> None:
    w = windows("A", "B")
    for i in range(5):
        w.open(station_query("A", i), 0.0)
        w.add(answer(f"A:{i}", "A"), 0.0)
        w.add(claiming(f"A:{i}", "B", "B:never"), 0.0)
    assert w.close(0.0) == []
    closed = w.close(10.0)
    assert len(closed) == 5
    assert all(set(c.answers) == {"A", "B"} and c.missing == () for c in closed)
    assert w.expected() == {"A"}
