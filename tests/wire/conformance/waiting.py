"""How long a poll waits, and how a log ends."""

from __future__ import annotations

import threading
import time

import pytest

from streamgp.errors import LogError
from streamgp.wire.log import Log, Outgoing, Subscription
from tests.wire.conformance.common import put, until


def test_an_empty_poll_waits_as_long_as_it_was_told(log: Log, topic: str) -> None:
    reader = log.reader([Subscription(topic)])
    until(lambda: reader.stats.behind == 0, reader)
    begun = time.monotonic()
    assert reader.poll(0.0) == []
    assert time.monotonic() - begun < 0.2
    begun = time.monotonic()
    assert reader.poll(0.4) == []
    assert 0.35 < time.monotonic() - begun < 1.5


def test_a_poll_ends_as_soon_as_a_record_comes(log: Log, topic: str) -> None:
    reader = log.reader([Subscription(topic)])
    until(lambda: reader.stats.behind == 0, reader)
    timer = threading.Timer(0.2, put, (log, [Outgoing(topic, "Dublin", b"x")]))
    timer.start()
    begun = time.monotonic()
    assert len(reader.poll(10.0)) == 1
    assert time.monotonic() - begun < 5.0
    timer.join()


def test_close_twice_and_nothing_after(log: Log, topic: str) -> None:
    """R14: within 5 s, on an idle topic."""
    reader, writer = log.reader([Subscription(topic)], group=f"{topic}-g"), log.writer()
    reader.poll(0.1)
    writer.write([Outgoing(topic, "Dublin", b"x")])
    begun = time.monotonic()
    for closing in (reader, writer, reader, writer):
        closing.close()
    assert time.monotonic() - begun < 5.0
    with pytest.raises(LogError, match="closed"):
        reader.poll(0.0)
    with pytest.raises(LogError, match="closed"):
        writer.write([Outgoing(topic, "Dublin", b"x")])


def test_close_from_another_thread_ends_a_long_poll(log: Log, topic: str) -> None:
    """R14: nobody has to wait for a poll's own patience."""
    reader = log.reader([Subscription(topic)])
    until(lambda: reader.stats.behind == 0, reader)
    timer = threading.Timer(0.2, reader.close)
    timer.start()
    begun = time.monotonic()
    assert reader.poll(60.0) == []
    assert time.monotonic() - begun < 5.0
    timer.join()
