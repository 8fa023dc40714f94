"""When a role commits: seldom, and soon where nothing was committed lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from streamgp.roles.kept import LINGER, Kept, Place
from streamgp.roles.settings import KeepSettings
from streamgp.wire.checkpoint import FolderStore
from streamgp.wire.clock import ManualClock
from streamgp.wire.log import Message, Outgoing, Partition, Subscription
from streamgp.wire.memory import MemoryLog
from streamgp.wire.topics import topic_plan

INTERVAL_S = 1.0


class Echo:
    """Writes one record for each that it reads, but for those that say nothing."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._out: list[Outgoing] = []

    def start(self, now_s: float) -> list[Outgoing]:
        return []

    def feed(self, messages: list[Message], now_s: float) -> None:
        self._out += [Outgoing("p.scores", "A", m.value) for m in messages if m.value != b"nothing"]

    def drain(self, now_s: float) -> list[Outgoing]:
        out, self._out = self._out, []
        return out

    def wake_s(self, now_s: float) -> float | None:
        return None

    def full(self) -> frozenset[str]:
        return frozenset()

    def done(self) -> dict[Partition, int]:
        return {}

    def stop(self, now_s: float) -> list[Outgoing]:
        return []

    def vitals(self) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        pass


def committed_at(folder: Path, sent: dict[float, bytes], until_s: float) -> list[float]:
    """At which times a role commits that reads these records."""
    clock = ManualClock()
    log = MemoryLog(clock=clock)
    log.create_topics(topic_plan("p"))
    role, place = Echo(), Place("echo", "p", (Subscription("p.observations"),))
    keep = KeepSettings(commit_interval_s=INTERVAL_S, snapshot_every_s=1e6, snapshot_busy_s=1e6)
    kept = Kept(role, place, log=log, store=lambda _: FolderStore(folder), clock=clock, settings=keep)
    kept.recover()
    while kept.number == 0:  # the first commit is that of the start
        clock.advance(0.05)
        kept.step(0.0)
    clock.advance(10 * INTERVAL_S)
    begun_s, times, writer = clock.monotonic_s(), [], log.writer()
    waiting = sorted(sent.items())
    while (now_s := clock.monotonic_s() - begun_s) < until_s:
        while waiting and waiting[0][0] <= now_s + 1e-9:
            writer.write([Outgoing("p.observations", "A", waiting.pop(0)[1])])
        number = kept.number
        kept.step(0.0)
        if kept.number > number:
            times.append(round(now_s, 2))
        clock.advance(0.01)
    kept.close()
    return times


def test_an_output_after_silence_hardly_waits(tmp_path: Path) -> None:
    assert committed_at(tmp_path, {0.0: b"a", 0.05: b"b"}, 3.0) == [pytest.approx(LINGER * INTERVAL_S, abs=0.011)]


def test_what_writes_nothing_is_in_no_hurry(tmp_path: Path) -> None:
    assert committed_at(tmp_path, {0.0: b"nothing"}, 3.0) == [pytest.approx(INTERVAL_S, abs=0.011)]


def test_no_commit_comes_sooner_than_an_interval_after_the_last(tmp_path: Path) -> None:
    """However often something is written: the broker is spared as before."""
    times = committed_at(tmp_path, {0.02 * i: b"a" for i in range(250)}, 6.0)
    assert times[0] == pytest.approx(LINGER * INTERVAL_S, abs=0.011)
    assert min(b - a for a, b in pairwise(times)) >= INTERVAL_S - 1e-9
    assert len(times) == 6
