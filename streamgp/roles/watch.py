"""Shows what the network publishes: a line a forecast, with the running error of the station behind it."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timezone
from typing import final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from river import stats

from streamgp.errors import DecodeError
from streamgp.roles.settings import Settings
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Message, Reader
from streamgp.wire.records import Score, StationForecast, Trust

#: how long the scores that are there already may take to be read
_SCORES_S = 30.0


@final
class Board:
    """The last forecast of each station, and the running scores of each method there (physical units).

    Examples
    --------
    >>> board = Board()
    >>> board.score(Score(station="A", query_id="q", target_ms=1, method="local", y=1.0, mean=3.0, variance=1.0,
    ...                   noise_variance=1.0, error=2.0, nlpd=2.3, crps=1.2, covered=True))
    >>> board.summary("A")
    {'local': {'rmse': 2.0, 'nlpd': 2.3, 'crps': 1.2, 'coverage': 1.0}}
    """

    def __init__(self) -> None:
        self.last: dict[str, StationForecast] = {}
        self.news: set[str] = set()
        """Stations with scores that no line has shown."""
        self._means: dict[str, dict[str, dict[str, stats.Mean]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(stats.Mean))
        )

    def show(self, forecast: StationForecast) -> None:
        self.last[forecast.station] = forecast

    def score(self, score: Score) -> None:
        values = (score.error * score.error, score.nlpd, score.crps, float(score.covered))
        if not all(map(math.isfinite, values)):  # the square of a number that nobody measured
            return
        self.news.add(score.station)
        means = self._means[score.station][score.method]
        for name, value in zip(("rmse", "nlpd", "crps", "coverage"), values, strict=True):
            means[name].update(value)

    def summary(self, station: str) -> dict[str, dict[str, float]]:
        """Method -> running RMSE, NLPD, CRPS and 90% coverage."""
        told = {}
        for method, means in sorted(self._means[station].items()):
            row = {name: float(mean.get()) for name, mean in means.items()}
            told[method] = {**row, "rmse": math.sqrt(row["rmse"])}
        return told

    def line(self, station: str) -> str:
        """The running scores in words: all four of what the station chose, the error of the others."""
        told = self.summary(station)
        words = [f"{method} {row['rmse']:.3g}" for method, row in told.items() if method != "chosen"]
        if (chosen := told.get("chosen")) is not None:
            more = f"NLPD {chosen['nlpd']:.3g}, CRPS {chosen['crps']:.3g}, 90% band {chosen['coverage']:.0%}"
            words.insert(0, f"chosen {chosen['rmse']:.3g} ({more})")
        return ", ".join(words)

    def fresh(self, *, every: bool = False) -> list[str]:
        """A line for each station whose scores no line has shown, or for every station that has scores."""
        stations, self.news = sorted(self._means if every else self.news), set()
        return [
            f"{station}  scored so far, RMSE: {self.line(station)}" for station in stations if self.summary(station)
        ]


def watch(
    reader: Reader,
    settings: Settings,
    stop: threading.Event,
    console: Console,
    *,
    station: str | None = None,
    as_json: bool = False,
    limit: int | None = None,
    timeout_s: float | None = None,
    scores_first: bool = False,
) -> int:
    """Show forecasts until ``stop``, ``limit`` or ``timeout_s`` without any; returns how many were shown.

    With ``scores_first`` the scores that are there already are read before the first forecast is shown.
    """
    board, shown, heard_s = Board(), 0, time.monotonic()
    live = Live(console=console, refresh_per_second=4) if console.is_terminal and not as_json else None
    plain = live is None and not as_json
    say = _speaker(board, console, as_json=as_json, quiet=live is not None)
    try:
        if live is not None:
            live.start()
        while scores_first and not stop.is_set() and time.monotonic() - heard_s < _SCORES_S:
            for message in reader.poll(0.25, without=frozenset({settings.topic("station-forecasts")})):
                _take(board, message, settings, station)
            if reader.stats.exhausted:
                break
        heard_s = time.monotonic()
        while not stop.is_set() and (limit is None or shown < limit):
            messages = reader.poll(0.25)
            for message in messages:
                forecast = _take(board, message, settings, station)
                if forecast is not None and (limit is None or shown < limit):
                    say(forecast)
                    shown, heard_s = shown + 1, time.monotonic()
            if live is not None:
                live.update(_table(board))
            elif plain and not messages:  # nothing more waits: what the scores since the last lines say
                _print(console, board.fresh())
            if timeout_s is not None and time.monotonic() - heard_s >= timeout_s:
                break
    finally:
        if live is not None:
            live.stop()
        reader.close()
    if plain:
        _print(console, board.fresh(every=True))
    return shown


def _print(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _take(board: Board, message: Message, settings: Settings, station: str | None) -> StationForecast | None:
    """The forecast to be shown, if this is one; scores and rubbish are not shown."""
    try:
        if message.topic == settings.topic("scores"):
            score = decode(message.value, Score)
            if station in (None, score.station):
                board.score(score)
            return None
        forecast = decode(message.value, StationForecast)
    except DecodeError:
        return None
    if station is not None and forecast.station != station:
        return None
    if not forecast.mean or min(*forecast.variance, *forecast.noise_variance) < 0:
        return None
    board.show(forecast)
    return forecast


def _speaker(board: Board, console: Console, *, as_json: bool, quiet: bool) -> Callable[[StationForecast], None]:
    def say(forecast: StationForecast) -> None:
        if as_json:
            scores = json.dumps(board.summary(forecast.station))
            console.file.write(f'{encode(forecast).decode()[:-1]},"scores":{scores}}}\n')
            console.file.flush()
        elif not quiet:
            _print(console, [_line(board, forecast)])
            board.news.discard(forecast.station)

    return say


def _line(board: Board, f: StationForecast) -> str:
    points = ", ".join(
        f"{mean:.4g} ± {1.645 * math.sqrt(v + n):.2g} ({source})"
        for mean, v, n, source in zip(f.mean, f.variance, f.noise_variance, _sources(f), strict=True)
    )
    errors = board.line(f.station)
    tail = f"   RMSE: {errors}" if errors else ""
    return f"{f.station}  for {_when(f.target_ms)}: {points}, {f.status}, trimmed: {', '.join(f.trimmed) or '-'}{tail}"


def _table(board: Board) -> Table:
    table = Table()
    for name in ("station", "for", "forecast, 90%", "source", "status", "running RMSE"):
        table.add_column(name)
    for station, f in sorted(board.last.items()):
        half = 1.645 * math.sqrt(f.variance[0] + f.noise_variance[0])
        shown = f"{f.mean[0]:.4g} ± {half:.2g}"
        table.add_row(station, _when(f.target_ms), shown, _sources(f)[0], f.status, board.line(station))
    return table


def _sources(f: StationForecast) -> tuple[str, ...]:
    """Whose answer was taken, per point."""
    return ("network",) * len(f.source) if f.choice == "network" else f.source


def _when(time_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, tz=timezone.utc):%Y-%m-%d %H:%M}Z"
    except (ValueError, OverflowError, OSError):  # a year that no calendar has
        return f"{time_ms} ms"


def watch_agents(
    reader: Reader,
    stop: threading.Event,
    console: Console,
    *,
    as_json: bool = False,
    limit: int | None = None,
    timeout_s: float | None = None,
) -> int:
    """Show the cloud's record of every agent as it is published; returns how many records were shown.

    Ends at ``stop``, after ``limit`` records, or after ``timeout_s`` without any.
    """
    agents: dict[str, Trust] = {}
    live = Live(console=console, refresh_per_second=4) if console.is_terminal and not as_json else None
    shown, heard_s = 0, time.monotonic()
    try:
        if live is not None:
            live.start()
        while not stop.is_set() and (limit is None or shown < limit):
            for trust in _trusts(reader.poll(0.25)):
                agents[trust.agent] = trust
                shown, heard_s = shown + 1, time.monotonic()
                if as_json:
                    console.file.write(encode(trust).decode() + "\n")
                    console.file.flush()
            if live is not None:
                live.update(_agents(agents))
            if timeout_s is not None and time.monotonic() - heard_s >= timeout_s:
                break
    finally:
        if live is not None:
            live.stop()
        reader.close()
    if not as_json and live is None:
        console.print(_agents(agents))
    return shown


def _few(names: tuple[str, ...], most: int = 4) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) + more) or "-"


def _trusts(messages: list[Message]) -> list[Trust]:
    trusts = []
    for message in messages:
        try:
            trusts.append(decode(message.value, Trust))
        except DecodeError:  # shown to nobody; the topic is the cloud's alone
            continue
    return trusts


def _agents(agents: dict[str, Trust]) -> Table:
    table = Table(title="Being trimmed is no proof: standing goes by what the truth bore out", title_justify="left")
    for name in (
        "agent",
        "standing",
        "trimmed",
        "mean low/high",
        "variance low/high",
        "z2",
        "90% band",
        "missing",
        "refused",
        "not heard by",
    ):
        words = name in ("agent", "standing", "not heard by")
        table.add_column(name, justify="left" if words else "right", no_wrap=name in ("agent", "standing"))
    for name, t in sorted(agents.items()):
        table.add_row(
            name,
            t.standing,
            f"{t.trimmed:.0%}",
            f"{t.mean_low:.0%} / {t.mean_high:.0%}",
            f"{t.variance_low:.0%} / {t.variance_high:.0%}",
            f"{t.z2:.2f}",
            f"{t.coverage:.0%}",
            str(t.missing),
            str(sum(t.refused.values())),
            _few(t.dropped_by),
            style="red" if t.standing == "barred" else None,
        )
    return table
