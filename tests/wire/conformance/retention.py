"""What a reader says of records that are gone."""

from __future__ import annotations

import pytest

from streamgp.wire.log import Log, Outgoing, Subscription
from streamgp.wire.partitioner import partition_of
from tests.wire.conformance.common import put, read


@pytest.mark.parametrize("balanced", [False, True])
def test_a_gap_is_counted_and_reading_goes_on(log: Log, topic: str, balanced: bool) -> None:
    """A reader whose next record retention has removed goes on at the oldest there is, and says what it lost."""
    put(log, [Outgoing(topic, "Dublin", b"%d" % i) for i in range(20)])
    home = (topic, partition_of("Dublin", 3))
    group = f"{topic}-g"
    first = log.reader([Subscription(topic)], group=group, balanced=balanced)
    read(first, 20)
    first.commit({home: 5})
    first.close()
    log.delete_records({home: 12})
    reader = log.reader([Subscription(topic)], group=group, balanced=balanced)
    assert [m.offset for m in read(reader, 8)] == list(range(12, 20))
    assert reader.stats.lost == {home: 7}


def test_a_fresh_reader_of_a_topic_that_lost_its_head_has_lost_nothing(log: Log, topic: str) -> None:
    put(log, [Outgoing(topic, "Dublin", b"%d" % i) for i in range(9)])
    home = (topic, partition_of("Dublin", 3))
    log.delete_records({home: 4})
    reader = log.reader([Subscription(topic)], group=f"{topic}-g")
    assert [m.offset for m in read(reader, 5)] == [4, 5, 6, 7, 8]
    assert not reader.stats.lost


def test_an_offset_beyond_the_end_starts_over(log: Log, topic: str) -> None:
    """A topic that was made anew is shorter than the snapshot remembers: it is read from its start."""
    put(log, [Outgoing(topic, "Dublin", b"%d" % i) for i in range(3)])
    home = (topic, partition_of("Dublin", 3))
    reader = log.reader([Subscription(topic)])
    reader.seek({home: 1000})
    assert [m.offset for m in read(reader, 3)] == [0, 1, 2]
