"""What is shown while a run goes on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone

from rich.console import Console
from rich.live import Live
from rich.table import Table

from streamgp.demo.labels import LABELS
from streamgp.demo.tally import Tally

#: seconds between two looks at the tally
TERMINAL_S, PLAIN_S = 0.25, 5.0


@contextmanager
def viewing(console: Console, *, total: int, unit: str) -> Iterator[Callable[[Tally], None]]:
    """A function to call with the tally as often as one likes: it shows it when it is time to.

    Parameters
    ----------
    total
        Observations that will be sent in all.
    """
    started = time.monotonic()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield _every(TERMINAL_S, lambda tally: live.update(_table(tally, total, unit)))
    else:
        yield _every(PLAIN_S, lambda tally: console.print(_line(tally, time.monotonic() - started), soft_wrap=True))


def _every(seconds: float, show: Callable[[Tally], None]) -> Callable[[Tally], None]:
    shown = time.monotonic()

    def tick(tally: Tally) -> None:
        nonlocal shown
        if time.monotonic() - shown >= seconds:
            shown = time.monotonic()
            show(tally)

    return tick


def _day(time_ms: int | None) -> str:
    return "-" if time_ms is None else f"{datetime.fromtimestamp(time_ms / 1000, tz=timezone.utc):%Y-%m-%d}"


def _rmse(tally: Tally, method: str) -> str:
    mean = tally.means[method].squared
    return f"{math.sqrt(mean.get()):.3f}" if mean.n else "-"


def _line(tally: Tally, seconds: float) -> str:
    errors = ", ".join(
        f"{LABELS[m].replace(',', '')} {_rmse(tally, m)}"
        for m in ("local", "cloud_untrimmed", "cloud_trimmed", "network", "chosen")
    )
    return f"{seconds:5.0f} s  {_day(tally.now_ms)}  {tally.forecasts:,} forecasts  running RMSE: {errors}"


def _table(tally: Tally, total: int, unit: str) -> Table:
    table = Table(
        title=f"{_day(tally.now_ms)}   {tally.forecasts:,} forecasts of about {total:,}", title_justify="left"
    )
    for name in ("station", f"last, {unit}", "forecast, 90%", "running RMSE: local", "chosen"):
        table.add_column(name, justify="left" if name == "station" else "right")
    for station in sorted(tally.last):
        lies = station in tally.liars
        shown = tally.shown.get(station)
        forecast = "-"
        if shown is not None:
            half = 1.645 * math.sqrt(shown.variance[0] + shown.noise_variance[0])
            forecast = f"{shown.mean[0]:.1f} ± {half:.1f}"
        means = tally.by_station[station]
        local, chosen = (
            f"{math.sqrt(means[m].squared.get()):.3f}" if means[m].squared.n else "-" for m in ("local", "chosen")
        )
        name = f"{station} (lies)" if lies else station
        table.add_row(name, f"{tally.last[station][1]:.1f}", forecast, local, chosen, style="red" if lies else None)
    return table
