"""Section 6.2.1: attacks of magnitude 1 to 100 on real data (Fig. 7)."""

from __future__ import annotations

from pathlib import Path

from streamgp.experiments.byzantine.liars import draw_liars, lie
from streamgp.experiments.byzantine.robots import AGENTS, LIARS, SARCOS_NOTE, at_hand, largest, tune
from streamgp.experiments.byzantine.trials import Trials, draw, repetitions
from streamgp.experiments.byzantine.verdicts import ordering
from streamgp.experiments.byzantine.versus import NEIGHBORS, judge, panels
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report

SIZES = {"sarcos": 40_000, "kin40k": 9_000}
MAGNITUDES = (1, 10, 50, 100)


def run(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Five liars of 100 set every mean to the magnitude, all with one sign that is drawn anew in each repetition."""
    trials, notes = (
        Trials("magnitudes"),
        [
            "The paper does not state alpha here; ours is 5%, as in 6.2.2; beta = alpha. The sign is drawn once a "
            "repetition: liars who agree harm more than liars whose signs cancel.",
            "The paper gives box plots without numbers.",
        ],
    )
    robots, left_out = at_hand(SIZES, seed=seed)
    notes += left_out
    for name, (robot, warm) in robots.items():
        size = SIZES[name]
        n_train = largest(robot, size)
        notes += [SARCOS_NOTE.format(n_train=n_train, paper=size)] if name == "sarcos" else []
        for k in NEIGHBORS:
            prior = tune(warm, n_neighbors=k, seed=seed, quick=quick, progress=progress)
            for number, rng in repetitions(quick, seed, progress, f"6.2.1 {name} k={k}"):
                answers = robot.answers(n_train, prior, n_neighbors=k, rng=rng)
                liars = draw_liars(AGENTS, LIARS, rng)
                sign = rng.choice([-1.0, 1.0])
                for size_of_lie in MAGNITUDES:
                    said = lie(
                        answers.means,
                        answers.variances,
                        liars,
                        "same-value",
                        query_id=str(number),
                        seed=seed,
                        magnitude=float(sign * size_of_lie),
                    )
                    judge(trials, _setting(name, size_of_lie, k), answers, said, LIARS)
    titles = {name: f"Fig. 7, {name}" for name in robots}
    curves = panels(trials, MAGNITUDES, titles, _setting, xlabel="magnitude of the attack")
    draw(out / "magnitudes.png", curves, log_x=True)
    settings = [_setting(name, a, k) for name in robots for k in NEIGHBORS for a in MAGNITUDES]
    return Report(trials.rows(), [*ordering(trials, settings), *notes])


def _setting(name: str, magnitude: int, k: int) -> str:
    return f"{name} magnitude={magnitude} k={k}"
