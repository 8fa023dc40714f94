"""What is refused is told in a few lines, however much of it there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.trainer import newest
from producers.asking import _collect
from streamgp.roles.refusals import MOST_KINDS, Refusals
from streamgp.roles.settings import Settings
from streamgp.wire.clock import SystemClock
from streamgp.wire.codec import encode
from streamgp.wire.deadletter import dead_letter
from streamgp.wire.gate import OpenGate
from streamgp.wire.keys import LIST, make_key, read_private, write_list, write_private
from streamgp.wire.log import Message, Outgoing, Subscription, TopicSpec
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Forecast, GlobalState
from streamgp.wire.signing import SigningGate
from streamgp.wire.topics import topic_plan


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


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create_topics(topic_plan("p", partitions=1))
    return log


def gate_of(role: str, folder: Path) -> SigningGate:
    pem, entry = make_key(role)
    write_private(folder / f"{role}.pem", pem)
    write_list(folder / LIST, [entry])
    return SigningGate(role, read_private(folder / f"{role}.pem"), folder, prefix="p", clock=SystemClock())


def test_who_asks_tells_what_it_leaves_out_in_a_few_lines(
    log: MemoryLog, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """A flood of forecasts that nobody signed, and of what is no record, about our own question."""
    numbers = {"mean": (1.0,), "variance": (1.0,), "noise_variance": (1.0,)}
    told = {"kept": (3,), "trimmed": (), "missing": (), "status": "ok"}
    forecast = Forecast(query_id="q", station=None, time_ms=0, target_ms=0, **numbers, **told)
    for gate, value, found in ((gate_of("asker", tmp_path), encode(forecast), 0), (OpenGate(), b"{", 1)):
        reader = log.reader([Subscription("p.forecasts"), Subscription("p.predictions")])
        reader.seek(reader.ends())
        log.writer().write([Outgoing("p.forecasts", "q", value)] * 100)
        log.writer().write([Outgoing("p.forecasts", "q", encode(forecast))] * found)
        assert len(_collect({"q"}, reader, 0.0, gate=gate, prefix="p").forecasts) == found
        reader.close()
    lines = [r.getMessage() for r in caplog.records]
    assert len(lines) == 7 + 7
    assert lines[0] == "asker: refused from p.forecasts, no key: 'refused: unsigned', 1 so far"
    assert lines[6] == "asker: refused from p.forecasts, no key: 'refused: unsigned', 64 so far"
    assert lines[13] == "asker: refused from p.forecasts, no key: 'unknown format', 64 so far"
    assert capsys.readouterr().err == ""


def test_a_trainer_that_looks_for_its_run_tells_what_it_passes_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = MemoryLog()
    log.create_topics([TopicSpec("p.globals")])  # as it is before the broker has compacted it
    settings, gate = Settings(prefix="p"), gate_of("cloud", tmp_path)
    state = GlobalState(
        run="default", round=3, time_ms=0, status="ok", clients=("A",), arrays={}, shapes={}, settings={}
    )
    writer = log.writer()
    own = Outgoing("p.globals", "default", encode(state))
    writer.write([*gate.signed([own]), *[own] * 100, *gate.signed([Outgoing("p.globals", "default", b"{")] * 100)])
    found = newest(log, gate, settings)
    assert found is not None
    assert found.round == 3
    lines = [r.getMessage() for r in caplog.records]
    assert len(lines) == 7 + 7
    assert lines[0].startswith("trainer")
    assert lines[0].endswith("refused from p.globals, no key: 'refused: unsigned', 1 so far")
    key = next(iter(gate.verifier.allowed.entries)).hex()
    assert lines[-1] == f"run default: refused from p.globals, key {key}: 'unknown format', 64 so far"
