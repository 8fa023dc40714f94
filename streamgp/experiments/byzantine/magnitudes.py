"""Section 6.2.1: attacks of magnitude 1 to 100 on real data (Fig. 7)."""

from __future__ import annotations

from pathlib import Path

from streamgp.experiments.byzantine.liars import draw_liars, lie
from streamgp.experiments.byzantine.network import DEFAULT_NEIGHBORS
from streamgp.experiments.byzantine.robots import AGENTS, LIARS, SARCOS_NOTE, at_hand, largest, tune
from streamgp.experiments.byzantine.trials import Panel, Trials, draw, mse, repetitions
from streamgp.experiments.byzantine.verdicts import ordering
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report
from streamgp.fusion import product_of_experts, trimmed_poe

SIZES = {"sarcos": 40_000, "kin40k": 9_000}
MAGNITUDES = (1, 10, 50, 100)
METHODS = ("attack-free", "trimmed", "attacked")


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
        for k in (1, DEFAULT_NEIGHBORS):
            prior = tune(warm, n_neighbors=k, seed=seed, quick=quick, progress=progress)
            for number, rng in repetitions(quick, seed, progress, f"6.2.1 {name} k={k}"):
                answers = robot.answers(n_train, prior, n_neighbors=k, rng=rng)
                liars = draw_liars(AGENTS, LIARS, rng)
                sign = rng.choice([-1.0, 1.0])
                honest = product_of_experts(answers.means, answers.variances)
                for size_of_lie in MAGNITUDES:
                    M, V = lie(
                        answers.means,
                        answers.variances,
                        liars,
                        "same-value",
                        query_id=str(number),
                        seed=seed,
                        magnitude=float(sign * size_of_lie),
                    )
                    fused = honest, trimmed_poe(M, V, LIARS), product_of_experts(M, V)
                    for method, result in zip(METHODS, fused, strict=True):
                        trials.add(_setting(name, size_of_lie, k), method, mse(result.mean, answers.truth))
    panels: list[Panel] = []
    for name in robots:
        curves = {
            f"{m}, k={k}": trials.curve([_setting(name, a, k) for a in MAGNITUDES], m)
            for k in (1, DEFAULT_NEIGHBORS)
            for m in METHODS
        }
        panels.append((f"Fig. 7, {name}", "magnitude of the attack", MAGNITUDES, curves))
    draw(out / "magnitudes.png", panels, log_x=True)
    settings = [_setting(name, a, k) for name in robots for k in (1, DEFAULT_NEIGHBORS) for a in MAGNITUDES]
    return Report(trials.rows(), [*ordering(trials, settings), *notes])


def _setting(name: str, magnitude: int, k: int) -> str:
    return f"{name} magnitude={magnitude} k={k}"
