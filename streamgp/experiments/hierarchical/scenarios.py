"""Section 4 of pFedHGP: scenarios A to D, every model, every metric, the exact Bayes predictor beside them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from streamgp.experiments.hierarchical.kept import Kept, code_mark
from streamgp.experiments.hierarchical.methods import METHODS
from streamgp.experiments.hierarchical.metrics import METRICS, evaluate
from streamgp.experiments.hierarchical.simulate import NOISE_STD, Scenario, simulate
from streamgp.experiments.registry import Progress, Study
from streamgp.experiments.results import Report, Row

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
SEEDS, QUICK_SEEDS, PART = 30, 3, 10
#: what is told of a fit: the metrics of 4.5, and the processor's seconds it took, forecasts included
TOLD = (*METRICS, "cpu_s")


def run(
    scenario: Scenario, *, seeds: Iterable[int], methods: Iterable[str] | None = None, kept: Kept | None = None
) -> Iterator[tuple[int, str, dict[str, float]]]:
    """Metrics of each method on each seed's draw, all by default; those that are ``kept`` are not made again."""
    with threadpool_limits(limits=1, user_api="blas"):
        for seed in seeds:
            sample = simulate(scenario, seed)
            for method in methods or METHODS:
                if kept is not None and (seed, method) in kept.fits:
                    yield seed, method, kept.fits[seed, method]
                    continue
                start = time.process_time()
                answers = METHODS[method](sample, seed)
                found = {"cpu_s": time.process_time() - start}
                found |= evaluate(answers, sample.Y_test, sample.clean_test, noise_std=NOISE_STD)
                if kept is not None:
                    kept.add((seed, method), found)
                yield seed, method, found


def study(
    scenario: Scenario,
    *,
    quick: bool,
    seed: int,
    out: Path,
    progress: Progress,
    numbers: range = range(SEEDS),
    title: str = "",
) -> Report:
    """The scenario's table over those ``numbers`` of 30 seeds from ``seed`` on, or 3 where ``quick``, and its figure.

    Every fit is kept in ``out`` as soon as it is made, and a study that was cut off goes on from there.
    """
    seeds = range(seed, seed + QUICK_SEEDS) if quick else [seed + k for k in numbers]
    scenario_name = f"scenario-{scenario.lower()}"
    name = title or scenario_name
    kept = Kept(out / f"{scenario_name}-fits.csv", TOLD, mark=code_mark())
    found: dict[str, list[dict[str, float]]] = {}
    total = len(seeds) * len(METHODS)
    for _, method, metrics in progress(run(scenario, seeds=seeds, kept=kept), description=name, total=total):
        found.setdefault(method, []).append(metrics)
    rows = []
    for method, runs in found.items():
        for metric in TOLD:
            values = [r[metric] for r in runs]
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
            paper = PAPER.get((scenario, method, metric))
            rows.append(Row(name, scenario, method, metric, float(np.mean(values)), spread, paper))
    _draw(found, scenario, out / f"{name}.png")
    notes = [f"{len(seeds)} seeds from {seeds[0]} on; each fit is in {scenario_name}-fits.csv."]
    notes += ["Paper: only what its text states; its Table 2 is an image. Rows of `exact Bayes` know the truth."]
    if scenario == "C":
        notes.append("C is not Gaussian: `exact Bayes` is exact for the additive part alone there, and no bound.")
    return Report(rows, notes)


def scenario_study(scenario: Scenario, title: str) -> Study:
    """The study of a scenario; its parts are ten seeds each, as the whole takes long."""
    name = f"scenario-{scenario.lower()}"
    parts = {}
    for first in range(0, SEEDS, PART):
        part = f"seeds-{first}-{first + PART - 1}"
        parts[part] = partial(study, scenario, numbers=range(first, first + PART), title=f"{name}-{part}")
    return Study(name, title, run=partial(study, scenario), aliases=(scenario.lower(),), parts=parts)


def _draw(found: dict[str, list[dict[str, float]]], scenario: Scenario, path: Path) -> None:
    """RMSE and NLL of every method, a point a seed and their mean."""
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    for axes, metric in zip(figure.subplots(1, 2, sharey=True), ("rmse", "nll"), strict=True):
        for at, runs in enumerate(found.values()):
            values = [r[metric] for r in runs]
            axes.plot(values, [at] * len(values), ".", color="0.6")
            axes.plot(np.mean(values), at, "|", markersize=14, color="C0")
        axes.set_xlabel(metric)
        axes.set_yticks(range(len(found)), list(found))
        if metric == "rmse":
            axes.invert_yaxis()
    figure.suptitle(f"Scenario {scenario}")
    figure.savefig(path, dpi=120)
