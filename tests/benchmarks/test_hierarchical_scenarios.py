"""Scenario A: the full model beside the exact Bayes predictor and the reduced ones, and the time of a fit."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.experiments.hierarchical.scenarios import run

pytestmark = pytest.mark.bench

SEEDS = (0, 1, 2)
REDUCED = ("no deviation", "no local", "global only", "local only", "local only, four latents", "pFedGP")
FULL = ("full", "full, joint factors", "full, mean field")


def test_the_full_model_is_near_the_exact_predictor_and_ahead_of_the_reduced_ones() -> None:
    """RMSE within a tenth, NLL within half a nat, 95% intervals that hold 92 to 98%, 20 s of the processor a fit."""
    found: dict[str, list[dict[str, float]]] = {}
    for _, method, metrics in run("A", seeds=SEEDS, methods=("exact Bayes", *FULL, *REDUCED)):
        found.setdefault(method, []).append(metrics)
    mean = {m: {k: float(np.mean([r[k] for r in rows])) for k in rows[0]} for m, rows in found.items()}
    for method in FULL:
        assert mean[method]["rmse"] <= 1.10 * mean["exact Bayes"]["rmse"], method
        assert mean[method]["nll"] <= mean["exact Bayes"]["nll"] + 0.5, method
        assert 0.92 <= mean[method]["coverage"] <= 0.98, method
        assert max(r["cpu_s"] for r in found[method]) <= 20.0, method
    for method in REDUCED:
        assert mean["full"]["rmse"] < mean[method]["rmse"], method
        assert mean["full"]["nll"] < mean[method]["nll"], method
