"""Fig. 9: accuracy against time at fixed hyperparameters; Fig. 2: the methods on a line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from streamgp.experiments.cpoe.falling import kl_falls
from streamgp.experiments.cpoe.methods import Belief, Problem, committees, full_gp, run_cpoe, sparse_gp
from streamgp.experiments.cpoe.plots import against_time, bands
from streamgp.experiments.cpoe.scores import kl_to, scores
from streamgp.experiments.cpoe.synthetic import NOISE, Found, draw_from, rows_of
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report, Row

#: A.6.1: variances and lengthscales of the short and of the long component
KERNEL = ConstantKernel(0.2) * RBF(0.125) + ConstantKernel(1.1) * RBF(0.5)
COMMITTEES = ("minVar", "GPoE", "BCM")


def rivals(problem: Problem, *, quick: bool) -> Iterator[Belief]:
    """SGP by M, the committees by J, CPoE (J = 32, gamma = 1/2) by C."""
    for M in (50, 100, 200) if quick else (50, 100, 200, 500, 1000):
        yield sparse_gp(problem, M)
    for J in (4, 16, 64) if quick else (2, 4, 8, 16, 32, 64):
        for belief in committees(replace(problem, n_experts=J)):
            if belief.method in COMMITTEES:
                yield replace(belief, method=f"{belief.method}({J})")
    for C in (1, 2, 4, 8) if quick else (1, 2, 3, 4, 5, 7, 9, 11, 13):
        yield run_cpoe(replace(problem, n_experts=32), f"CPoE({C})", correlation=C, sparsity=0.5)


def accuracy(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """KL, ERR, coverage and log evidence against seconds."""
    n, repeats = (1500, 1) if quick else (8192, 2)
    found: Found = defaultdict(list)
    rng = np.random.default_rng(seed)
    for r in progress(range(repeats), description="accuracy against time", total=repeats):
        problem = draw_from(KERNEL, n, 2, J=32, rng=rng, seed=seed + r)
        full = full_gp(problem)
        for other in (full, *rivals(problem, quick=quick)):
            for metric, value in scores(full, other, problem.truth).items():
                found[f"N={n}", other.method, metric].append(value)
    against_time(found, ("kl", "err", "cov", "lml"), out / "accuracy.png")
    rows = rows_of("accuracy", found)
    return Report(
        rows, (kl_falls(rows), "The paper shows Fig. 9 without numbers. Its noise variance is not stated: 0.01 here.")
    )


def line(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Fig. 2: one column, methods of about the same cost; how far each is from the full GP, and its largest jump."""
    n = 128 if quick else 256
    rng = np.random.default_rng(seed)
    kernel = ConstantKernel(1.0) * RBF(0.06)
    problem = draw_from(kernel, n, 1, J=8, rng=rng, seed=seed)
    x = np.linspace(0.0, 1.0, 1001)
    problem = replace(problem, Xs=x[:, None], truth=np.zeros(len(x)))
    full = full_gp(problem)
    others = [full, sparse_gp(problem, n // 8), *committees(problem)]
    others += [run_cpoe(problem, f"CPoE({C})", correlation=C) for C in (1, 2, 3)]
    rows = []
    for b in progress(others, description="methods on a line", total=len(others)):
        jump = float(np.max(np.abs(np.diff(b.mean))) / np.max(np.abs(np.diff(full.mean))))
        far = np.abs(b.mean - full.mean) > 1.96 * np.sqrt(b.variance)
        rows += [
            Row("line", f"N={n}", b.method, "kl", kl_to(full, b)),
            Row("line", f"N={n}", b.method, "largest jump, full GP = 1", jump),
            Row("line", f"N={n}", b.method, "share outside its own 95% of the full GP", float(np.mean(far))),
        ]
    beliefs = {b.method: (b.mean, np.sqrt(b.variance)) for b in others}
    bands(x, beliefs, (problem.X[:, 0], problem.y), out / "line.png")
    return Report(
        rows, (kl_falls(rows), f"Lengthscale 0.06, noise variance {NOISE}, J = 8; the paper states none of them.")
    )
