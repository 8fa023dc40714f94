"""Section 6.1.4: four attacks of the literature, and how the error falls with the data under each (Fig. 4)."""

from __future__ import annotations

from pathlib import Path

from streamgp.experiments.byzantine.liars import draw_liars, lie
from streamgp.experiments.byzantine.toy import AGENTS, NOISE_VARIANCE, toy_answers, toy_prior
from streamgp.experiments.byzantine.trials import Trials, draw, repetitions
from streamgp.experiments.byzantine.verdicts import ordering
from streamgp.experiments.byzantine.versus import NEIGHBORS, judge, panels
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report

SIZES = (1_000, 5_000, 10_000, 40_000)
KINDS = ("gaussian", "alie", "mimic", "bit-flip")
LIARS = 6


def run(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Gaussian, a little is enough, mimic, bit-flipped; alpha = beta = 15%."""
    trials, prior = Trials("attacks"), toy_prior(seed)
    for number, rng in repetitions(quick, seed, progress, "6.1.4 attacks"):
        liars = draw_liars(AGENTS, LIARS, rng)
        for n_train in SIZES:
            for k in NEIGHBORS:
                answers = toy_answers(n_train, prior, n_neighbors=k, rng=rng)
                for kind in KINDS:
                    said = lie(
                        answers.means,
                        answers.variances,
                        liars,
                        kind,
                        query_id=f"{number}-{n_train}",
                        seed=seed,
                        noise_variance=NOISE_VARIANCE,
                        n_trim=LIARS,
                    )
                    judge(trials, _setting(kind, n_train, k), answers, said, LIARS)
    titles = {kind: f"Fig. 4, {kind}" for kind in KINDS}
    draw(out / "attacks.png", panels(trials, SIZES, titles, _setting, xlabel="training points"), log_x=True)
    return Report(
        trials.rows(),
        (
            *ordering(trials, [_setting(kind, n, k) for k in NEIGHBORS for kind in KINDS for n in SIZES]),
            "Where the attacked product is no worse than the trimmed one, the attack is too mild to harm the plain "
            "product, and the cut costs what it always costs.",
            "alpha = beta = 15%, six liars of 40. The paper gives curves without numbers.",
            "Gaussian: N(0, 100^2). Bit-flipped: the sign of the mean. A little is enough: z from n and the number "
            "of liars (Baruch et al.). Mimic: all repeat the honest agent farthest from the average.",
        ),
    )


def _setting(kind: str, n_train: int, k: int) -> str:
    return f"{kind} n_s={n_train} k={k}"
