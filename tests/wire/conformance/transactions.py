"""Records and offsets seen together or not at all, and writers that fence each other."""

from __future__ import annotations

import pytest

from streamgp.errors import FencedError, LogError
from streamgp.wire.log import Log, Outgoing, Subscription, Writer
from tests.wire.conformance.common import put, quiet, read, rows


def test_a_transaction_is_seen_whole_with_its_offsets_or_not_at_all(log: Log, topic: str) -> None:
    put(log, rows(topic, 6))
    group = f"{topic}-g"
    writer = log.writer(transactional_id=f"{topic}-tx")
    reader = log.reader([Subscription(topic)])
    read(reader, 6)
    with pytest.raises(LogError, match="transaction"):
        writer.write([Outgoing(topic, "Dublin", b"outside")])
    with pytest.raises(ZeroDivisionError):
        fail_within(writer, group, Outgoing(topic, "Dublin", b"never"))
    with writer.transaction() as transaction:
        writer.write([Outgoing(topic, "Dublin", b"a"), Outgoing(topic, "Clones", b"b")])
        transaction.commit_offsets(group, {(topic, p): end for (_, p), end in reader.ends().items()})
    assert {m.value for m in read(reader, 2)} == {b"a", b"b"}
    quiet(reader)
    writer.close()
    resumed = log.reader([Subscription(topic)], group=group)
    assert {m.value for m in read(resumed, 2)} == {b"a", b"b"}


def fail_within(writer: Writer, group: str, record: Outgoing) -> None:
    with writer.transaction() as transaction:
        writer.write([record])
        transaction.commit_offsets(group, {(record.topic, 0): 1})
        raise ZeroDivisionError


def test_a_later_writer_of_the_same_id_fences_the_earlier(log: Log, topic: str) -> None:
    """C41: of two agents of one station, one is told that it must stop."""
    first = log.writer(transactional_id=f"{topic}-tx")
    with first.transaction():
        first.write([Outgoing(topic, "Dublin", b"first")])
    second = log.writer(transactional_id=f"{topic}-tx")
    with second.transaction():
        second.write([Outgoing(topic, "Dublin", b"second")])
    with pytest.raises(FencedError, match="must stop"), first.transaction():
        first.write([Outgoing(topic, "Dublin", b"ghost")])
    first.close()
    second.close()
    reader = log.reader([Subscription(topic)])
    assert [m.value for m in read(reader, 2)] == [b"first", b"second"]
    quiet(reader)


def test_a_plain_writer_has_no_transactions(log: Log) -> None:
    writer = log.writer()
    with pytest.raises(LogError, match="transactional id"), writer.transaction():
        pass
    writer.close()
