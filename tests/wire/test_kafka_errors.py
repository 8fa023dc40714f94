"""What is told of the errors of a Kafka client."""

from __future__ import annotations

import threading
from typing import ClassVar

import pytest
from kafka import errors

from streamgp.errors import BrokerUnavailableError, FencedError
from streamgp.wire import kafka
from streamgp.wire.kafka_settings import kafka_settings

SETTINGS = kafka_settings("127.0.0.1:1", {}, kafka.KNOWN)


@pytest.mark.parametrize("error", [errors.ProducerFencedError(), errors.InvalidProducerEpochError()])
def test_who_stood_still_for_too_long_is_told_that_it_may_be_that(error: Exception) -> None:
    """The broker tells the two apart for nobody: another writer of the same id, and a transaction that it has ended."""
    with pytest.raises(FencedError) as told, kafka._translated(SETTINGS, final="not committed"):
        raise error
    for text in ("another process writes with the same transactional id", "stood still", type(error).__name__):
        assert text in str(told.value)


class FrozenProducer:
    """kafka-python's, of a broker that takes everything and answers nothing until it is thawed."""

    config: ClassVar[dict[str, int]] = {"max_block_ms": 50}

    def __init__(self) -> None:
        self.did: list[str] = []
        self.answered = threading.Event()
        self._transaction_manager = self._sender = self

    def begin_transaction(self) -> None:
        self.did.append("begin")

    def begin_abort(self) -> FrozenProducer:
        self.did.append("abort")
        return self

    def wakeup(self) -> None:
        self.did.append("wakeup")

    def wait(self, timeout_ms: float) -> bool:
        return self.answered.wait(timeout_ms / 1000)


def test_an_abort_that_nobody_answers_is_not_waited_for_but_before_the_next_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R14: a commit that cannot be made is to be told, and tried anew, while the broker is frozen."""
    client = FrozenProducer()
    monkeypatch.setattr(kafka, "_build", lambda *_, **__: client)
    producer = kafka._Producer(SETTINGS, None)
    producer.begin()
    for attempt in (producer.abort, producer.begin):
        with pytest.raises(BrokerUnavailableError):
            attempt()
    client.answered.set()
    producer.begin()
    assert client.did == ["begin", "abort", "wakeup", "begin"]
