"""What is told of the errors of a Kafka client."""

from __future__ import annotations

import pytest
from kafka import errors

from streamgp.errors import FencedError
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
