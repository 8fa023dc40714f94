"""Readers that share a topic, and the offsets they keep."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from streamgp.wire.log import Log, Message, Subscription
from tests.wire.conformance.common import PATIENCE_S, put, read, rows, until


def test_members_share_partitions_and_inherit_them(log: Log, topic: str) -> None:
    """R22: each partition has one reader of the two; the one that stays takes over, from what is committed."""
    group = f"{topic}-g"
    one = log.reader([Subscription(topic)], group=group, balanced=True)
    until(lambda: len(one.stats.positions) == 3, one)
    two = log.reader([Subscription(topic)], group=group, balanced=True)
    until(lambda: len(one.ends()) + len(two.ends()) == 3 and len(two.ends()) >= 1, one, two)
    assert not set(one.ends()) & set(two.ends())
    put(log, rows(topic, 60))
    messages: list[tuple[int, Message]] = []
    end = time.monotonic() + PATIENCE_S
    while len(messages) < 60 and time.monotonic() < end:
        messages += [(1, m) for m in one.poll(0.1)] + [(2, m) for m in two.poll(0.1)]
    assert len({(m.partition, m.offset) for _, m in messages}) == len(messages) == 60
    for number, reader in ((1, one), (2, two)):
        mine = [m for n, m in messages if n == number]
        reader.commit({(m.topic, m.partition): m.offset + 1 for m in mine})
        assert reader.stats.refused_commits == 0
    two.close()
    put(log, rows(topic, 30))
    again = until(lambda: one.stats.messages >= sum(n == 1 for n, _ in messages) + 30, one)
    assert len(again) == 30
    one.close()


def test_offsets_only_grow_through_rebalances(log: Log, topic: str) -> None:
    """R23, R22: nothing is committed, a second member comes and goes twice; no offset is delivered twice here."""
    group = f"{topic}-g"
    put(log, rows(topic, 30))
    one = log.reader([Subscription(topic)], group=group, balanced=True)
    seen = read(one, 30)
    for round_ in range(2):
        two = log.reader([Subscription(topic)], group=group, balanced=True)
        seen += until(lambda two=two: len(one.ends()) < 3 and len(two.ends()) > 0, one, two)[:0]
        two.close()
        until(lambda: len(one.ends()) == 3, one)
        put(log, rows(topic, 9))
        seen += until(lambda n=round_: one.stats.messages >= 30 + 9 * (n + 1), one)
    for partition in range(3):
        offsets = [m.offset for m in seen if m.partition == partition]
        assert all(a < b for a, b in pairwise(offsets))
    one.close()


def test_a_commit_that_is_refused_is_counted(log: Log, topic: str) -> None:
    """R01: a group whose partitions are shared out takes no commit from outside it; nothing is raised."""
    group = f"{topic}-g"
    member = log.reader([Subscription(topic)], group=group, balanced=True)
    until(lambda: len(member.stats.positions) == 3, member)
    stranger = log.reader([Subscription(topic)], group=group)
    stranger.poll(0.1)
    stranger.commit({(topic, 0): 0})
    assert stranger.stats.refused_commits == 1
    member.close()


def test_a_reader_without_a_group_keeps_no_offsets(log: Log, topic: str) -> None:
    reader = log.reader([Subscription(topic)])
    reader.commit({(topic, 0): 3})
    assert reader.stats.refused_commits == 0
    with pytest.raises(ValueError, match="needs a group"):
        log.reader([Subscription(topic)], balanced=True)
