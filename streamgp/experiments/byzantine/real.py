"""Section 6.2.2: local, cloud and fused predictions on real data, the choice by (9) (Fig. 8, Table 4)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from streamgp.experiments.byzantine.liars import draw_liars, lie
from streamgp.experiments.byzantine.network import DEFAULT_NEIGHBORS, Prior, local_answers
from streamgp.experiments.byzantine.robots import (
    AGENTS,
    LIARS,
    SARCOS_NOTE,
    TEST_POINTS,
    Robot,
    at_hand,
    largest,
    tune,
)
from streamgp.experiments.byzantine.trials import Panel, Trials, draw, mse, repetitions
from streamgp.experiments.byzantine.verdicts import beside_the_paper, ordering
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report
from streamgp.fusion import ChoiceConstants, calibrated_poe, choose, product_of_experts, trimmed_poe

_PAST_POINTS = 128  # answers with known truth that the constants of (9) are estimated from
SIZES = {"sarcos": (10_000, 20_000, 30_000, 40_000), "kin40k": (1_000, 3_000, 4_000, 5_000)}
PAPER = {
    "sarcos": {
        "local": (1.1817, 1.0478, 0.8669, 0.7500),
        "cloud": (1.0653, 0.8175, 0.6954, 0.6071),
        "fused": (1.0020, 0.7564, 0.6644, 0.5613),
    },
    "kin40k": {
        "local": (1.7366, 1.6716, 1.1605, 0.8894),
        "cloud": (0.8500, 0.7388, 0.6874, 0.6486),
        "fused": (0.8043, 0.7387, 0.6701, 0.6324),
    },
}


def run(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Five of 100 agents say 100; errors are means over the honest agents."""
    trials, paper = Trials("real"), {}
    notes = [
        "Five liars of 100 say 100, beta = alpha = 5%; the paper does not state the attack. Local and fused are means "
        "over the 95 honest agents (the paper shows agents 76 and 42).",
        "(9) with the constants as Theorem 2 defines them picks the cloud at no point, whatever the data: theta-check "
        "times the local variance is at most sigma, and Gamma above 1.17 sigma. 'fused' therefore uses (9) with "
        f"constants estimated from each agent's last {_PAST_POINTS} answers of known truth; 'fused eq8' uses (8).",
    ]
    robots, left_out = at_hand(SIZES, seed=seed)
    notes += left_out
    for name, (robot, warm) in robots.items():
        sizes = SIZES[name]
        top = largest(robot, sizes[-1])
        ours = [n * top // sizes[-1] // AGENTS * AGENTS for n in sizes]
        notes += [SARCOS_NOTE.format(n_train=ours, paper=list(sizes))] if name == "sarcos" else []
        for k in (1, DEFAULT_NEIGHBORS):
            prior = tune(warm, n_neighbors=k, seed=seed, quick=quick, progress=progress)
            notes.append(f"{name}, k={k}, tuned on {len(warm.y)} rows apart: {prior.describe()}.")
            for _, rng in repetitions(quick, seed, progress, f"6.2.2 {name} k={k}"):
                for stated, n_train in zip(sizes, ours, strict=True):
                    _once(trials, robot, n_train, _setting(name, stated, k), prior, k, seed, rng)
            for method, values in PAPER[name].items():
                paper.update({(_setting(name, n, k), method): v for n, v in zip(sizes, values, strict=True)})
    _draw(trials, tuple(robots), out / "real.png")
    rows = trials.rows(paper)
    settings = [_setting(name, n, k) for name in robots for k in (1, DEFAULT_NEIGHBORS) for n in SIZES[name]]
    verdict = beside_the_paper(rows, shown="sarcos"), *ordering(trials, settings, trimmed="cloud")
    return Report(rows, [*verdict, *notes])


def _once(
    trials: Trials, robot: Robot, n_train: int, setting: str, prior: Prior, k: int, seed: int, rng: np.random.Generator
) -> None:
    """One network: its past answers give the constants of (9), its answers at the test points the errors."""
    Z, y, Zs, truth = robot.draw(n_train, TEST_POINTS + _PAST_POINTS, rng)
    liars = draw_liars(AGENTS, LIARS, rng)
    means, variances = local_answers(Z, y, Zs, prior, n_neighbors=k)
    M, V = lie(means, variances, liars, "same-value", query_id="q", seed=seed)
    cloud, past, test = trimmed_poe(M, V, LIARS), slice(0, _PAST_POINTS), slice(_PAST_POINTS, None)
    errors: dict[str, list[float]] = {"local": [], "fused": [], "fused eq8": []}
    widths: dict[str, list[float]] = {"local": [], "fused": []}
    for i in np.setdiff1d(np.arange(AGENTS), liars):
        constants = ChoiceConstants.from_record(
            local_error=(M[i] - truth)[past],
            local_variance=V[i][past],
            cloud_error=(cloud.mean - truth)[past],
            cloud_variance=cloud.variance[past],
        )
        by9 = choose(V[i], cloud, "eq9", constants=constants)
        by8 = choose(V[i], cloud)
        errors["local"].append(mse(M[i][test], truth[test]))
        errors["fused"].append(mse(np.where(by9, cloud.mean, M[i])[test], truth[test]))
        errors["fused eq8"].append(mse(np.where(by8, cloud.mean, M[i])[test], truth[test]))
        widths["local"].append(float(V[i][test].mean()))
        widths["fused"].append(float(np.where(by9, cloud.variance, V[i])[test].mean()))
    for method, values in errors.items():
        trials.add(setting, method, float(np.mean(values)))
    for method, values in widths.items():
        trials.add(setting, method, float(np.mean(values)), metric="variance")
    trials.add(setting, "cloud", mse(cloud.mean[test], truth[test]))
    for method, said in (("attack-free", (means, variances)), ("attacked", (M, V))):
        trials.add(setting, method, mse(product_of_experts(*said).mean[test], truth[test]))
    trials.add(setting, "calibrated", mse(calibrated_poe(M, V, LIARS).mean[test], truth[test]))


def _setting(name: str, n_train: int, k: int) -> str:
    return f"{name} n_s={n_train} k={k}"


def _draw(trials: Trials, names: tuple[str, ...], path: Path) -> None:
    panels: list[Panel] = []
    for name in names:
        sizes = SIZES[name]
        curves = {
            f"{m}, k={k}": trials.curve([_setting(name, n, k) for n in sizes], m, metric="variance")
            for k in (1, DEFAULT_NEIGHBORS)
            for m in ("local", "fused")
        }
        panels.append((f"Fig. 8, {name}", "training points (as stated in the paper)", sizes, curves))
    draw(path, panels, ylabel="mean variance over test points", log_y=False)
