"""No line again and again without bound (R27), and lines that a program can read."""

from __future__ import annotations

import json
import logging
import sys

from consumers.logs import AsJson, Bounded


def record(text: str, *args: object, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("streamgp.x", level, __file__, 1, text, args, None)


def test_a_million_equal_lines_are_a_few() -> None:
    now = [0.0]
    bounded = Bounded(lambda: now[0])
    passed = [r.getMessage() for i in range(100_000) if bounded.filter(r := record("away: %s", i))]
    assert len(passed) < 25
    assert passed[:2] == ["away: 0", "away: 1"]
    assert passed[-1] == "away: 65535 (no. 65536 of its kind)"
    assert bounded.filter(record("something else"))
    now[0] = 1_000.0
    assert bounded.filter(record("away: %s", "again"))


def test_kinds_of_line_take_no_room_without_bound() -> None:
    bounded = Bounded()
    for i in range(5_000):
        assert bounded.filter(record(f"line {i}"))
    assert len(bounded._seen) == 1_000


def test_a_line_is_one_json_object() -> None:
    try:
        raise ValueError("of two\nlines")
    except ValueError:
        line = record("no good: %s", "ü")
        line.exc_info = sys.exc_info()
    text = AsJson().format(line)
    assert "\n" not in text
    told = json.loads(text)
    assert (told["level"], told["logger"], told["message"]) == ("WARNING", "streamgp.x", "no good: ü")
    assert "ValueError" in told["error"]
