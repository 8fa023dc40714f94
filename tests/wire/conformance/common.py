"""What the tests of the suite share: how long they wait, and how they write and read."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from streamgp.wire.log import Log, Message, Outgoing, Reader, TopicSpec, Writer

PATIENCE_S = 40.0  # for what comes in two seconds on a quiet machine
STATIONS = ("Malin Head", "Dublin", "Belmullet", "Roche's Pt", "Köln", "北京", "Clones")


def read(reader: Reader, wanted: int, *, max_records: int = 500) -> list[Message]:
    """Poll until so many messages have come, and then once more: no message may follow."""
    messages: list[Message] = []
    end = time.monotonic() + PATIENCE_S
    while len(messages) < wanted and time.monotonic() < end:
        messages += reader.poll(0.2, max_records)
    assert len(messages) == wanted, f"{len(messages)} of {wanted} came"
    return messages


def quiet(reader: Reader) -> None:
    """Nothing more comes, and the reader knows that it has read all."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        assert reader.poll(0.1) == []
        if reader.stats.behind == 0:
            return
    pytest.fail(f"behind is {reader.stats.behind} although nothing comes")


def until(condition: Callable[[], bool], *readers: Reader) -> list[Message]:
    """Poll the readers in turn until the condition holds; what came meanwhile."""
    messages: list[Message] = []
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        for reader in readers:
            messages += reader.poll(0.1)
    return messages


def put(log: Log, records: list[Outgoing]) -> None:
    writer = log.writer()
    writer.write(records)
    writer.flush(PATIENCE_S)
    assert writer.stats.acknowledged == len(records)
    writer.close()


def rows(topic: str, count: int, keys: tuple[str, ...] = STATIONS) -> list[Outgoing]:
    return [Outgoing(topic, keys[i % len(keys)], b"%d" % i) for i in range(count)]


def write_and_flush(writer: Writer, records: list[Outgoing]) -> None:
    writer.write(records)
    writer.flush(PATIENCE_S)


@pytest.fixture
def topic(log: Log, prefix: str) -> str:
    """A topic of three partitions."""
    name = f"{prefix}.rows"
    assert log.create_topics([TopicSpec(name, partitions=3)]) == [name]
    return name
