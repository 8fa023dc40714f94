"""The figure of the study, and who foretells whom as a table."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from streamgp.experiments.network.rounds import Outcome
from streamgp.experiments.network.stations import SensorNetwork
from streamgp.experiments.results import Row
from streamgp.gp.gaussian import Array

_METHODS = ("persistence", "local", "trimmed", "own", "network", "var")


def weights(network: SensorNetwork, outcome: Outcome) -> Array:
    """(N, N) weight of each source (column) in each target's (row) next error; zero where it is not heard."""
    index = {name: i for i, name in enumerate(network.stations)}
    matrix = np.zeros((len(index), len(index)))
    for found in outcome.influences:
        matrix[index[found.station], index[found.source]] = found.weight
    return matrix


def write_influences(path: Path, outcomes: Mapping[str, tuple[SensorNetwork, Outcome]]) -> None:
    """Who foretells whom at the end of each run: a row per target and source."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("setting", "station", "source", "weight", "correlation", "harm", "dropped"))
        for setting, (_, outcome) in outcomes.items():
            for i in outcome.influences:
                writer.writerow((setting, i.station, i.source, i.weight, i.correlation, i.harm, int(i.dropped)))


def draw(path: Path, rows: Sequence[Row], outcomes: Mapping[str, tuple[SensorNetwork, Outcome]]) -> None:
    """RMSE over local per network and method, the attacked runs, and a matrix of who foretells whom."""
    maps = list(outcomes.items())[:1]
    figure = Figure(figsize=(15, 10), layout="constrained")
    FigureCanvasAgg(figure)
    ratio, attacked, matrix, place = figure.subplots(2, 2).ravel()
    _bars(ratio, [r for r in rows if r.metric == "ratio" and r.setting in outcomes])
    _attacks(attacked, [r for r in rows if r.metric in ("ratio", "worst") and r.setting not in outcomes])
    for setting, (network, outcome) in maps:
        _matrix(matrix, setting, network, weights(network, outcome))
        _map(place, network, weights(network, outcome))
    figure.savefig(path, dpi=120)


def _bars(axis: Any, rows: Sequence[Row]) -> None:
    settings = list(dict.fromkeys(r.setting for r in rows))
    for k, method in enumerate(_METHODS):
        found = {r.setting: r.ours for r in rows if r.method == method}
        at = [settings.index(s) + 0.13 * (k - 2.5) for s in found]
        axis.bar(at, [min(v, 1.3) - 0.7 for v in found.values()], 0.13, bottom=0.7, label=method)
    axis.axhline(1.0, color="black", linewidth=0.8)
    axis.set_xticks(range(len(settings)), settings, rotation=20, ha="right", fontsize=8)
    axis.set_ylabel("RMSE over local (cut at 1.3)")
    axis.set_title("What each method makes of the local forecast")
    axis.legend(ncols=3, fontsize=8)


def _attacks(axis: Any, rows: Sequence[Row]) -> None:
    settings = list(dict.fromkeys(r.setting for r in rows))
    for metric, marker in (("ratio", "o"), ("worst", "x")):
        found = {r.setting: r.ours for r in rows if r.metric == metric}
        axis.plot(list(found.values()), [settings.index(s) for s in found], marker, label=metric)
    axis.axvline(1.0, color="black", linewidth=0.8)
    axis.axvline(1.01, color="firebrick", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(settings)), settings, fontsize=7)
    axis.set_xlabel("RMSE of the honest over local")
    axis.set_title("Some lie")
    axis.legend(fontsize=8)


def _matrix(axis: Any, setting: str, network: SensorNetwork, W: Array) -> None:
    top = max(float(np.abs(W).max()), 1e-9)
    image = axis.imshow(W, cmap="RdBu_r", vmin=-top, vmax=top)
    names = list(network.stations)
    axis.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axis.set_yticks(range(len(names)), names, fontsize=7)
    axis.set_xlabel("whose last error")
    axis.set_ylabel("whose next error")
    axis.set_title(f"Who foretells whom: {setting}")
    axis.figure.colorbar(image, ax=axis, shrink=0.8, label="weight")


def _map(axis: Any, network: SensorNetwork, W: Array) -> None:
    """Arrows from source to target, as wide as the weight, where stations have places."""
    if not set(network.stations) <= set(network.places):
        axis.set_axis_off()
        return
    at = np.array([network.places[name] for name in network.stations])
    top = max(float(np.abs(W).max()), 1e-9)
    for i, j in zip(*np.nonzero(np.abs(W) > 0.25 * top), strict=True):
        colour = "firebrick" if W[i, j] > 0 else "steelblue"
        axis.annotate(
            "", xy=(at[i, 1], at[i, 0]), xytext=(at[j, 1], at[j, 0]),
            arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 3.0 * abs(W[i, j]) / top, "shrinkB": 8},
        )  # fmt: skip
    axis.plot(at[:, 1], at[:, 0], "ko", markersize=4)
    for name, (lat, lon) in zip(network.stations, at.tolist(), strict=True):
        axis.text(lon, lat, f" {name}", fontsize=8)
    axis.set_aspect(1.0 / np.cos(np.radians(float(at[:, 0].mean()))))
    axis.set_xlabel("longitude")
    axis.set_ylabel("latitude")
    axis.set_title("The strongest of them on the map (red: same sign)")
