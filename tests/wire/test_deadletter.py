"""Dead letters keep the original and say where it came from; they can be written again."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp.errors import DecodeError
from streamgp.wire.deadletter import MAX_VALUE_BYTES, dead_letter, read_dead_letter
from streamgp.wire.log import Message, Outgoing

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
MESSAGES = st.builds(
    Message,
    topic=st.just("p.observations"),
    partition=st.integers(0, 100),
    offset=st.integers(0, 2**62),
    key=st.none() | TEXT.filter(bool),
    value=st.none() | st.binary(max_size=300),
    headers=st.lists(st.tuples(TEXT, st.binary(max_size=20)), max_size=3).map(tuple),
)


def carried(record: Outgoing) -> Message:
    return Message(record.topic, 0, 0, record.key, record.value, 0, record.headers)


@given(MESSAGES, TEXT, TEXT)
def test_round_trip(message: Message, reason: str, field: str) -> None:
    letter = read_dead_letter(carried(dead_letter(message, topic="p.dead", key="A", reason=reason, field=field)))
    assert (letter.topic, letter.partition, letter.offset) == ("p.observations", message.partition, message.offset)
    assert (letter.key, letter.value, letter.headers) == (message.key, message.value, message.headers)
    assert (letter.reason, letter.field, letter.cut_from) == (reason, field, None)


def test_a_pickle_is_kept_as_bytes_and_never_opened() -> None:
    """C43, R65."""
    data = pickle.dumps({"harmless": 1})
    record = dead_letter(Message("p.updates", 0, 5, "A", data), topic="p.dead", key="A", reason="unknown format")
    assert read_dead_letter(carried(record)).value == data


def test_it_can_be_written_again() -> None:
    """To the partition of its key: the one that it stood on may be what was wrong."""
    message = Message("p.observations", 3, 17, "A", b"{}", headers=(("signature", b"\x01"),))
    record = dead_letter(message, topic="p.dead", key="A", reason="late")
    again = read_dead_letter(carried(record)).again()
    first = ("replay-of", b"p.observations:3:17")
    assert again == Outgoing("p.observations", "A", b"{}", (("signature", b"\x01"), first))


def test_what_is_refused_once_more_is_known_for_what_it_was() -> None:
    message = Message("p.observations", 3, 17, "A", b"{}")
    for offset in (40, 55):
        letter = read_dead_letter(carried(dead_letter(message, topic="p.dead", key="A", reason="late")))
        assert letter.first == "p.observations:3:17"
        message = Message("p.observations", 3, offset, "A", b"{}", headers=letter.again().headers)
    assert [name for name, _ in message.headers] == ["replay-of"]


def test_a_record_as_large_as_the_broker_takes_can_still_be_refused() -> None:
    """Its dead letter must fit too, or one bad record would end the agent again and again."""
    value = b"x" * 1_048_000
    record = dead_letter(Message("t", 0, 0, "A", value), topic="p.dead", key="A", reason="r" * 10_000)
    assert len(record.value or b"") == MAX_VALUE_BYTES
    assert sum(len(text) for _, text in record.headers) < 1_000
    letter = read_dead_letter(carried(record))
    assert letter.cut_from == len(value)
    with pytest.raises(ValueError, match="1048000"):
        letter.again()
    loud = Message("t", 0, 0, "A", value[:900_000], headers=(("h", b"y" * 140_000),))
    assert sum(len(text) for _, text in dead_letter(loud, topic="d", key="A", reason="r").headers) < 1_000


def test_it_has_a_key_whatever_is_missing() -> None:
    assert dead_letter(Message("t", 0, 0, None, b""), topic="d", key="", reason="r").key == "unknown"
    assert dead_letter(Message("t", 0, 0, "A", b""), topic="d", key="", reason="r").key == "A"


@pytest.mark.parametrize("name", ["topic", "partition", "offset", "reason"])
def test_a_stranger_on_the_dead_letter_topic_is_named(name: str) -> None:
    record = dead_letter(Message("t", 0, 0, "A", b""), topic="d", key="A", reason="r")
    headers = tuple(h for h in record.headers if h[0] != name)
    with pytest.raises(DecodeError) as caught:
        read_dead_letter(Message("d", 0, 0, "A", b"", 0, headers))
    assert caught.value.field == name


def test_a_number_that_is_none_is_named() -> None:
    record = dead_letter(Message("t", 0, 0, "A", b""), topic="d", key="A", reason="r")
    headers = tuple((n, b"many" if n == "offset" else v) for n, v in record.headers)
    with pytest.raises(DecodeError, match="offset"):
        read_dead_letter(Message("d", 0, 0, "A", b"", 0, headers))
