"""The operator's view of what was refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from streamgp.cli import main
from streamgp.wire.deadletter import dead_letter
from streamgp.wire.log import Message, Subscription
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


def run(log: MemoryLog, *words: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["dead-letters", *words, "--json"], obj=log)
    assert done.exit_code == 0, done.output
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
