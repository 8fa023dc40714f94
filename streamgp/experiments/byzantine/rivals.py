"""Section 6.1.6: the trimmed product against the median, the product against the average (Fig. 6), and the family."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from streamgp.experiments.byzantine.liars import draw_liars, lie
from streamgp.experiments.byzantine.network import DEFAULT_NEIGHBORS, Prior, local_answers
from streamgp.experiments.byzantine.toy import AGENTS, NOISE_VARIANCE, eta, toy_data, toy_prior
from streamgp.experiments.byzantine.trials import Panel, Trials, draw, mse, repetitions
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report
from streamgp.fusion import (
    Fused,
    bcm,
    calibrated_poe,
    covariance_intersection,
    geometric_median,
    gpoe,
    grbcm,
    krum,
    mean_of_experts,
    median_of_experts,
    min_variance,
    product_of_experts,
    rbcm,
    trimmed_poe,
)
from streamgp.gp.gaussian import Array

SIZES = (1_000, 5_000, 10_000, 40_000)
LIARS = 6
KINDS = ("gaussian", "alie", "mimic", "bit-flip", "same-value")  # the four of section 6.1.4, and that of 6.1.1


def rules(prior: Prior) -> dict[str, Callable[[Array, Array], Fused]]:
    """Every rule of the family by name, GRBCM apart: it needs answers of its own."""
    before = prior.signal_variance
    return {
        "trimmed": lambda M, V: trimmed_poe(M, V, LIARS),
        "calibrated": lambda M, V: calibrated_poe(M, V, LIARS),
        "median": median_of_experts,
        "geometric median": geometric_median,
        "krum": lambda M, V: krum(M, V, LIARS),
        "product": product_of_experts,
        "average": mean_of_experts,
        "gpoe": lambda M, V: gpoe(M, V, prior_variance=before),
        "bcm": lambda M, V: bcm(M, V, before),
        "rbcm": lambda M, V: rbcm(M, V, before),
        "min variance": min_variance,
        "covariance intersection": lambda M, V: covariance_intersection(M, V, prior_variance=before),
    }


def run(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Each rule without liars, and with six of 40 agents that lie, in five ways."""
    trials, prior = Trials("rivals"), toy_prior(seed)
    family = rules(prior)
    for number, rng in repetitions(quick, seed, progress, "6.1.6 rivals"):
        liars = draw_liars(AGENTS, LIARS, rng)
        for n_train in SIZES:
            Z, y, Zs = toy_data(n_train, rng)
            truth = eta(Zs[:, 0])
            for k in (1, DEFAULT_NEIGHBORS):
                M, V = local_answers(Z, y, Zs, prior, n_neighbors=k)
                said = {"honest": (M, V)}
                for kind in KINDS:
                    said[kind] = lie(
                        M,
                        V,
                        liars,
                        kind,
                        query_id=f"{number}-{n_train}",
                        seed=seed,
                        noise_variance=NOISE_VARIANCE,
                        n_trim=LIARS,
                    )
                for which, answers in said.items():
                    for name, rule in family.items():
                        trials.add(_setting(which, n_train, k), name, mse(rule(*answers).mean, truth))
                together = grbcm(*_with_communication(Z, y, Zs, prior, k))
                trials.add(_setting("honest", n_train, k), "grbcm", mse(together.mean, truth))
    _draw(trials, out / "rivals.png")
    return Report(
        trials.rows(),
        (
            "alpha = beta = 15%. The paper gives curves without numbers: trimmed below the median (Fig. 6a, setup of "
            "section 6.1.4, which has four attacks; it does not say which), product below the average (Fig. 6b), at "
            "every size.",
            *_compared(trials),
            "Why the median wins where the lies are far off and on one side: both rules then see the honest answers "
            "less as many of the other side; the product (7) keeps the bias of that cut and adds weights by claims "
            "that hardly differ. Under a-little-is-enough, whose lies lie inside the honest spread, it is the median "
            "that follows the liars.",
            "GRBCM's other experts have learned the first agent's rows beside their own; its row is without liars.",
        ),
    )


def _with_communication(Z: Array, y: Array, Zs: Array, prior: Prior, k: int) -> tuple[Array, Array]:
    """Answers (n, m) where every agent but the first has learned the first one's rows as well."""
    first = np.broadcast_to(Z[0], Z[1:].shape), np.broadcast_to(y[0], y[1:].shape)
    both = np.concatenate([Z[1:], first[0]], axis=1), np.concatenate([y[1:], first[1]], axis=1)
    M0, V0 = local_answers(Z[:1], y[:1], Zs, prior, n_neighbors=k)
    M1, V1 = local_answers(*both, Zs, prior, n_neighbors=k)
    return np.vstack([M0, M1]), np.vstack([V0, V1])


def _compared(trials: Trials) -> list[str]:
    """Where the paper's two claims of Fig. 6 hold here."""
    notes = []
    pairs = [("Fig. 6a", kind, "trimmed", "median") for kind in KINDS]
    pairs += [("Fig. 6a for the second rule", kind, "calibrated", "median") for kind in KINDS]
    for figure, which, ours, theirs in (*pairs, ("Fig. 6b", "honest", "product", "average")):
        for k in (1, DEFAULT_NEIGHBORS):
            settings = [_setting(which, n, k) for n in SIZES]
            ratios = [trials.mean(s, ours) / trials.mean(s, theirs) for s in settings]
            held = "held" if max(ratios) < 1.0 else "not held" if min(ratios) >= 1.0 else "held at some sizes"
            text = ", ".join(f"{r:.3g}" for r in ratios)
            notes.append(f"{figure}, {which}, k={k}: {held}; {ours} / {theirs} by size: {text}.")
    return notes


def _setting(which: str, n_train: int, k: int) -> str:
    return f"{which} n_s={n_train} k={k}"


def _draw(trials: Trials, path: Path) -> None:
    panels: list[Panel] = []
    for title, which, pair in (
        *((f"Fig. 6a, {kind}", kind, ("trimmed", "median", "calibrated")) for kind in KINDS),
        ("Fig. 6b, honest", "honest", ("product", "average")),
    ):
        curves = {
            f"{name}, k={k}": trials.curve([_setting(which, n, k) for n in SIZES], name)
            for k in (1, DEFAULT_NEIGHBORS)
            for name in pair
        }
        panels.append((title, "training points", SIZES, curves))
    draw(path, panels, log_x=True)
