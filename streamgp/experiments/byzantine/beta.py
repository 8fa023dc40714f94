"""Section 6.1.2: what it costs to cut more than there are liars (Fig. 2b)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from streamgp.experiments.byzantine.liars import lie
from streamgp.experiments.byzantine.network import DEFAULT_NEIGHBORS
from streamgp.experiments.byzantine.toy import AGENTS, toy_answers, toy_prior
from streamgp.experiments.byzantine.trials import Panel, Trials, draw, mse, repetitions
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report
from streamgp.fusion import n_trim_for, trimmed_poe

SIZE = 10_000
STEPS = tuple(round(0.025 * i, 3) for i in range(1, 10))  # 0.025 to 0.225
ALPHAS = STEPS[:6]


def run(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """For each alpha, beta from alpha to 0.225 in steps of 0.025."""
    trials, prior = Trials("beta"), toy_prior(seed)
    for _, rng in repetitions(quick, seed, progress, "6.1.2 beta"):
        order = rng.permutation(AGENTS)
        for k in (1, DEFAULT_NEIGHBORS):
            answers = toy_answers(SIZE, prior, n_neighbors=k, rng=rng)
            for alpha in ALPHAS:
                liars = np.sort(order[: n_trim_for(alpha, AGENTS)])
                M, V = lie(answers.means, answers.variances, liars, "same-value", query_id="q", seed=seed)
                for beta in STEPS[STEPS.index(alpha) :]:
                    fused = trimmed_poe(M, V, n_trim_for(beta, AGENTS))
                    trials.add(_setting(alpha, beta, k), "trimmed", mse(fused.mean, answers.truth))
    panels: list[Panel] = []
    for k in (1, DEFAULT_NEIGHBORS):
        curves = {}
        for alpha in ALPHAS:
            curve = trials.curve([_setting(alpha, b, k) for b in STEPS[STEPS.index(alpha) :]], "trimmed")
            curves[f"alpha={alpha:g}"] = [float("nan")] * STEPS.index(alpha) + curve
        panels.append((f"Fig. 2b, k={k}", "beta", STEPS, curves))
    draw(out / "beta.png", panels)
    return Report(
        trials.rows(),
        (
            "n_s = 10000, same-value attack of 100. The paper gives curves without numbers and concludes that the "
            "error grows with beta.",
            "Here the error falls again for a beta well above alpha: the liars fill one side of the cut, honest "
            "agents the other, and that bias shrinks as the cut takes honest agents on both sides.",
        ),
    )


def _setting(alpha: float, beta: float, k: int) -> str:
    return f"alpha={alpha:g} beta={beta:g} k={k}"
