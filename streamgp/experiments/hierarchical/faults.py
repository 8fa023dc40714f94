"""Fault diagnosis by maximum evidence (pFedHGP 3.8.1, 5.1) on recorded robot failures, beside a support vector machine.

Two ways to make clients of labelled cycles. *A client a class* is the paper's: the cycles of a class are rows of one
client, so what differs from cycle to cycle is noise. *A client a cycle* is one federation a class: its global layer is
the class's mean curve, a cycle's own layers are how it differs, and the law of a new cycle is that of a client
without data. Then classes also differ in how, and how much, their cycles vary. *Channels weighted* is that with the
evidence taken channel by channel (:mod:`streamgp.experiments.hierarchical.channels`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from streamgp.experiments.hierarchical.channels import Law, told_by_channels
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report, Row
from streamgp.experiments.tables import find_file, read_columns
from streamgp.gp.gaussian import Array
from streamgp.models.hgp.posterior import Evidence
from streamgp.models.hierarchical import HierarchicalGP

Labels: TypeAlias = NDArray[Any]
#: training cycles (n, T, Q) with their labels, and test cycles -> the test cycles' labels
Method: TypeAlias = Callable[[Array, Labels, Array], Labels]

CHANNELS = ("Fx", "Fy", "Fz", "Tx", "Ty", "Tz")
PROBLEMS = (1, 2, 3, 4, 5)
FOLDS = 5
#: what a force of this size is to a compressed one
SOFT = 5.0


def cycles(problem: int) -> tuple[Array, Labels]:
    """(n, 15, 6) forces and torques of the examples of a learning problem, and their labels."""
    columns = read_columns(find_file("robot_failures.csv.gz"))
    mine = columns["lp"] == problem
    order = np.lexsort((columns["t"][mine], columns["example"][mine]))
    example = columns["example"][mine][order]
    values = np.column_stack([columns[name][mine][order] for name in CHANNELS]).astype(np.float64)
    count = len(np.unique(example))
    return values.reshape(count, -1, len(CHANNELS)), columns["label"][mine][order].reshape(count, -1)[:, 0]


def by_cycle(train: Array, labels: Labels, test: Array) -> Labels:
    """One federation a class, a client a cycle; a test cycle goes to the class whose newcomer it is likeliest to be."""
    train, test = _scaled(train, test)
    t, classes, scores = _times(train), np.unique(labels), []
    for name in classes:
        mean, cov = _federation(train[labels == name]).newcomer(t)
        law = Evidence(mean.ravel(), cov)
        scores.append([law.log_density(cycle) for cycle in test])
    return np.asarray(classes[np.argmax(scores, axis=0)])


def by_channel(train: Array, labels: Labels, test: Array) -> Labels:
    """The same with compressed forces and every channel's evidence weighted; see :mod:`.channels`."""
    train, test = _scaled(np.arcsinh(train / SOFT), np.arcsinh(test / SOFT))
    t, classes = _times(train), np.unique(labels)

    def law(own: Array) -> tuple[Law, list[Law]]:
        model = _federation(own)
        without = [Law(*model.newcomer(t, without=i), np.delete(own, i, axis=0)) for i in range(len(own))]
        return Law(*model.newcomer(t), own), without

    return np.asarray(classes[told_by_channels([train[labels == name] for name in classes], test, law)])


def _federation(cycles: Array) -> HierarchicalGP:
    """A model of the cycles (n, T, Q) of a class, a client each."""
    t = _times(cycles)
    few = min(8, len(t))
    model = HierarchicalGP(
        cycles.shape[2], n_global=few, n_local=few, budget="fixed", n_starts=1, max_iter=40, random_state=0
    )
    return model.fit([t] * len(cycles), list(cycles))


def by_class(train: Array, labels: Labels, test: Array) -> Labels:
    """The paper's: a client a class, its cycles the rows of it; (32)."""
    train, test = _scaled(train, test)
    t, classes = _times(train), np.unique(labels)
    Ys = [np.concatenate(train[labels == name]) for name in classes]
    Xs = [np.tile(t, (len(Y) // len(t), 1)) for Y in Ys]
    model = HierarchicalGP(
        train.shape[2], n_global=len(t), n_local=len(t), budget="fixed", n_starts=1, max_iter=60, random_state=0
    )
    return np.asarray(classes[model.fit(Xs, Ys).classify(t, test)])


def support_vectors(train: Array, labels: Labels, test: Array, *, soft: bool = False) -> Labels:
    """scikit-learn's SVC on all numbers of a cycle, standardised; ``soft`` compresses large forces first."""
    if soft:
        train, test = np.arcsinh(train / SOFT), np.arcsinh(test / SOFT)
    machine = make_pipeline(StandardScaler(), SVC(C=10.0))
    machine.fit(train.reshape(len(train), -1), labels)
    return np.asarray(machine.predict(test.reshape(len(test), -1)))


def support_vectors_soft(train: Array, labels: Labels, test: Array) -> Labels:
    """The same on compressed forces, the best that it was seen to do."""
    return support_vectors(train, labels, test, soft=True)


METHODS: dict[str, Method] = {
    "hierarchical, channels weighted": by_channel,
    "hierarchical, a client a cycle": by_cycle,
    "hierarchical, a client a class": by_class,
    "SVC": support_vectors,
    "SVC, compressed forces": support_vectors_soft,
}


def accuracies(problem: int, *, seed: int) -> dict[str, float]:
    """Share of cycles told right in a stratified five-fold split, the same for every method."""
    made, labels = cycles(problem)
    hits: dict[str, list[bool]] = {name: [] for name in METHODS}
    folds = StratifiedKFold(
        min(FOLDS, int(np.unique(labels, return_counts=True)[1].min())), shuffle=True, random_state=seed
    )
    for train, test in folds.split(made, labels):
        for name, method in METHODS.items():
            hits[name] += list(method(made[train], labels[train], made[test]) == labels[test])
    return {name: float(np.mean(hit)) for name, hit in hits.items()}


def study(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Accuracy on every learning problem over three splits, or on the first over one where ``quick``."""
    problems, seeds = (PROBLEMS[:1], [seed]) if quick else (PROBLEMS, range(seed, seed + 3))
    jobs = [(p, s) for p in problems for s in seeds]
    found: dict[tuple[int, str], list[float]] = {}
    for problem, s in progress(jobs, description="faults", total=len(jobs)):
        for name, share in accuracies(problem, seed=s).items():
            found.setdefault((problem, name), []).append(share)
    rows = [
        Row(
            "faults",
            f"problem {problem}",
            name,
            "accuracy",
            float(np.mean(shares)),
            float(np.std(shares, ddof=1)) if len(shares) > 1 else None,
        )
        for (problem, name), shares in found.items()
    ]
    draw_accuracies(rows, out / "faults.png")
    return Report(rows, ["The paper's press tonnage data are not public; it reports 1.0 there."])


def draw_accuracies(rows: list[Row], path: Path) -> None:
    """A bar a method, a group a setting."""
    settings, names = list(dict.fromkeys(r.setting for r in rows)), list(dict.fromkeys(r.method for r in rows))
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(names)
    for k, name in enumerate(names):
        mine = {r.setting: r.ours for r in rows if r.method == name}
        axes.bar(np.arange(len(settings)) + k * width, [mine[s] for s in settings], width, label=name)
    axes.set_xticks(np.arange(len(settings)) + 0.4 - width / 2, settings)
    axes.set_ylabel("accuracy")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)


def _scaled(train: Array, test: Array) -> tuple[Array, Array]:
    """Each channel by the training cycles' mean and standard deviation."""
    mean, std = train.mean(axis=(0, 1)), train.std(axis=(0, 1))
    std = np.where(std > 0.0, std, 1.0)
    return (train - mean) / std, (test - mean) / std


def _times(train: Array) -> Array:
    return np.arange(float(train.shape[1]))[:, None]
