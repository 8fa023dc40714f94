"""Fuzz in small; the full run is ``make fuzz``."""

from __future__ import annotations

import pytest

from tests.fuzz import fuzz


@pytest.mark.parametrize("seed", [0, 1])
def test_mutated_records_break_nothing_and_are_all_accounted_for(seed: int) -> None:
    """C13, C43: over every topic, between valid ones."""
    run = fuzz(seed, 2_000)
    assert run.sent >= 2_000
    assert run.slowest_s < 5.0
