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
#: inducing inputs of 5.2
N_GLOBAL, N_LOCAL = 30, 12
#: what the table calls it -> how the model is fitted
SETTINGS: dict[str, dict[str, Any]] = {
    "M = 30, 12 as in the paper": {"budget": "fixed", "max_iter": 100},
    "M chosen by the bound": {"budget": "elbo", "max_iter": 30},
}
RULES = ("average linkage", "spectral")


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


def fitted(setting: str, *, seed: int) -> HierarchicalGP:
    """The scalar model on all stations, as :data:`SETTINGS` says."""
    _, Xs, Ys = readings()
    model = HierarchicalGP(
        n_global=N_GLOBAL,
        n_local=N_LOCAL,
        rank_global=1,
        rank_deviation=1,
        rank_local=1,
        n_starts=1,
        random_state=seed,
        **SETTINGS[setting],
    )
    return model.fit(Xs, Ys)


def found_zones(distances: Array, rule: str) -> NDArray[np.intp]:
    """(T,) zones by average linkage, or by spectral clustering of exp(-(d / median)^2) as in 5.2."""
    T = len(distances)
    if rule == "average linkage":
        linked = AgglomerativeClustering(N_ZONES, metric="precomputed", linkage="average")
        return np.asarray(linked.fit_predict(distances))
    middle = float(np.median(distances[~np.eye(T, dtype=bool)]))
    # no two stations are quite unlike: spectral clustering wants a connected graph
    alike = np.maximum(np.exp(-np.square(distances / (middle if middle > 0.0 else 1.0))), 1e-6)
    spectral = SpectralClustering(N_ZONES, affinity="precomputed", random_state=0)
    return np.asarray(spectral.fit_predict(alike))


def raw_distances(Ys: list[Array]) -> Array:
    """1 - correlation of the logged readings themselves, times with a gap left out: what a good fit must reach."""
    Y = np.hstack(Ys)
    return np.asarray(1.0 - np.corrcoef(Y[np.isfinite(Y).all(axis=1)].T))


def agreement(distances: Array) -> dict[str, float]:
    """Adjusted Rand index of the zones found with those of 5.2, by clustering rule."""
    true = [zone for zone, *_ in STATIONS.values()]
    return {rule: float(adjusted_rand_score(true, found_zones(distances, rule))) for rule in RULES}


def study(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Adjusted Rand index by distance and clustering rule, with a map and the fitted deviations drawn.

    One fit a setting, of minutes each where the bound chooses M; ``quick`` leaves these out.
    """
    names, Xs, Ys = readings()
    rows = [
        Row("zones", "readings", f"1 - correlation, {rule}", "adjusted Rand index", ari)
        for rule, ari in agreement(raw_distances(Ys)).items()
    ]
    settings = list(SETTINGS)[:1] if quick else list(SETTINGS)
    for setting in progress(settings, description="zones", total=len(settings)):
        model = fitted(setting, seed=seed)
        made = {kind: model.client_distances(kind) for kind in ("correlation", "components", "operator")}
        for kind, distances in made.items():
            for rule, ari in agreement(distances).items():
                paper = 1.0 if kind == "operator" and rule == "spectral" and setting == settings[0] else None
                rows.append(Row("zones", setting, f"{kind}, {rule}", "adjusted Rand index", ari, paper=paper))
        if setting == settings[-1]:
            zones = found_zones(made["correlation"], "average linkage")
            _draw_map(names, zones, out / "zones.png")
            _draw_deviations(model, names, zones, Xs[0], out / "zones-deviations.png")
    return Report(rows, ["Zones of 5.2: eight urban stations; Changping, Dingling; Huairou, Shunyi."])


def _draw_map(names: tuple[str, ...], zones: NDArray[np.intp], path: Path) -> None:
    """Where the stations stand, coloured by the zone found (Figs. 7 and 8)."""
    figure = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    for name, zone in zip(names, zones, strict=True):
        true, north, east = STATIONS[name]
        axes.plot(east, north, {"urban": "o", "west": "^", "east": "s"}[true], color=f"C{zone}", markersize=9)
        axes.annotate(name, (east, north), textcoords="offset points", xytext=(6, 4), fontsize="x-small")
    axes.set(xlabel="degrees east", ylabel="degrees north", title="colour: zone found; shape: zone of the paper")
    figure.savefig(path, dpi=120)


def _draw_deviations(
    model: HierarchicalGP, names: tuple[str, ...], zones: NDArray[np.intp], X: Array, path: Path
) -> None:
    """The shared layer, and every station's deviation from it, coloured by the zone found."""
    figure = Figure(figsize=(10, 9), layout="constrained")
    top, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 3])
    top.plot(X[:, 0], model.components(0, X)["global"][:, 0], color="black", lw=0.7)
    top.set_ylabel("shared")
    for at, i in enumerate(np.argsort(zones, kind="stable")):
        below.plot(X[:, 0], model.components(int(i), X)["deviation"][:, 0] + 2.0 * at, color=f"C{zones[i]}", lw=0.7)
        below.annotate(names[i], (X[-1, 0], 2.0 * at), fontsize="x-small")
    below.set(xlabel="day of the year", ylabel="deviations, two apart")
    figure.savefig(path, dpi=120)
