"""The studies' figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from streamgp.experiments.cpoe.synthetic import Found
from streamgp.gp.gaussian import Array


def by_setting(found: Found, settings: Sequence[str], metric: str, path: Path) -> None:
    """A metric of every method, a column a setting."""
    with mpl.rc_context({"font.size": 8}):
        figure = Figure(figsize=(8, 4), layout="constrained")
        axes = figure.subplots()
        for method in dict.fromkeys(m for _, m, _ in found):
            values = [float(np.mean(found.get((s, method, metric), [np.nan]))) for s in settings]
            axes.plot(values, "o-", label=method, markersize=3)
        axes.set_xticks(range(len(settings)), settings)
        axes.set_ylabel(metric)
        axes.legend()
        figure.savefig(path, dpi=120)


def against_time(found: Found, metrics: Sequence[str], path: Path) -> None:
    """Metrics of families of methods (the name before its bracket) against seconds."""
    families: dict[str, list[tuple[str, str]]] = {}
    for setting, method, metric in found:
        if metric == metrics[0]:
            families.setdefault(method.split("(")[0], []).append((setting, method))
    with mpl.rc_context({"font.size": 8}):
        figure = Figure(figsize=(4 * len(metrics), 3.5), layout="constrained")
        for axes, metric in zip(figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
            for family, members in families.items():
                x = [float(np.mean(found[s, m, "seconds"])) for s, m in members]
                axes.plot(
                    x, [float(np.mean(found[s, m, metric])) for s, m in members], "o-", label=family, markersize=3
                )
            axes.set_xscale("log")
            if metric in ("kl", "err"):
                axes.set_yscale("log")
            axes.set_xlabel("seconds")
            axes.set_ylabel(metric)
        axes.legend()
        figure.savefig(path, dpi=120)


def traces(lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, x: str, y: str, path: Path) -> None:
    """One line a name."""
    with mpl.rc_context({"font.size": 8}):
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        for name, (xs, ys) in lines.items():
            axes.plot(xs, ys, label=name)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.legend()
        figure.savefig(path, dpi=120)


def bands(x: Array, beliefs: Mapping[str, tuple[Array, Array]], rows: tuple[Array, Array], path: Path) -> None:
    """Mean and 95% interval of every method on a line, with the rows learned."""
    with mpl.rc_context({"font.size": 7}):
        figure = Figure(figsize=(10, 5), layout="constrained")
        panels = figure.subplots(2, -(-len(beliefs) // 2), squeeze=False, sharex=True, sharey=True).ravel()
        for axes, (name, (mean, sd)) in zip(panels, beliefs.items(), strict=False):
            axes.plot(*rows, ".", color="0.7", markersize=2)
            axes.plot(x, mean)
            axes.fill_between(x, mean - 1.96 * sd, mean + 1.96 * sd, alpha=0.3)
            axes.set_title(name)
        figure.savefig(path, dpi=120)
