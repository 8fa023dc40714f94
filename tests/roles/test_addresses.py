"""What is addressed to no agent is refused by the scorer, which alone reads all of it, and by nobody else."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from streamgp.roles.scorer import ScorerRole
from streamgp.roles.settings import Settings
from streamgp.roles.wiring import agent_role
from streamgp.wire.codec import encode
from streamgp.wire.deadletter import DeadLetter, read_dead_letter
from streamgp.wire.log import Message, Outgoing
from streamgp.wire.partitioner import partition_of
from streamgp.wire.records import Observation, Query

TOPIC, SIZE = "streamgp.observations", 12
NOW_MS = 1_790_000_000_000
HOUR = 3_600_000
#: B and its like share the partition of A
HOME = partition_of("A", SIZE)
B = next(name for name in map(str, range(1_000)) if partition_of(name, SIZE) == HOME)
C = next(name for name in map(str, range(1_000)) if partition_of(name, SIZE) == HOME + 1)


def scorer_of(settings: Settings, *, size: int | None = SIZE) -> ScorerRole:
    role = ScorerRole(settings)
    if size is not None:
        role.sized({TOPIC: size})
    return role


def reading(station: str, at: int, *, key: str | None, partition: int = HOME, topic: str = TOPIC) -> Message:
    value = encode(Observation(station=station, time_ms=at * HOUR, y=float(at)))
    return Message(topic, partition, at, key, value, NOW_MS)


def letters(out: list[Outgoing]) -> list[DeadLetter]:
    records = [record for record in out if record.topic == "streamgp.dead-letter"]
    return [read_dead_letter(Message(r.topic, 0, 0, r.key, r.value, 0, r.headers)) for r in records]


def fed(role: ScorerRole, *messages: Message) -> list[DeadLetter]:
    role.feed(list(messages), 0.0)
    return letters(role.drain(0.0))


@pytest.mark.parametrize(
    ("message", "reason", "count"),
    [
        (reading("A", 1, key=None), "no key: the record is of 'A'", "no key"),
        (reading("A", 1, key=""), "no key: the record is of 'A'", "no key"),
        (reading("A", 1, key="\ufffd\ufffd"), "the key says '\ufffd\ufffd', the record 'A'", "wrong key"),
        (reading("A", 1, key=C), f"the key says '{C}', the record 'A'", "wrong key"),
        (
            reading("A", 1, key="A", partition=HOME + 1),
            f"wrong partition: 'A' is on {HOME} of 12, this is on {HOME + 1}",
            "wrong partition",
        ),
    ],
)
def test_a_record_that_no_agent_reads_is_a_dead_letter_of_the_scorer_alone(
    message: Message, reason: str, count: str
) -> None:
    """R13: it vanished without a letter, a count or a line; a reading that its agent never saw is no truth either."""
    scorer = scorer_of(Settings(stations=("A", B, C)))
    (letter,) = fed(scorer, message, reading("A", 2, key="A"))
    assert (letter.reason, letter.offset, letter.value) == (reason, 1, message.value)
    assert scorer.counts[f"refused: {count}"] == 1
    assert list(scorer._station("A").truth) == [2 * HOUR]
    for station in ("A", B):
        agent = agent_role(Settings(), station)
        agent.start(0.0)
        agent.feed([message], 0.0)
        assert not letters(agent.drain(0.0))


@pytest.mark.parametrize("how", ["named", "heard of"])
def test_what_an_agent_reads_under_its_key_is_the_agents_to_refuse(how: str) -> None:
    settings = Settings(stations=("A", B) if how == "named" else ())
    scorer, agent = scorer_of(settings), agent_role(settings, B)
    agent.start(0.0)
    message = reading("A", 2, key=B)
    assert not fed(scorer, reading(B, 1, key=B), message)
    agent.feed([message], 0.0)
    assert [letter.reason for letter in letters(agent.drain(0.0))] == [f"the key says '{B}', the record 'A'"]
    assert scorer.counts["no truth: another's key"] == 1


def test_under_a_key_that_nobody_has_it_is_the_scorers() -> None:
    assert [letter.reason for letter in fed(scorer_of(Settings()), reading("A", 1, key=B))] == [
        f"the key says '{B}', the record 'A'"
    ]


def test_another_partitioner_is_told_once_with_what_mends_it(caplog: pytest.LogCaptureFixture) -> None:
    """R04: librdkafka's default is CRC32; lag 0, healthy, and nothing learned."""
    role = scorer_of(Settings())
    with caplog.at_level(logging.WARNING):
        found = fed(role, *(reading(s, i, key=s, partition=3) for i, s in enumerate(["A", B, C] * 4)))
    assert len(found) == role.counts["refused: wrong partition"] == 12
    (line,) = [record.getMessage() for record in caplog.records]
    assert "partitioner=murmur2_random" in line
    assert "dead-letters replay" in line
    assert [found[0].again().partition, found[0].again().key] == [None, "A"]


def test_no_partition_is_wrong_where_nobody_can_tell() -> None:
    """The number is not known, or the topic has grown since it was; the last says so itself."""
    message = reading("A", 1, key="A", partition=HOME + 1)
    unknown = scorer_of(Settings(), size=None)
    assert not fed(unknown, message)
    assert list(unknown._station("A").truth) == [HOUR]
    grown = scorer_of(Settings())
    assert not fed(grown, reading("A", 1, key="A", partition=SIZE), reading("A", 2, key="A", partition=HOME + 1))
    assert list(grown._station("A").truth) == [HOUR, 2 * HOUR]


def test_in_a_neighbours_own_topic_it_is_refused() -> None:
    settings = replace(Settings(), stations=("A", B), observation_topics="per-station")
    scorer = ScorerRole(settings)
    scorer.sized({f"{TOPIC}.A": 1, f"{TOPIC}.{B}": 1})
    own, other = (reading(s, i, key=s, partition=0, topic=f"{TOPIC}.A") for i, s in enumerate(("A", B)))
    (letter,) = fed(scorer, own, other)
    assert letter.reason == f"wrong topic: '{B}' is on {TOPIC}.{B}"
    assert list(scorer._station("A").truth) == [0]
    assert not scorer._station(B).truth


def test_a_reading_of_a_station_that_the_settings_do_not_name_is_refused_once_and_taken_when_they_do() -> None:
    """It vanished: no agent reads it, and nobody told."""
    scorer = scorer_of(Settings(stations=("A",)))
    message = reading(B, 1, key=B)
    (letter,) = fed(scorer, message, message, reading("A", 2, key="A"))
    assert (letter.reason, letter.field) == (f"foreign station: '{B}' is none of the 1 named", "station")
    assert scorer.counts["refused: foreign station"] == 1
    assert list(scorer._stations) == ["A"]
    mended = scorer_of(Settings(stations=("A", B)))
    mended.restore(scorer.state())
    again = letter.again()
    assert not fed(mended, Message(again.topic, HOME, 3, again.key, again.value, NOW_MS))
    assert list(mended._station(B).truth) == [HOUR]


@pytest.mark.parametrize("restarted", [False, True])
def test_an_agent_that_was_heard_has_its_readings_though_the_settings_do_not_name_it(restarted: bool) -> None:
    settings = Settings(stations=("A",))
    scorer = scorer_of(settings)
    query = Query(id=f"{B}:0:1", station=B, time_ms=0, target_ms=HOUR, points=((1.0,),))
    assert not fed(scorer, Message("streamgp.queries", 0, 0, B, encode(query), NOW_MS))
    if restarted:
        before, scorer = scorer, scorer_of(settings)
        scorer.restore(before.state())
    assert not fed(scorer, reading(B, 1, key=B))
    assert list(scorer._station(B).truth) == [HOUR]


def test_of_a_station_whose_agent_nobody_hears_one_line_tells(caplog: pytest.LogCaptureFixture) -> None:
    scorer = scorer_of(Settings())
    query = Query(id="A:0:1", station="A", time_ms=0, target_ms=HOUR, points=((1.0,),))
    scorer.feed([Message("streamgp.queries", 0, 0, "A", encode(query), NOW_MS)], 0.0)
    with caplog.at_level(logging.WARNING):
        scorer.feed([reading(s, i, key=s) for i in range(300) for s in ("A",)], 30.0)
        scorer.feed([reading(B, i, key=B) for i in range(300, 600)], 30.0)
        assert not caplog.records
        scorer.feed([reading(s, i, key=s) for i, s in enumerate(["A", B] * 300, start=600)], 100.0)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"station '{B}': 301 readings in 70 s and no question of its agent")
