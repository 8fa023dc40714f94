"""Kafka passes the suite that the embedded log passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamgp.wire.kafka import KafkaLog
from tests.wire.conformance.suite import *  # noqa: F403  the tests themselves are imported


@pytest.fixture
def log(broker: str) -> Iterator[KafkaLog]:
    log = KafkaLog(broker, {"consumer": {"heartbeat_interval_ms": 200}})  # rebalances are noticed by heartbeats
    yield log
    log.close()
