"""Zones of Beijing's twelve stations from what was fitted of each, and from the operator of pFedHGP 3.8.2 (5.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering, SpectralClustering
from sklearn.metrics import adjusted_rand_score

from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report, Row
from streamgp.experiments.tables import find_file, read_columns
from streamgp.gp.gaussian import Array
from streamgp.models.hierarchical import HierarchicalGP

#: station -> zone of 5.2 and about where it stands (degrees north, east)
STATIONS = {
    "Aotizhongxin": ("urban", 39.98, 116.40),
    "Changping": ("west", 40.22, 116.23),
    "Dingling": ("west", 40.29, 116.22),
    "Dongsi": ("urban", 39.93, 116.42),
    "Guanyuan": ("urban", 39.93, 116.34),
    "Gucheng": ("urban", 39.91, 116.18),
    "Huairou": ("east", 40.33, 116.63),
    "Nongzhanguan": ("urban", 39.94, 116.46),
    "Shunyi": ("east", 40.13, 116.66),
    "Tiantan": ("urban", 39.89, 116.41),
    "Wanliu": ("urban", 39.99, 116.29),
    "Wanshouxigong": ("urban", 39.88, 116.35),
}
YEAR, HOURS = 2013, (2, 14)
N_ZONES = 3
PAPER = "M = 30, 12 as in the paper"
#: what the table calls it -> how the model is fitted; the second has as many inducing inputs as there are times
SETTINGS: dict[str, dict[str, Any]] = {
    PAPER: {"n_global": 30, "n_local": 12, "n_starts": 1, "max_iter": 100},
    "every time an inducing input": {"n_global": 1000, "n_local": 1000, "n_starts": 2, "max_iter": 60},
}
#: how it is fitted where ``quick``
QUICK: dict[str, Any] = {"n_starts": 1, "max_iter": 40}
RULES = ("average linkage", "spectral")
#: scikit-learn's spectral clustering ends in k-means from random centres: so many seeds are shown
SEEDS = 10


def readings() -> tuple[tuple[str, ...], list[Array], list[Array]]:
    """Names, days since the year began (n, 1) and standardised log PM2.5 (n, 1), NaN where missing, a station."""
    columns = read_columns(find_file("beijing_air_quality.parquet"))
    time = columns["time"].astype("datetime64[h]")
    hours = time.astype(np.int64) % 24
    mine = (time.astype("datetime64[Y]").astype(int) + 1970 == YEAR) & np.isin(hours, HOURS)
    days = (time - np.datetime64(f"{YEAR}-01-01")).astype(np.float64) / 24.0
    logs = np.log(columns["PM2.5"].astype(np.float64))
    mean, std = np.nanmean(logs[mine]), np.nanstd(logs[mine])
    at = {name: np.flatnonzero(mine & (columns["station"] == name)) for name in STATIONS}
    Xs = [days[rows][:, None] for rows in at.values()]
    return tuple(STATIONS), Xs, [((logs[rows] - mean) / std)[:, None] for rows in at.values()]


def fitted(setting: str, *, seed: int, quick: bool = False) -> HierarchicalGP:
    """The scalar model as :data:`SETTINGS` says, a residual kernel a station; the bound alone chooses."""
    _, Xs, Ys = readings()
    ranks: dict[str, Any] = {f"rank_{layer}": 1 for layer in ("global", "deviation", "local")}
    settings = SETTINGS[setting] | (QUICK if quick else {})
    return HierarchicalGP(budget="fixed", kernels="own", random_state=seed, **ranks, **settings).fit(Xs, Ys)


def found_zones(distances: Array, rule: str, *, seed: int = 0) -> NDArray[np.intp]:
    """(T,) zones by average linkage, or by spectral clustering of exp(-(d / median)^2), k-means from ``seed``."""
    T = len(distances)
    if rule == "average linkage":
        linked = AgglomerativeClustering(N_ZONES, metric="precomputed", linkage="average")
        return np.asarray(linked.fit_predict(distances))
    middle = float(np.median(distances[~np.eye(T, dtype=bool)]))
    # no two stations are quite unlike: spectral clustering wants a connected graph
    alike = np.maximum(np.exp(-np.square(distances / (middle if middle > 0.0 else 1.0))), 1e-6)
    return np.asarray(SpectralClustering(N_ZONES, affinity="precomputed", random_state=seed).fit_predict(alike))


def raw_distances(Ys: list[Array]) -> Array:
    """1 - correlation of the logged readings themselves, times with a gap left out: what a good fit must reach."""
    Y = np.hstack(Ys)
    return np.asarray(1.0 - np.corrcoef(Y[np.isfinite(Y).all(axis=1)].T))


def agreement(distances: Array) -> dict[str, list[float]]:
    """Adjusted Rand indices of the zones found with those of 5.2, by clustering rule: one, or one a seed."""
    true = [zone for zone, *_ in STATIONS.values()]
    seeds = {"average linkage": range(1), "spectral": range(SEEDS)}
    return {
        rule: [float(adjusted_rand_score(true, found_zones(distances, rule, seed=seed))) for seed in seeds[rule]]
        for rule in RULES
    }


def study(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Adjusted Rand index by distance and clustering rule, with a map, the distances and the fitted own parts drawn.

    ``quick`` fits with every time an inducing input alone, from one start.
    """
    names, Xs, Ys = readings()
    rows = _rows("readings", "1 - correlation", raw_distances(Ys))
    settings = list(SETTINGS)[1:] if quick else list(SETTINGS)
    for setting in progress(settings, description="zones", total=len(settings)):
        model = fitted(setting, seed=seed, quick=quick)
        told = {
            "log evidence, or its bound": model.lower_bound_,
            "lengthscale, days": float(model.lengthscales_[0, 0]),
            "phi": model.phi_,
            "noise variance": model.noise_variance_,
        }
        rows += [Row("zones", setting, "fit", metric, value) for metric, value in told.items()]
        made = {kind: model.client_distances(kind) for kind in ("components", "correlation", "operator")}
        for kind, distances in made.items():
            rows += _rows(setting, kind, distances, paper=1.0 if (kind, setting) == ("operator", PAPER) else None)
        if setting == settings[-1]:
            zones = found_zones(made["components"], "spectral")
            _draw_map(names, zones, made["components"], out / "zones.png")
            _draw_own(model, names, zones, Xs[0], out / "zones-own.png")
    notes = [
        "Zones of 5.2: eight urban stations; Changping, Dingling; Huairou, Shunyi. No fit is told of them.",
        f"Spectral: mean and spread over {SEEDS} seeds of its k-means.",
    ]
    return Report(rows, notes)


def _rows(setting: str, kind: str, distances: Array, *, paper: float | None = None) -> list[Row]:
    """The table's rows of one distance; the paper's number stands beside the paper's rule."""
    return [
        Row(
            "zones",
            setting,
            f"{kind}, {rule}",
            "adjusted Rand index",
            float(np.mean(found)),
            float(np.std(found)) if len(found) > 1 else None,
            paper=paper if rule == "spectral" else None,
        )
        for rule, found in agreement(distances).items()
    ]


def _draw_map(names: tuple[str, ...], zones: NDArray[np.intp], distances: Array, path: Path) -> None:
    """Where the stations stand, coloured by the zone found (Figs. 7 and 8), and their distances, zone by zone."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    axes, matrix = figure.subplots(1, 2)
    for name, zone in zip(names, zones, strict=True):
        true, north, east = STATIONS[name]
        axes.plot(east, north, {"urban": "o", "west": "^", "east": "s"}[true], color=f"C{zone}", markersize=9)
        axes.annotate(name, (east, north), textcoords="offset points", xytext=(6, 4), fontsize="x-small")
    axes.set(xlabel="degrees east", ylabel="degrees north", title="colour: zone found; shape: zone of the paper")
    order = np.argsort(zones, kind="stable")
    shown = matrix.imshow(distances[np.ix_(order, order)], cmap="viridis")
    matrix.set_xticks(range(len(names)), [names[i] for i in order], rotation=90, fontsize="x-small")
    matrix.set_yticks(range(len(names)), [names[i] for i in order], fontsize="x-small")
    figure.colorbar(shown, ax=matrix, label="root mean square difference of own parts")
    figure.savefig(path, dpi=120)


def _draw_own(model: HierarchicalGP, names: tuple[str, ...], zones: NDArray[np.intp], X: Array, path: Path) -> None:
    """The shared layer, and every station's own part (deviation and residual), coloured by the zone found."""
    figure = Figure(figsize=(10, 9), layout="constrained")
    top, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 3])
    top.plot(X[:, 0], model.components(0, X)["global"][:, 0], color="black", lw=0.7)
    top.set_ylabel("shared")
    for at, i in enumerate(np.argsort(zones, kind="stable")):
        parts = model.components(int(i), X)
        own = parts["deviation"][:, 0] + parts["local"][:, 0]
        below.plot(X[:, 0], own + 2.0 * at, color=f"C{zones[i]}", lw=0.7)
        below.annotate(names[i], (X[-1, 0], 2.0 * at), fontsize="x-small")
    below.set(xlabel="day of the year", ylabel="own parts, two apart")
    figure.savefig(path, dpi=120)
