"""Figs 11 and 12: how hyperparameters converge, by C, and stochastic against deterministic."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from streamgp.experiments.cpoe.falling import kl_falls
from streamgp.experiments.cpoe.methods import Problem, full_gp, run_cpoe
from streamgp.experiments.cpoe.plots import traces
from streamgp.experiments.cpoe.scores import scores
from streamgp.experiments.cpoe.synthetic import Found, draw, rows_of
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report, Row
from streamgp.experiments.tables import table
from streamgp.gp.gaussian import Array
from streamgp.gp.kernels import compile_kernel
from streamgp.gp.projections import Approximation
from streamgp.models.cpoe.experts_data import Experts
from streamgp.models.cpoe.graph import parts_of
from streamgp.models.cpoe.layout import arrange
from streamgp.models.cpoe.training import Evaluate, Hyper, ascend, bounds, graph_evidence, maximise

Trace = list[tuple[float, float]]  # seconds, log evidence


def start(d: int) -> Hyper:
    """All hyperparameters 1 (A.6.2)."""
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(np.ones(d), (1e-3, 1e3))
    return Hyper(compile_kernel(kernel), 1.0, Approximation("fitc"))


def experts(X: Array, y: Array, J: int, C: int, *, seed: int) -> tuple[Experts, Evaluate]:
    """Experts that keep all their rows, and their evidence."""
    layout = arrange(
        X,
        np.ones(X.shape[1]),
        n_experts=J,
        correlation=C,
        sparsity=1.0,
        predecessors="clique",
        rng=np.random.default_rng(seed),
    )
    data = layout.experts(X, y[:, None], exact=True)
    return data, graph_evidence(data, *parts_of(layout.predecessors))


def climb(evaluate: Evaluate, X: Array, y: Array, *, iterations: int) -> tuple[Hyper, Trace]:
    """L-BFGS-B from all ones, with every evaluation."""
    trace: Trace = []
    begun = time.process_time()

    def watched(hyper: Hyper) -> tuple[float, Array]:
        value, gradient = evaluate(hyper)
        trace.append((time.process_time() - begun, value))
        return value, gradient

    first = start(X.shape[1])
    done = maximise(watched, first, log_bounds=bounds(first, y), max_iter=iterations, prior=None)
    return done.hyper, trace


def deterministic(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Fig. 11: log evidence, KL, coverage and hyperparameters by C, against the full GP's."""
    n, J, repeats = (512, 8, 1) if quick else (2048, 16, 3)
    degrees = (1, 2, 4, 7) if quick else (1, 2, 3, 4, 5, 6, 7)
    found: Found = defaultdict(list)
    lines: dict[str, tuple[list[float], list[float]]] = {}
    rng = np.random.default_rng(seed)
    for r in range(repeats):
        drawn = draw(n, 2, J=J, length=0.2, rng=rng, seed=seed + r)
        best = learned(drawn, J, J, iterations=60, lines=lines)
        full = full_gp(best)
        theta = np.append(best.kernel.theta, np.log(best.noise))
        for C in progress(degrees, description="convergence by C", total=len(degrees)):
            mine = learned(drawn, J, C, iterations=60, lines=lines)
            other = run_cpoe(mine, f"CPoE({C})", correlation=C)
            gap = float(np.max(np.abs(np.append(mine.kernel.theta, np.log(mine.noise)) - theta)))
            for metric, value in scores(full, other, drawn.truth).items():
                found[f"J={J}", other.method, metric].append(value)
            found[f"J={J}", other.method, "lml below the full GP's"].append(full.evidence - other.evidence)
            found[f"J={J}", other.method, "largest gap of log hyperparameters"].append(gap)
    traces(lines, x="evaluations", y="log evidence", path=out / "deterministic.png")
    rows = rows_of("deterministic", found)
    return Report(
        rows,
        (
            kl_falls(rows),
            "The paper shows Fig. 11 without numbers; each C learns its own hyperparameters from all ones.",
        ),
    )


def learned(
    drawn: Problem, J: int, C: int, *, iterations: int, lines: dict[str, tuple[list[float], list[float]]]
) -> Problem:
    """The problem at the hyperparameters that C leads to; C = J is the full GP."""
    _, evaluate = experts(drawn.X, drawn.y, J, C, seed=drawn.seed)
    hyper, trace = climb(evaluate, drawn.X, drawn.y, iterations=iterations)
    name = "full GP" if C == J else f"C={C}"
    lines[name] = (list(map(float, range(len(trace)))), [v for _, v in trace])
    return replace(drawn, kernel=hyper.kernel.kernel, noise=hyper.noise_variance)


def stochastic(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Fig. 12: cadata, C = 2: Adam over experts (A.3.2) and L-BFGS-B on (8), both scored by (8)."""
    data = table("cadata")
    n, J = (1500, 6) if quick else (19640, 64)
    rows = np.random.default_rng(seed).permutation(len(data.X))[:n]
    X, y = data.X[rows], data.y[rows]
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    parts, evaluate = experts(X, y, J, 2, seed=seed)
    best, trace = climb(evaluate, X, y, iterations=10 if quick else 30)
    epochs: list[tuple[float, Hyper]] = []
    begun = time.process_time()
    first = start(X.shape[1])
    ascend(
        parts,
        first,
        log_bounds=bounds(first, y),
        epochs=15,
        prior=None,
        rng=np.random.default_rng(seed),
        watch=lambda epoch, total, hyper: epochs.append((time.process_time() - begun, hyper)),
    )
    values = [(t, evaluate(h)[0]) for t, h in progress(epochs, description="stochastic epochs", total=len(epochs))]
    lines = {
        name: ([t for t, _ in line], [v for _, v in line]) for name, line in (("L-BFGS-B", trace), ("Adam", values))
    }
    traces(lines, x="CPU seconds", y="log evidence (8)", path=out / "stochastic.png")
    gap = float(np.max(np.abs(epochs[-1][1].vector - best.vector)))
    found = {
        ("L-BFGS-B", "lml"): max(v for _, v in trace),
        ("L-BFGS-B", "cpu seconds"): trace[-1][0],
        ("L-BFGS-B", "evaluations"): float(len(trace)),
        ("Adam", "lml"): values[-1][1],
        ("Adam", "cpu seconds"): epochs[-1][0],
        ("Adam", "epochs"): float(len(epochs)),
        ("Adam", "largest gap of log hyperparameters"): gap,
    }
    return Report(
        [Row("stochastic", f"N={n} J={J} C=2", method, metric, value) for (method, metric), value in found.items()],
        ("The paper shows Fig. 12 without numbers. Learning rate 0.03, one expert a step, stop at 1% a epoch.",),
    )
