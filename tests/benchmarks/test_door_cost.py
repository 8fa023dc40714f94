"""What the door costs on the hot path."""

from __future__ import annotations

import time

import pytest

from streamgp.roles.door import Door
from streamgp.wire.records import Observation


@pytest.mark.bench
def test_the_door_costs_under_five_microseconds_a_record() -> None:
    records = [
        Observation(station="A", time_ms=60_000 * i, y=float(i % 17), x={"a": 1.0, "b": 2.0, "c": None})
        for i in range(100_000)
    ]
    door = Door()
    start = time.process_time()
    for record in records:
        door.check(record, 10**12)
    cost_us = (time.process_time() - start) * 1e6 / len(records)
    print(f"door: {cost_us:.2f} us a record")
    assert cost_us < 5.0
