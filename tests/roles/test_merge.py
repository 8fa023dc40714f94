"""The event-time merge: what it releases depends on the records, not on how fast they come."""

from __future__ import annotations

import random

import pytest

from streamgp.roles.merge import Merge
from streamgp.wire.records import Observation, Progress, Query


def merge_of(station: str = "A", *stations: str, settle_s: float = 0.0, lateness_ms: int = 0) -> Merge:
    merge = Merge(
        station=station,
        stations=stations,
        max_wait_s=30.0,
        idle_wait_s=2.0,
        settle_s=settle_s,
        lateness_ms=lateness_ms,
    )
    merge.start(0.0)
    return merge


def observed(time_ms: int) -> Observation:
    return Observation(station="A", time_ms=time_ms, y=float(time_ms))


def asked(station: str | None, time_ms: int) -> Query:
    return Query(id=f"{station}:{time_ms}", station=station, time_ms=time_ms, target_ms=time_ms + 1, points=((0.0,),))


def promised(station: str, time_ms: int | None, *queries: str, state: str = "busy") -> Progress:
    return Progress(station=station, time_ms=time_ms, queries=queries, state=state)  # type: ignore[arg-type]


def names(merge: Merge, now_s: float = 0.0) -> list[str]:
    out = []
    while (batch := merge.next(now_s)) is not None:
        out += [f"obs {batch.time_ms}"] if isinstance(batch, Observation) else [f"query {q.id}" for q in batch]
    return out


def test_a_query_is_answered_after_own_rows_up_to_it_and_before_later_ones() -> None:
    merge = merge_of("A", "A", "B")
    merge.add_progress(promised("B", 30, "B:10"), 0.0)
    for t in (10, 20):
        merge.add_observation(observed(t), 0.0)
    assert names(merge) == []  # B's promise names a query that has not been read yet
    merge.add_query(asked("B", 10), 0.0)
    assert names(merge) == ["obs 10", "query B:10", "obs 20"]


def test_an_observation_waits_for_a_peer_that_may_still_ask_about_before() -> None:
    merge = merge_of("A", "A", "B")
    merge.add_progress(promised("B", 10), 0.0)
    merge.add_observation(observed(10), 0.0)
    merge.add_observation(observed(20), 0.0)
    assert names(merge) == ["obs 10"]
    merge.add_query(asked("B", 10), 1.0)
    merge.add_progress(promised("B", 20, "B:10"), 1.0)
    assert names(merge, 1.0) == ["query B:10", "obs 20"]


@pytest.mark.parametrize(("state", "wait_s"), [("busy", 30.0), ("idle", 2.0)])
def test_a_silent_peer_holds_nothing_back_longer_than_its_wait(state: str, wait_s: float) -> None:
    """R28: one silent source never stops the others."""
    merge = merge_of("A", "A", "B")
    merge.add_progress(promised("B", 10, state=state), 0.0)
    merge.add_observation(observed(20), 0.0)
    merge.exhausted(wait_s - 0.1)
    assert names(merge, wait_s - 0.1) == []
    assert merge.wake_s(wait_s - 0.1) == pytest.approx(0.1)
    merge.exhausted(wait_s)
    assert names(merge, wait_s) == ["obs 20"]
    merge.add_observation(observed(30), wait_s)
    assert names(merge, wait_s) == ["obs 30"]  # it is not waited for again until it speaks
    assert merge.excused == 1


def test_a_wait_ends_by_the_clock_when_input_never_pauses() -> None:
    merge = merge_of("A", "A", "B")
    merge.add_progress(promised("B", 10), 0.0)
    merge.add_observation(observed(20), 0.0)
    assert names(merge, 90.0) == []
    assert names(merge, 91.0) == ["obs 20"]


def test_a_peer_that_keeps_promising_too_little_is_waited_for_less_and_less() -> None:
    merge = merge_of("A", "A", "B")
    now, waits = 0.0, []
    merge.add_progress(promised("B", 10), now)
    for t in range(1, 8):
        merge.add_observation(observed(1000 * t), now)
        began = now
        while not names(merge, now):
            now += 0.25
            merge.exhausted(now)
        waits.append(now - began)
        merge.add_progress(promised("B", 1000 * t), now)  # just enough to be waited for again
    assert waits[0] == pytest.approx(30.0, abs=0.3)
    assert waits[-1] < 1.0
    assert waits == sorted(waits, reverse=True)


def test_a_peer_that_catches_up_from_far_back_is_answered_and_not_waited_for() -> None:
    merge = merge_of("A")
    for t in (100, 200):
        merge.add_observation(observed(t), 0.0)
    assert names(merge) == ["obs 100", "obs 200"]
    merge.add_progress(promised("B", 5), 1.0)
    merge.add_query(asked("B", 5), 1.0)
    merge.add_observation(observed(300), 1.0)
    assert names(merge, 1.0) == ["query B:5", "obs 300"]
    assert merge.late_queries == 1


def test_nothing_is_learned_until_the_network_has_settled() -> None:
    merge = merge_of(settle_s=5.0)
    merge.add_observation(observed(10), 0.0)
    merge.add_progress(promised("B", None), 3.0)
    merge.add_progress(promised("B", 10), 3.5)
    assert names(merge, 7.9) == []
    assert names(merge, 8.0) == ["obs 10"]


def test_a_network_known_beforehand_need_not_settle() -> None:
    merge = merge_of("A", "A", "B", settle_s=5.0)
    merge.add_observation(observed(10), 0.0)
    assert names(merge) == []
    merge.add_progress(promised("B", 10), 0.1)
    assert names(merge, 0.1) == ["obs 10"]


def test_a_station_that_left_is_not_waited_for() -> None:
    merge = merge_of("A", "A", "B")
    merge.add_progress(promised("B", 10), 0.0)
    merge.add_observation(observed(20), 0.0)
    assert names(merge) == []
    merge.add_progress(promised("B", 20, state="gone"), 0.0)
    assert names(merge) == ["obs 20"]


def test_a_question_from_outside_waits_for_our_next_reading_but_not_for_ever() -> None:
    merge = merge_of()
    merge.add_observation(observed(10), 0.0)
    assert names(merge) == ["obs 10"]
    merge.add_query(asked(None, 50), 1.0)
    assert names(merge, 1.0) == []
    merge.exhausted(3.0)
    assert names(merge, 3.0) == ["query None:50"]


def test_rows_are_put_in_order_within_the_lateness_and_refused_beyond() -> None:
    """C08, R21: a row of 30 days ago changes nothing."""
    merge = merge_of(lateness_ms=60_000)
    for t in (600_000, 660_000, 630_000, 720_000):
        assert merge.add_observation(observed(t), 0.0)
    assert names(merge) == ["obs 600000", "obs 630000", "obs 660000"]
    assert not merge.add_observation(observed(660_000 - 30 * 86_400_000), 0.0)
    merge.exhausted(2.0)
    assert names(merge, 2.0) == ["obs 720000"]


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_arrival_between_topics_changes_nothing(seed: int) -> None:
    """Observations, queries and promises each keep their own order and are interleaved at random."""
    rng = random.Random(seed)
    times = sorted(rng.sample(range(1, 500), 40))
    peer_times = sorted(rng.sample(range(1, 500), 40))
    own = [("o", observed(t)) for t in times]
    queries = [("q", asked("B", t)) for t in peer_times]
    claims = [("p", promised("B", peer_times[0]))]
    claims += [("p", promised("B", b, f"B:{a}")) for a, b in zip(peer_times, [*peer_times[1:], 10_000], strict=True)]
    lanes = [own, queries, claims]
    merge, seen = merge_of("A", "A", "B"), []
    while any(lanes):
        kind, record = rng.choice([lane for lane in lanes if lane]).pop(0)
        if kind == "o":
            merge.add_observation(record, 0.0)
        elif kind == "q":
            merge.add_query(record, 0.0)
        else:
            merge.add_progress(record, 0.0)
        seen += names(merge)
    merge.exhausted(100.0)
    seen += names(merge, 100.0)
    learned = 0
    for name in seen:
        what, _, rest = name.partition(" ")
        if what == "obs":
            learned = int(rest)
        else:
            tau = int(rest.split(":")[1])
            assert learned == max([t for t in times if t <= tau], default=0)
    assert [n for n in seen if n.startswith("obs")] == [f"obs {t}" for t in times]
    assert len(seen) == 80


def test_trust_grows_once_a_record_however_often_it_is_looked_at() -> None:
    """A journal keeps one of many looks that came to nothing: it must come to the same patience."""
    often, once = (merge_of("A", "A", "B", "C") for _ in range(2))
    for merge in (often, once):
        merge.add_progress(promised("B", 10), 0.0)
        merge.add_progress(promised("C", 10), 0.0)
        merge.add_observation(observed(10), 0.0)
        assert names(merge) == ["obs 10"]
        merge.add_observation(observed(20), 0.0)
        merge.exhausted(40.0)
        assert names(merge, 40.0) == ["obs 20"]  # both waited for in vain
        merge.add_progress(promised("B", 30), 40.0)
        merge.add_progress(promised("C", 20), 40.0)
        merge.add_observation(observed(30), 40.0)
    for _ in range(20):
        assert names(often, 41.0) == []
    for merge in (often, once):
        merge.add_progress(promised("C", 30), 42.0)
        assert names(merge, 42.0) == ["obs 30"]
    assert often.state() == once.state()
