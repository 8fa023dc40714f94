"""Chaos in small: kills, an outage and a frozen network; the full run is ``make chaos``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers import SOCKETS_ARE_LEFT, OwnBroker
from tests.chaos.run import Chaos, Run

pytestmark = SOCKETS_ARE_LEFT


@pytest.mark.timeout(280)
def test_kills_and_an_outage_change_no_bit(own_broker: OwnBroker, tmp_path: Path) -> None:
    """C17, R20, R22, R25: every model equal to the bit, every question with exactly one committed forecast."""
    chaos = Chaos(seed=1, stations=2, observations=60, kills=1, outages=1, pauses=0, gap_s=0.7)
    told = Run(chaos, tmp_path, own_broker).all()
    assert told["kills"] == 4
    assert told["ended otherwise"] == {}
