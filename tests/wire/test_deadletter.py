"""Dead letters keep the original and say where it came from; they can be written again."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp.errors import DecodeError
from streamgp.wire.deadletter import DeadLetter, dead_letter, read_dead_letter, size_of, smaller
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


@pytest.mark.parametrize(
    ("message", "cut"),
    [
        (Message("t", 0, 0, "A", b"x" * 1_048_000), ["value"]),
        (Message("t", 0, 0, "q" * 600_000, b"{}"), ["key"]),
        (Message("t", 0, 0, "\ufffd" * 600_000, b"{}"), ["key"]),  # bytes that were no text
        (Message("t", 0, 0, "q" * 500_000, b"x" * 500_000), ["key"]),
        (Message("t", 0, 0, "A", b"x" * 1_000, headers=(("h", b"y" * 1_000_000),)), ["headers"]),
        (Message("t", 0, 0, "A", b"x" * 1_000, headers=(("h" * 700_000, b"y"), ("signature", b"s"))), ["headers"]),
        (Message("t", 0, 0, "A", None, headers=(("", b""),) * 200_000), ["headers"]),
        (Message("t" * 900_000, 0, 0, "A", b"x"), []),
        (Message("t", 2**31, 2**63, "\u96e8" * 9_000, b"x" * 900_000, headers=(("\u96e8", b"y" * 999),) * 99),
         ["key", "headers", "value"]),
    ],
    ids=["value", "key", "no-text", "both", "header", "header-name", "many-headers", "topic", "all"],
)  # fmt: skip
def test_whatever_a_record_holds_its_letter_fits_a_broker_and_says_what_was_cut(
    message: Message, cut: list[str]
) -> None:
    """Or one bad record would end its role again and again."""
    record = dead_letter(message, topic="p.dead", key="", reason="\u96e8" * 10_000, field="f" * 10_000)
    assert size_of(record) + 20 * len(record.headers) < 900_000
    letter = read_dead_letter(carried(record))
    assert list(letter.cut) == cut
    assert (message.key or "").startswith(letter.key or "")
    assert (message.value or b"").startswith(letter.value or b"")
    assert letter.cut_from == (len(message.value or b"") if "value" in cut else None)
    if cut:
        with pytest.raises(ValueError, match="cut"):
            letter.again()
    least = smaller(record)
    assert size_of(least) < 2_000
    letter = read_dead_letter(carried(least))
    assert (letter.partition, letter.offset) == (message.partition, message.offset)
    assert "\u96e8" * 80 in letter.reason
    with pytest.raises(ValueError, match=f"of its {letter.cut_from} bytes"):
        letter.again()


def test_a_signature_is_kept_beside_a_header_that_does_not_fit() -> None:
    """By it the log tells whose key it was."""
    message = Message("t", 0, 0, "A", b"", headers=(("h", b"y" * 60_000), ("signature", b"s")))
    letter = read_dead_letter(carried(dead_letter(message, topic="d", key="A", reason="refused: bad signature")))
    assert letter.headers == (("signature", b"s"),)


def test_a_key_that_is_no_text_is_not_written_as_another() -> None:
    letter = read_dead_letter(carried(dead_letter(Message("t", 0, 0, "A\ufffd", b""), topic="d", key="", reason="r")))
    with pytest.raises(ValueError, match="no text"):
        letter.again()


@pytest.mark.parametrize(
    "claim", [b"same", b"p.queries:3:17", b"p.observations:3:1e3", b"p.observations:3:17:1", b"\xff"]
)
def test_a_claim_that_is_no_place_of_the_topic_is_none(claim: bytes) -> None:
    message = Message("p.observations", 3, 40, "A", b"{}", headers=(("replay-of", claim),))
    letter = read_dead_letter(carried(dead_letter(message, topic="p.dead", key="A", reason="late")))
    assert letter.first == "p.observations:3:40"


def test_what_claims_the_place_of_another_record_is_no_copy_of_it() -> None:
    def letter(offset: int, **other: Any) -> DeadLetter:
        given = {"key": "A", "value": b"1", "headers": (("replay-of", b"p.observations:3:17"),), **other}
        message = Message("p.observations", 3, offset, **given)
        return read_dead_letter(carried(dead_letter(message, topic="p.dead", key="A", reason="late")))

    first = letter(17, headers=())
    assert letter(40).identity == letter(50).identity == first.identity
    signed = (("signature", b"x"), ("replay-of", b"p.observations:3:17"))
    others = [letter(41, value=b"2"), letter(42, key="B"), letter(43, value=None), letter(44, headers=signed)]
    assert len({first.identity, *(other.identity for other in others)}) == 5


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
