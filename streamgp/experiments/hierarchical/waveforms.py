"""Fault diagnosis (pFedHGP 5.1) on generated press strokes: four channels of 1,201 points, five classes.

The press data are not public, so the truth here is ours: a stroke that all classes share, a missing part that changes
it in a window of its own and in channels of its own, and cycles that differ in tonnage, in a smooth drift and by noise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from streamgp.experiments.hierarchical.faults import draw_accuracies
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report, Row
from streamgp.gp.gaussian import Array
from streamgp.models.hierarchical import HierarchicalGP

POINTS, CHANNELS, CLASSES = 1201, 4, 5
#: training and test cycles of the normal class and of each fault, as in the paper
TRAIN, TEST = (40, 10, 10, 10, 10), (265, 59, 59, 59, 59)
#: inducing inputs of the shared and of each client's own layer, as in the paper
N_GLOBAL, N_LOCAL = 81, 41
#: the evidence of a cycle is that of every so many of its points: 1,204 numbers instead of 4,804
STRIDE = 4
#: rows of a class that train; they are spread over its cycles and over all of their points
ROWS = 2402
ACCURACY_OF_PAPER = 1.0


def strokes(count: int, fault: int, rng: np.random.Generator) -> Array:
    """(count, 1201, 4) cycles of a class, 0 the normal one; the press is the same whatever the generator."""
    t = np.linspace(0.0, 1.0, POINTS)
    press = np.random.default_rng(1201)
    gains, phases = press.uniform(0.7, 1.3, CHANNELS), press.uniform(-0.02, 0.02, CHANNELS)
    stroke = np.stack(
        [g * np.exp(-0.5 * ((t - 0.5 - p) / 0.15) ** 2) for g, p in zip(gains, phases, strict=True)], axis=1
    )
    for at, width, size in ((0.32, 0.02, 0.15), (0.45, 0.015, 0.1), (0.58, 0.025, 0.2), (0.7, 0.02, 0.12)):
        stroke += size * np.exp(-0.5 * ((t - at) / width) ** 2)[:, None] * press.uniform(0.5, 1.5, CHANNELS)
    for k in range(1, CLASSES):
        window = np.exp(-0.5 * ((t - (0.25 + 0.12 * k)) / 0.03) ** 2)[:, None] * press.uniform(0.1, 0.3, CHANNELS)
        stroke = stroke - window if k == fault else stroke
    tonnage = 1.0 + 0.03 * rng.standard_normal((count, 1, 1))
    waves = np.stack([np.sin(np.pi * k * t) for k in (1, 2, 3)], axis=1)  # (1201, 3)
    drift = np.einsum("tk,ckq->ctq", waves, 0.02 * rng.standard_normal((count, 3, CHANNELS)))
    return np.asarray(tonnage * stroke + drift + 0.02 * rng.standard_normal((count, POINTS, CHANNELS)))


def drawn(sizes: tuple[int, ...], rng: np.random.Generator) -> list[Array]:
    """Cycles of every class."""
    return [strokes(count, fault, rng) for fault, count in enumerate(sizes)]


def told_by_evidence(train: list[Array], test: list[Array], *, seed: int) -> float:
    """Accuracy of the maximum-evidence rule (32), a client a class."""
    t = np.arange(float(POINTS))[:, None]
    mean, std = np.mean([c.mean() for c in train]), np.std(train[0])
    Xs, Ys = [], []
    for cycles in train:
        every = max(1, len(cycles) * POINTS // ROWS)
        rows = np.arange(len(cycles) * POINTS)[::every]
        Xs.append(t[rows % POINTS])
        Ys.append(((cycles - mean) / std).reshape(-1, CHANNELS)[rows])
    model = HierarchicalGP(
        CHANNELS,
        n_global=N_GLOBAL,
        n_local=N_LOCAL,
        budget="fixed",
        n_starts=1,
        max_iter=40,
        random_state=seed,
    ).fit(Xs, Ys)
    hits = [
        model.classify(t[::STRIDE], ((cycles[:, ::STRIDE] - mean) / std)) == fault for fault, cycles in enumerate(test)
    ]
    return float(np.mean(np.concatenate(hits)))


def told_by_machine(train: list[Array], test: list[Array]) -> float:
    """Accuracy of scikit-learn's SVC on the same points of whole cycles."""
    X = np.concatenate([c[:, ::STRIDE].reshape(len(c), -1) for c in train])
    y = np.repeat(np.arange(CLASSES), [len(c) for c in train])
    machine = make_pipeline(StandardScaler(), SVC(C=10.0)).fit(X, y)
    hits = [machine.predict(c[:, ::STRIDE].reshape(len(c), -1)) == fault for fault, c in enumerate(test)]
    return float(np.mean(np.concatenate(hits)))


def study(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Accuracy over five draws of the paper's split, or one where ``quick``, and the classes' mean waveforms."""
    seeds = range(seed, seed + (1 if quick else 5))
    found: dict[str, list[float]] = {"hierarchical, a client a class": [], "SVC": []}
    train: list[Array] = []
    for s in progress(seeds, description="waveforms", total=len(seeds)):
        rng = np.random.default_rng(s)
        train, test = drawn(TRAIN, rng), drawn(TEST, rng)
        found["hierarchical, a client a class"].append(told_by_evidence(train, test, seed=s))
        found["SVC"].append(told_by_machine(train, test))
    rows = [
        Row(
            "waveforms",
            "13.77% labelled",
            name,
            "accuracy",
            float(np.mean(shares)),
            float(np.std(shares, ddof=1)) if len(shares) > 1 else None,
            ACCURACY_OF_PAPER if name.startswith("hier") else None,
        )
        for name, shares in found.items()
    ]
    draw_accuracies(rows, out / "waveforms.png")
    _draw_strokes(train, out / "waveforms-classes.png")
    note = f"Generated strokes; evidence on every {STRIDE}th point, training rows spread over all points of all cycles."
    return Report(rows, [note, "The paper's number is on its press data, which are not public."])


def _draw_strokes(train: list[Array], path: Path) -> None:
    """Mean and spread of every class, a panel a channel (the paper's Fig. 6)."""
    figure = Figure(figsize=(12, 3), layout="constrained")
    for q, axes in enumerate(figure.subplots(1, CHANNELS, sharey=True)):
        for k, cycles in enumerate(train):
            mean, std = cycles[:, :, q].mean(axis=0), cycles[:, :, q].std(axis=0)
            axes.plot(mean, lw=0.8, label="normal" if k == 0 else f"fault {k}")
            axes.fill_between(np.arange(POINTS), mean - std, mean + std, alpha=0.15)
        axes.set_title(f"channel {q + 1}")
    axes.legend(fontsize="x-small")
    figure.savefig(path, dpi=120)
