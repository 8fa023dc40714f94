"""The embedded log passes the suite that Kafka passes (tests/broker)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamgp.wire.memory import MemoryLog
from tests.wire.conformance.suite import *  # noqa: F403  the tests themselves are imported


@pytest.fixture
def log() -> Iterator[MemoryLog]:
    log = MemoryLog()
    yield log
    log.close()


@pytest.fixture
def prefix() -> str:
    return "p"
