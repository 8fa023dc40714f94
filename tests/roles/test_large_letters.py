"""What a stranger makes large stops no role: neither its dead letter nor the answer to it."""

from __future__ import annotations

import logging
import threading
from collections import Counter

import pytest

from streamgp.errors import DeliveryError
from streamgp.roles.commits import Commits
from streamgp.roles.outbox import Outbox
from streamgp.roles.settings import Settings
from streamgp.wire.clock import SystemClock
from streamgp.wire.deadletter import dead_letter, read_dead_letter
from streamgp.wire.gate import OpenGate
from streamgp.wire.journal import Segment
from streamgp.wire.log import Message, Outgoing, Subscription
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Prediction
from streamgp.wire.topics import topic_plan


def commits(log: MemoryLog) -> Commits:
    log.create_topics(topic_plan("p", partitions=1))
    made = Commits(log, prefix="p", role="cloud", journal="p.journal", clock=SystemClock(), stop=threading.Event())
    made.open()
    return made


SEGMENT = Segment(role="cloud", number=1, places=(), positions=(), calls=(), crc=0)


def letter(offset: int, value: bytes) -> Outgoing:
    return dead_letter(Message("p.queries", 0, offset, "q", value), topic="p.dead-letter", key="cloud", reason="late")


def test_a_dead_letter_that_the_broker_does_not_take_is_written_small(caplog: pytest.LogCaptureFixture) -> None:
    """A topic with a small max.message.bytes."""
    log = MemoryLog(max_record_bytes=5_000)
    outputs = [letter(1, b"x" * 4_000), letter(2, b"x" * 10_000), letter(3, b"x" * 9_000)]
    forecast = Outgoing("p.forecasts", "q", b"{}")
    made = commits(log)
    made.commit(SEGMENT, [*outputs, forecast], {}, OpenGate())
    letters = [read_dead_letter(m) for m in log.reader([Subscription("p.dead-letter")]).poll(0.0)]
    told = [(m.offset, m.reason, len(m.value or b""), m.cut_from) for m in letters]
    assert told == [(1, "late", 4_000, None), (2, "late", 0, 10_000), (3, "late", 0, 9_000)]
    assert len(log.reader([Subscription("p.forecasts")]).poll(0.0)) == 1
    assert len(made.segments(0, {})) == 1
    assert "max.message.bytes" in caplog.text
    made.close()


def test_another_record_that_is_too_large_is_not_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgp.roles.commits.HOPELESS", 0)
    made = commits(MemoryLog(max_record_bytes=5_000))
    with pytest.raises(DeliveryError, match="larger than 5000"):
        made.commit(SEGMENT, [Outgoing("p.forecasts", "q", b"x" * 6_000)], {}, OpenGate())
    made.close()


def test_an_answer_that_no_broker_takes_is_withheld() -> None:
    """A question of so many points that the answer is larger than a record may be."""
    counts = Counter[str]()
    outbox = Outbox(Settings(), counts, log=logging.getLogger("streamgp"))
    for count in (1_000, 60_000):
        row = (0.12345678901234567,) * count
        answer = Prediction(
            query_id="q", agent="A", time_ms=0, mean=row, variance=row, noise_variance=row, learned=count
        )
        assert outbox.write("predictions", "q", answer) is (count == 1_000)
    assert (len(outbox.take()), counts) == (1, Counter({"withheld: predictions": 1}))


@pytest.mark.parametrize("key", ["q" * 600_000, None])
def test_a_record_with_an_endless_key_or_headers_can_be_refused(key: str | None) -> None:
    log = MemoryLog()
    made = commits(log)
    outbox = Outbox(Settings(prefix="p"), Counter(), log=logging.getLogger("streamgp"))
    outbox.refuse(Message("p.queries", 0, 7, key, b"{}", 0, (("h" * 500_000, b"v" * 500_000),)), "late", "time_ms")
    made.commit(SEGMENT, outbox.take(), {}, OpenGate())
    (found,) = (read_dead_letter(m) for m in log.reader([Subscription("p.dead-letter")]).poll(0.0))
    assert found.cut == (("key", "headers") if key else ("headers",))
    made.close()
