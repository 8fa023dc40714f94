"""What is refused is told in a few lines, however much of it there is."""

from __future__ import annotations

import pytest

from streamgp.roles.refusals import MOST_KINDS, Refusals
from streamgp.wire.deadletter import dead_letter
from streamgp.wire.log import Message, Outgoing


def letter(station: str, reason: str) -> Outgoing:
    return dead_letter(Message("p.observations", 0, 0, station, b"{}"), topic="p.dead", key=station, reason=reason)


def test_a_flood_is_a_few_lines_and_a_new_source_is_seen_in_it(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals("agent.A", "p.dead")
    refusals.tell([Outgoing("p.predictions", "A", b"")])
    assert not refusals.counts
    refusals.tell(letter("A", f"clock ahead by {i} h") for i in range(1_000))
    refusals.tell([letter("B", "not finite")])
    told = [r.getMessage() for r in caplog.records]
    assert len(told) == 11
    assert told[0] == "agent.A: refused from p.observations, station 'A': 'clock ahead', 1 so far"
    assert told[-1] == "agent.A: refused from p.observations, station 'B': 'not finite', 1 so far"


def test_names_that_are_never_the_same_fill_neither_log_nor_memory(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals("agent.A", "p.dead")
    refusals.tell(letter(f"%s{i}\n" + "x" * 1_000, "not finite") for i in range(2_000))
    assert len(refusals.counts) == MOST_KINDS + 1
    assert refusals.counts["other", "other topics", "others"] == 2_000 - MOST_KINDS
    lines = [r.getMessage() for r in caplog.records]
    assert len(lines) == MOST_KINDS + 11
    assert not any("\n" in line or len(line) > 250 for line in lines)
