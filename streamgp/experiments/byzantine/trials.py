"""Numbers of many repetitions, gathered into rows and curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, final

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Row
from streamgp.gp.gaussian import Array

REPETITIONS = 50  # as in the paper
QUICK_REPETITIONS = 5


def repetitions(quick: bool, seed: int, progress: Progress, what: str) -> Iterator[tuple[int, np.random.Generator]]:
    """Numbered repetitions, each with dice of its own: ``default_rng([seed, number])``."""
    count = QUICK_REPETITIONS if quick else REPETITIONS
    with threadpool_limits(limits=1, user_api="blas"):  # the matrices are small: threads would only wait
        for number in progress(range(count), description=what, total=count):
            yield number, np.random.default_rng([seed, number])


def mse(mean: Array, truth: Array) -> float:
    """Mean squared error."""
    return float(np.mean((mean - truth) ** 2))


@final
class Trials:
    """Values by setting, method and metric, one a repetition.

    Examples
    --------
    >>> trials = Trials("toy")
    >>> for value in (1.0, 3.0):
    ...     trials.add("n=40", "trimmed", value)
    >>> trials.rows()[0].ours, trials.rows()[0].spread
    (2.0, 1.0)
    """

    def __init__(self, study: str) -> None:
        self.study = study
        self._values: dict[tuple[str, str, str], list[float]] = {}

    def add(self, setting: str, method: str, value: float, *, metric: str = "mse") -> None:
        """One value of one repetition."""
        self._values.setdefault((setting, method, metric), []).append(value)

    def mean(self, setting: str, method: str, *, metric: str = "mse") -> float:
        """Mean over the repetitions."""
        return float(np.mean(self._values[setting, method, metric]))

    def rows(self, paper: Mapping[tuple[str, str], float] | None = None) -> list[Row]:
        """A row for each setting, method and metric in the order they came; ``paper`` by setting and method."""
        known = paper or {}
        return [
            Row(
                self.study,
                setting,
                method,
                metric,
                ours=float(np.mean(values)),
                spread=float(np.std(values)) if len(values) > 1 else None,
                paper=known.get((setting, method)) if metric == "mse" else None,
            )
            for (setting, method, metric), values in self._values.items()
        ]

    def curve(self, settings: Sequence[str], method: str, *, metric: str = "mse") -> list[float]:
        """Means of one method over settings, for a figure."""
        return [self.mean(setting, method, metric=metric) for setting in settings]


#: (title, label of x, x, name -> y)
Panel: TypeAlias = tuple[str, str, Sequence[float], Mapping[str, Sequence[float]]]


def draw(
    path: Path,
    panels: Sequence[Panel],
    *,
    ylabel: str = "mean squared error",
    log_y: bool = True,
    log_x: bool = False,
) -> None:
    """Curves side by side."""
    figure = Figure(figsize=(4.8 * len(panels), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, xlabel, x, curves) in zip(axes, panels, strict=True):
        for name, y in curves.items():
            axis.plot(x, y, marker="o", markersize=3, label=name)
        axis.set(title=title, xlabel=xlabel, ylabel=ylabel)
        if log_y:
            axis.set_yscale("log")
        if log_x:
            axis.set_xscale("log")
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=120)
