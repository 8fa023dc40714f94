"""The operator's view of what was refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from streamgp.cli import main
from streamgp.wire.deadletter import dead_letter
from streamgp.wire.log import Message, Outgoing, Subscription, TopicSpec
from streamgp.wire.memory import MemoryLog
from streamgp.wire.topics import topic_plan

REFUSED = [
    ("A", "streamgp.observations", b'{"y":NaN}', "unknown format: JSON is malformed", ""),
    ("A", "streamgp.observations", b"1", "clock ahead by 24 h", "time_ms"),
    ("B", "streamgp.observations", b"2", "clock ahead by 3 d", "time_ms"),
    ("cloud", "streamgp.predictions", b"\xff\x00", "refused: unsigned", "signature"),
]


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create_topics(topic_plan("streamgp"))
    letters = [
        dead_letter(Message(topic, 0, i, key, value), topic="streamgp.dead-letter", key=key, reason=reason, field=field)
        for i, (key, topic, value, reason, field) in enumerate(REFUSED)
    ]
    log.writer().write(letters)
    return log


def run(log: MemoryLog, *words: str, code: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["dead-letters", *words, "--json"], obj=log)
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)  # type: ignore[no-any-return]  # an object, by --json's promise


def test_letters_are_counted_by_reason_and_shown_with_their_origin(log: MemoryLog) -> None:
    told = run(log, "list")
    assert told["total"] == 4
    assert told["reasons"] == {"clock ahead": 2, "unknown format": 1, "refused: unsigned": 1}
    by = {row["by"]: row for row in told["letters"]}
    assert by["cloud"]["value_base64"] == "/wA="
    assert (by["B"]["topic"], by["B"]["partition"], by["B"]["offset"]) == ("streamgp.observations", 0, 2)
    assert (by["B"]["field"], by["B"]["reason"]) == ("time_ms", "clock ahead by 3 d")
    assert run(log, "list", "--reason", "clock", "--station", "A")["total"] == 1
    assert run(log, "list", "--topic", "predictions", "--limit", "1")["total"] == 1
    text = CliRunner().invoke(main, ["dead-letters", "list"], obj=log).stdout
    assert "2  clock ahead\n" in text
    assert "streamgp.observations[0]@1  clock ahead by 24 h (time_ms)  1" in text


def test_chosen_letters_are_written_to_their_topic_once_more(log: MemoryLog) -> None:
    assert run(log, "replay", "--reason", "clock", "--dry-run") == {"found": 2, "written": 0, "cannot": {}}
    assert run(log, "replay", "--reason", "clock") == {"found": 2, "written": 2, "cannot": {}}
    messages = log.reader([Subscription("streamgp.observations")]).poll(0.0)
    assert sorted((m.key, m.value) for m in messages) == [("A", b"1"), ("B", b"2")]


def test_a_record_is_written_once_however_many_refused_it_and_however_often(log: MemoryLog) -> None:
    topic = "streamgp.observations"

    def refuse_all() -> None:
        """Three roles refuse everything that stands there."""
        messages = log.reader([Subscription(topic)]).poll(0.0)
        log.writer().write(
            [
                dead_letter(m, topic="streamgp.dead-letter", key=role, reason="clock ahead by 24 h")
                for m in messages
                for role in ("A", "B", "cloud")
            ]
        )

    for _ in range(3):
        told = run(log, "replay")
        assert (told["found"], told["written"]) == (3, 3)
        assert told["cannot"] == {"refused: unsigned, which it stays": 1}
        refuse_all()
    assert sorted(m.value or b"" for m in log.reader([Subscription(topic)]).poll(0.0)) == sorted(
        3 * [b'{"y":NaN}', b"1", b"2"]
    )


def test_nothing_refused_is_told() -> None:
    log = MemoryLog()
    log.create_topics(topic_plan("streamgp"))
    assert run(log, "list") == {"total": 0, "reasons": {}, "letters": []}
    assert "no dead letters" in CliRunner().invoke(main, ["dead-letters", "list"], obj=log).stdout


def pointing(topic: str, value: bytes = b"{}", **headers: object) -> Outgoing:
    """A letter that anybody wrote."""
    told = {"topic": topic, "partition": 0, "offset": 7, "key": "A", "reason": "late", **headers}
    return Outgoing(
        "streamgp.dead-letter", "A", value, tuple((name, str(text).encode()) for name, text in told.items())
    )


@pytest.mark.parametrize(
    ("letter", "why"),
    [
        *(
            (pointing(f"streamgp.{suffix}"), "is not one that stations and those who ask write")
            for suffix in ("snapshots", "journal", "dead-letter", "forecasts", "globals", "trust", "scores", "other")
        ),
        (pointing("elsewhere.observations"), "is none of streamgp"),
        (pointing("streamgp"), "is none of streamgp"),
        (pointing("bad topic/!"), "is none of streamgp"),
        (pointing("streamgp.observations./!"), "does not exist"),
        (pointing("streamgp.observations.nobody"), "does not exist"),
        (pointing("streamgp.observations", partition=999), "has no partition 999"),
        (pointing("streamgp.observations", partition=-5), "has no partition -5"),
        (pointing("streamgp.observations", offset=-1), "an offset -1"),
        (pointing("streamgp.observations", key=""), "key must not be empty"),
        (pointing("streamgp.observations", cut="key"), "not all of its key was kept"),
        (pointing("streamgp.observations", cut_from=5), "only 2 of its 5 bytes were kept"),
    ],
    ids=lambda value: dict(value.headers)["topic"].decode()[-12:] if isinstance(value, Outgoing) else "",
)
def test_a_letter_that_cannot_be_written_is_counted_and_the_others_are_written(
    log: MemoryLog, letter: Outgoing, why: str
) -> None:
    before = {topic: sum(part.end for part in log.partitions(topic)) for topic in log.topics()}
    log.writer().write([letter])
    told = run(log, "replay", code=10)
    assert (told["found"], told["written"]) == (3, 3)
    assert [(why in reason, count) for reason, count in told["cannot"].items()] == [(False, 1), (True, 1)]
    after = {topic: sum(part.end for part in log.partitions(topic)) for topic in log.topics()}
    assert {topic for topic in after if after[topic] != before[topic]} == {
        "streamgp.observations",
        "streamgp.dead-letter",
    }
    text = CliRunner().invoke(main, ["dead-letters", "replay", "--dry-run"], obj=log)
    assert (text.exit_code, "3 found, 0 written" in text.stdout) == (10, True)
    assert f"{why}" in text.stdout


def test_a_station_s_own_topic_is_one_of_observations(log: MemoryLog) -> None:
    log.create_topics([TopicSpec("streamgp.observations.A")])
    log.writer().write([pointing("streamgp.observations.A")])
    assert run(log, "list", "--topic", "observations", "--reason", "late")["total"] == 1
    assert run(log, "replay", "--reason", "late") == {"found": 1, "written": 1, "cannot": {}}
    assert [m.value for m in log.reader([Subscription("streamgp.observations.A")]).poll(0.0)] == [b"{}"]


def test_records_that_claim_to_be_one_another_are_all_written(log: MemoryLog) -> None:
    """A source that copies a header, or a stranger who wants a reading to be forgotten."""
    for claim in (b"same", b"streamgp.observations:0:5"):
        for offset, value in ((5, b"5"), (6, b"6"), (7, b"7")):
            message = Message("streamgp.observations", 0, offset, "A", value, headers=(("replay-of", claim),))
            log.writer().write([dead_letter(message, topic="streamgp.dead-letter", key="A", reason="sentinel")])
        assert run(log, "replay", "--reason", "sentinel")["written"] >= 3
    written = [m.value for m in log.reader([Subscription("streamgp.observations")]).poll(0.0)]
    assert set(written) == {b"5", b"6", b"7"}


def test_what_is_no_letter_and_what_was_a_row_of_a_file_is_told_and_no_failure(log: MemoryLog) -> None:
    log.writer().write([pointing("file:rows.csv"), pointing("streamgp.observations", partition="x")])
    told = run(log, "replay")
    assert (told["found"], told["written"]) == (3, 3)
    assert told["cannot"]["rows of files: mend the file and load it again"] == 1
    assert told["cannot"]["no dead letter: partition: no whole number"] == 1


def test_what_the_broker_does_not_take_is_counted_and_the_rest_is_written(log: MemoryLog) -> None:
    log.writer().write([pointing("streamgp.observations", b"x" * 10_000)])
    log.max_record_bytes = 5_000
    told = run(log, "replay", code=10)
    assert (told["found"], told["written"]) == (4, 3)
    assert told["cannot"]["larger than 5000 bytes"] == 1


def test_what_strangers_wrote_is_shown_and_not_obeyed(log: MemoryLog) -> None:
    """A key, a reason or a value with new lines and with what a terminal would do."""
    evil = "\x1b[2J\n\r\x07x"
    for topic in (evil, "streamgp.observations"):
        log.writer().write([pointing(topic, evil.encode(), reason=evil, field=evil, key=evil)])
    for words in (["list"], ["replay", "--dry-run"]):
        shown = CliRunner().invoke(main, ["dead-letters", *words], obj=log).output
        assert not any(char in shown for char in "\x1b\r\x07")
        assert "\\x1b[2J" in shown
