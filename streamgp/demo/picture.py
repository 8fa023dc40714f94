"""The run as a picture: one station's week with its 90% band, and the running error of every method."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from streamgp.demo.labels import LABELS
from streamgp.demo.tally import Tally
from streamgp.wire.records import Score

#: matplotlib counts dates in days since 1970
_DAY_MS = 86_400_000
_Z90 = 1.6448536269514722
_COLOURS = {
    "persistence": "0.6",
    "local": "tab:blue",
    "cloud_untrimmed": "tab:red",
    "cloud_trimmed": "tab:green",
    "chosen": "tab:orange",
    "network": "tab:purple",
}


def draw(tally: Tally, path: Path, *, unit: str, attack_from_ms: int | None, week: int = 7) -> None:
    """Write the picture as a PNG.

    Parameters
    ----------
    tally
        Of the finished run.
    path
        Where to; the folder exists.
    attack_from_ms
        Event time at which the lying began; marked in the running error.
    week
        How many forecasts in a row are shown, of the station that the choice helped most: those in which the
        cloud changed most.
    """
    figure = Figure(figsize=(11, 10), layout="constrained")
    above, middle, below = figure.subplots(3, 1, height_ratios=(3, 2, 2))
    station = _most_helped(tally)
    if station is not None:
        _week(above, _liveliest(list(tally.rows[station]), week), station, unit)
    believed = [m for m in tally.curve if m != "cloud_untrimmed"]
    _running(middle, tally, believed, attack_from_ms, "Honest stations: the error of each method so far")
    _running(below, tally, list(tally.curve), attack_from_ms, "The same, with what would have been believed untrimmed")
    if any(error > 0 for points in tally.curve.values() for _, error in points):
        below.set_yscale("log")
    figure.savefig(path, dpi=130)


def _liveliest(rows: list[dict[str, Score]], week: int) -> list[dict[str, Score]]:
    """The ``week`` scores in a row in which chosen and local differ most."""
    moved = np.array([abs(r["chosen"].mean - r["local"].mean) for r in rows])
    if len(rows) <= week:
        return rows
    at = int(np.argmax(np.convolve(moved, np.ones(week), mode="valid")))
    return rows[at : at + week]


def _most_helped(tally: Tally) -> str | None:
    def ratio(station: str) -> float:
        means = tally.by_station[station]
        local = float(means["local"].squared.get())
        return float(means["chosen"].squared.get()) / local if local > 0 else math.inf

    return min(sorted(tally.rows), key=ratio, default=None)


def _week(axes: Axes, rows: list[dict[str, Score]], station: str, unit: str) -> None:
    times = [_when(r["local"].target_ms) for r in rows]
    for method, marker, offset in (("local", "o", 0.15), ("chosen", "s", 0.3)):
        scores = [r[method] for r in rows]
        mean = np.array([s.mean for s in scores])
        half = _Z90 * np.sqrt([s.variance + s.noise_variance for s in scores])
        x = np.arange(len(rows)) + offset
        axes.errorbar(x, mean, half, fmt=marker, capsize=4, label=f"{LABELS[method]}, 90% band", color=_COLOURS[method])
    axes.plot(np.arange(len(rows)), [r["local"].y for r in rows], "k*", markersize=11, label="observed")
    axes.set_xticks(np.arange(len(rows)), [f"{t:%d %b %Y}" for t in times])
    axes.set_ylabel(unit)
    axes.set_title(f"{station}: {len(rows)} forecasts in a row, each made one step ahead")
    _room_for_legend(axes)
    axes.legend(loc="upper left", ncols=3)


def _room_for_legend(axes: Axes) -> None:
    """A quarter of the height more above the highest band."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.25 * (high - low))


def _running(axes: Axes, tally: Tally, methods: list[str], attack_from_ms: int | None, title: str) -> None:
    for method in methods:
        points = tally.curve[method]
        times = [t / _DAY_MS for t, _ in points]
        # chosen is often the network's forecast: both are seen where one line is dashed and on top
        style: dict[str, Any] = {"linestyle": "--", "zorder": 3} if method == "network" else {}
        axes.plot(times, [e for _, e in points], label=LABELS[method], color=_COLOURS[method], **style)
    axes.xaxis_date()
    if attack_from_ms is not None:
        at = attack_from_ms / _DAY_MS
        axes.axvline(at, color="k", linestyle="--", linewidth=1)
        axes.annotate(" the lying begins", (at, 0.97), xycoords=("data", "axes fraction"), va="top")
    axes.set_ylabel("RMSE, standardised")
    axes.set_title(title)
    axes.legend(ncols=5, fontsize="small")


def _when(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, tz=timezone.utc)
