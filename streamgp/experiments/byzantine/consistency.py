"""Section 6.1.1: how the error falls with the data, for several fractions of liars (Figs 2a and 3)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from streamgp.experiments.byzantine.liars import lie
from streamgp.experiments.byzantine.toy import AGENTS, toy_answers, toy_prior
from streamgp.experiments.byzantine.trials import Panel, Trials, draw, repetitions
from streamgp.experiments.byzantine.verdicts import ordering
from streamgp.experiments.byzantine.versus import METHODS, NEIGHBORS, judge
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report
from streamgp.fusion import n_trim_for

SIZES = (1_000, 5_000, 10_000, 50_000)
ALPHAS = (0.025, 0.05, 0.075, 0.1, 0.125, 0.15)


def run(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Same-value attack of 100 on alpha n of 40 agents, beta = alpha."""
    trials, prior = Trials("consistency"), toy_prior(seed)
    for _, rng in repetitions(quick, seed, progress, "6.1.1 consistency"):
        for n_train in SIZES:
            for k in NEIGHBORS:
                answers = toy_answers(n_train, prior, n_neighbors=k, rng=rng)
                order = rng.permutation(AGENTS)
                for alpha in ALPHAS:
                    count = n_trim_for(alpha, AGENTS)
                    said = lie(
                        answers.means,
                        answers.variances,
                        np.sort(order[:count]),
                        "same-value",
                        query_id="q",
                        seed=seed,
                    )
                    judge(trials, setting(n_train, alpha, k), answers, said, count)
    _draw(trials, out / "consistency.png")
    return Report(
        trials.rows(),
        (
            *ordering(trials, [setting(n, a, k) for k in NEIGHBORS for n in SIZES for a in ALPHAS]),
            "Same-value attack, every mean 100; beta = alpha; 40 agents, 120 test points, noise variance 0.01.",
            f"Hyperparameters by maximum likelihood on 300 points apart: {prior.describe()}.",
            "The paper gives curves without numbers. Of Fig. 3 it says: errors of the order of 1e-4 for the "
            "attack-free and the trimmed product, 2.5 to 30 for the attacked one.",
        ),
    )


def setting(n_train: int, alpha: float, k: int) -> str:
    """Name of one setting."""
    return f"n_s={n_train} alpha={alpha:g} k={k}"


def _draw(trials: Trials, path: Path) -> None:
    panels: list[Panel] = []
    for k in NEIGHBORS:
        curves = {}
        for method in METHODS:
            for alpha in (0.025, 0.15) if method != "attack-free" else (0.15,):
                name = method if method == "attack-free" else f"{method}, alpha={alpha:g}"
                curves[name] = trials.curve([setting(n, alpha, k) for n in SIZES], method)
        panels.append((f"Fig. 2a, k={k}", "training points", SIZES, curves))
        fig3 = {m: trials.curve([setting(10_000, a, k) for a in ALPHAS], m) for m in METHODS}
        panels.append((f"Fig. 3, k={k}, n_s=10000", "alpha", ALPHAS, fig3))
    draw(path, panels)
