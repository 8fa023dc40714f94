"""Hyperparameters cost what the model is worth."""

from __future__ import annotations

from streamgp.models.cpoe.recipe import CLIMBS, LEAST_CLIMB, climbs, whole_iterations


def test_a_quick_model_does_not_wait_for_a_climb_over_all_rows():
    quick, good = list(climbs(10_000, region=250)), list(climbs(10_000, region=1250))
    assert good == [(10_000, CLIMBS[0][1])]
    assert all(rows < 3000 for rows, _ in quick)
    for n in (5_000, 50_000, 10**6):
        for region in (64, 256, 1024, 4096):
            done = list(climbs(n, region=region))
            assert all(LEAST_CLIMB <= rows <= n for rows, _ in done)
            assert sum(1.6 * rows * steps for rows, steps in done) <= 2.0 * n * (region / 256) ** 2
    assert list(climbs(10**6, region=512)) == list(CLIMBS)


def test_iterations_on_the_whole_evidence_fall_with_the_rows():
    assert [whole_iterations(n) for n in (10, 800, 2000, 4000)] == [100, 100, 40, 20]
