"""Section 4 of pFedHGP: scenarios A to D, every model, every metric, the exact Bayes predictor beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from streamgp.experiments.hierarchical.methods import METHODS
from streamgp.experiments.hierarchical.metrics import METRICS, evaluate
from streamgp.experiments.hierarchical.simulate import NOISE_STD, Scenario, simulate

#: what the paper states in its text (its Table 2 is an image): setting, method, metric -> value
PAPER = {
    ("A", "full", "rmse"): 0.223,
    ("A", "full", "nll"): -2.275,
    ("A", "full", "width"): 0.765,
    ("B", "full", "rmse"): 0.256,
    ("B", "full", "nll"): -0.996,
    ("B", "full", "width"): 0.919,
    ("C", "full", "nll"): -1.923,
}
SEEDS, QUICK_SEEDS = 30, 3


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a study's table; ``spread`` is half the width of a 95% interval of the mean over seeds."""

    study: str
    setting: str
    method: str
    metric: str
    ours: float
    spread: float | None = None
    paper: float | None = None


def run(
    scenario: Scenario, *, seeds: Iterable[int], methods: Iterable[str] = tuple(METHODS)
) -> Iterator[tuple[int, str, dict[str, float]]]:
    """Metrics of each method on each seed's draw, one after another."""
    with threadpool_limits(limits=1, user_api="blas"):
        for seed in seeds:
            sample = simulate(scenario, seed)
            for method in methods:
                answers = METHODS[method](sample, seed)
                yield seed, method, evaluate(answers, sample.Y_test, sample.clean_test, noise_std=NOISE_STD)


def study(scenario: Scenario, *, quick: bool = False, seed: int = 0) -> list[Line]:
    """The scenario's table: 30 seeds from ``seed`` on, or 3 where ``quick``."""
    seeds = range(seed, seed + (QUICK_SEEDS if quick else SEEDS))
    found: dict[str, list[dict[str, float]]] = {}
    for _, method, metrics in run(scenario, seeds=seeds):
        found.setdefault(method, []).append(metrics)
    return [
        Line(
            f"scenario-{scenario.lower()}",
            scenario,
            method,
            metric,
            *mean_and_spread([r[metric] for r in runs]),
            PAPER.get((scenario, method, metric)),
        )
        for method, runs in found.items()
        for metric in METRICS
    ]


def mean_and_spread(values: list[float]) -> tuple[float, float | None]:
    """Mean, and half the width of its 95% interval (none of a single value)."""
    if len(values) < 2:
        return float(np.mean(values)), None
    return float(np.mean(values)), float(1.96 * np.std(values, ddof=1) / np.sqrt(len(values)))
