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
            *(_told(trials, k) for k in (1, DEFAULT_NEIGHBORS)),
            "Two things change with beta: fewer agents are left, which costs; and where liars all lie on one side, the "
            "cut takes honest agents on the other side alone until beta exceeds alpha, a bias that shrinks as "
            "the cut takes them on both.",
        ),
    )


def _told(trials: Trials, k: int) -> str:
    """What the curves do: the largest beta against beta = alpha."""
    ratios = {
        alpha: trials.mean(_setting(alpha, STEPS[-1], k), "trimmed") / trials.mean(_setting(alpha, alpha, k), "trimmed")
        for alpha in ALPHAS
    }
    text = ", ".join(f"{ratio:.3g} at alpha={alpha:g}" for alpha, ratio in ratios.items())
    return f"k={k}: error at beta = {STEPS[-1]:g} over error at beta = alpha: {text}."


def _setting(alpha: float, beta: float, k: int) -> str:
    return f"alpha={alpha:g} beta={beta:g} k={k}"
