"""Writing, and what is said of what failed."""

from __future__ import annotations

import time

import pytest

from streamgp.errors import DeliveryError, LogError
from streamgp.wire.log import Log, Outgoing, Subscription
from tests.wire.conformance.common import PATIENCE_S, read, write_and_flush


def test_flush_names_what_failed(log: Log, topic: str) -> None:
    """R05: a record that cannot be written is told, with its reason, and only once; the rest is confirmed."""
    writer = log.writer()
    large = Outgoing(topic, "Dublin", b"x" * 2_000_000)
    writer.write([Outgoing(topic, "Dublin", b"1"), large, Outgoing(topic, "Dublin", b"2")])
    with pytest.raises(DeliveryError, match="1 record") as caught:
        writer.flush(PATIENCE_S)
    assert [record for record, _ in caught.value.failed] == [large]
    assert "arger" in caught.value.failed[0][1]
    assert (writer.stats.written, writer.stats.acknowledged, writer.stats.failed) == (3, 2, 1)
    writer.flush(PATIENCE_S)
    writer.close()
    assert [m.value for m in read(log.reader([Subscription(topic)]), 2)] == [b"1", b"2"]


def test_a_missing_topic_is_named_within_five_seconds(log: Log, prefix: str) -> None:
    """R17: both by a reader and by a writer, with the command that helps."""
    missing = f"{prefix}.nowhere"
    begun = time.monotonic()
    with pytest.raises(LogError, match=r"nowhere.*streamgp topics create"):
        log.reader([Subscription(missing)]).poll(10.0)
    assert time.monotonic() - begun < 5.0
    begun = time.monotonic()
    writer = log.writer()
    with pytest.raises(LogError, match=r"nowhere.*streamgp topics create"):
        write_and_flush(writer, [Outgoing(missing, "Dublin", b"x")])
    assert time.monotonic() - begun < 5.0
    writer.close()


def test_an_empty_flush_and_an_empty_write_do_nothing(log: Log) -> None:
    writer = log.writer()
    writer.flush(1.0)
    writer.write([])
    writer.flush(1.0)
    writer.close()
    assert writer.stats.written == 0
