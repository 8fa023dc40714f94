"""What a run amounts to: running errors per method, and who was trimmed how often."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict, deque
from typing import final

from river import stats

from streamgp.roles.scorer import METHODS
from streamgp.wire.codec import decode
from streamgp.wire.log import Message, Outgoing, Partition
from streamgp.wire.records import Forecast, Observation, Score, StationForecast


class Means:
    """One method's scores in standardised units; its means are exactly rounded, in whatever order scores come."""

    def __init__(self) -> None:
        self.squared = stats.Mean()
        self._columns: dict[str, array[float]] = {n: array("d") for n in ("rmse", "nlpd", "crps", "coverage")}

    def update(self, score: Score) -> None:
        scale = score.scale or 1.0
        squared = (score.error / scale) ** 2
        self.squared.update(squared)
        row = (squared, score.nlpd - math.log(scale), score.crps / scale, float(score.covered))
        for column, value in zip(self._columns.values(), row, strict=True):
            column.append(value)

    @property
    def count(self) -> int:
        return len(self._columns["rmse"])

    def as_dict(self) -> dict[str, float | None]:
        """RMSE, mean NLPD and CRPS, and coverage; None before the first score."""
        if not self.count:
            return dict.fromkeys(self._columns)
        means: dict[str, float | None] = {n: math.fsum(c) / self.count for n, c in self._columns.items()}
        return {**means, "rmse": math.sqrt(math.fsum(self._columns["rmse"]) / self.count)}


@final
class Tally:
    """Reads what a run publishes and keeps what is shown of it; a role like the others that writes nothing.

    A question counts once all methods have an answer to it, so that every method is held against the same truths.

    Parameters
    ----------
    prefix
        Of the topics.
    liars
        Stations whose scores do not count.
    methods
        Methods that a question must have a score of.
    """

    def __init__(self, prefix: str, *, liars: frozenset[str], methods: tuple[str, ...] = METHODS) -> None:
        self.methods = methods
        self.liars = liars
        self.read = 0
        self.observations = 0
        self.forecasts = 0
        self.means: dict[str, Means] = {m: Means() for m in methods}
        self.by_station: dict[str, dict[str, Means]] = defaultdict(lambda: {m: Means() for m in methods})
        self.curve: dict[str, list[tuple[int, float]]] = {m: [] for m in methods}
        self.last: dict[str, tuple[int, float]] = {}
        self.shown: dict[str, StationForecast] = {}
        self.rows: dict[str, deque[dict[str, Score]]] = defaultdict(lambda: deque(maxlen=4096))
        self.trims: Counter[str] = Counter()
        self.fused = 0
        self.now_ms: int | None = None
        self._prefix = prefix
        self._waiting: dict[str, dict[str, Score]] = {}

    def start(self, now_s: float) -> list[Outgoing]:
        return []

    def feed(self, messages: list[Message], now_s: float) -> None:
        self.read += len(messages)
        for message in messages:
            suffix = message.topic[len(self._prefix) + 1 :]
            if suffix == "scores":
                self._score(decode(message.value, Score))
            elif suffix == "station-forecasts":
                self._shown(decode(message.value, StationForecast))
            elif suffix == "forecasts":
                self._fused(decode(message.value, Forecast))
            elif suffix.startswith("observations"):
                self._observed(decode(message.value, Observation))

    def _observed(self, observation: Observation) -> None:
        self.observations += 1
        if isinstance(observation.y, float):
            self.last[observation.station] = (observation.time_ms, observation.y)

    def _fused(self, forecast: Forecast) -> None:
        self.forecasts += 1
        if forecast.status != "no_quorum":
            self.fused += 1
            self.trims.update(forecast.trimmed)

    def _shown(self, forecast: StationForecast) -> None:
        self.shown[forecast.station] = forecast
        self.now_ms = forecast.time_ms if self.now_ms is None else max(self.now_ms, forecast.time_ms)

    def _score(self, score: Score) -> None:
        if score.station in self.liars or score.method not in self.means:
            return
        row = self._waiting.setdefault(score.query_id, {})
        row[score.method] = score
        if len(row) < len(self.methods):
            if len(self._waiting) > 50_000:
                del self._waiting[next(iter(self._waiting))]
            return
        del self._waiting[score.query_id]
        self.rows[score.station].append(row)
        for method, one in row.items():
            self.means[method].update(one)
            self.by_station[score.station][method].update(one)
        if self.means[self.methods[0]].squared.n % 50 == 0:
            for method in self.methods:
                self.curve[method].append((score.target_ms, math.sqrt(self.means[method].squared.get())))

    def drain(self, now_s: float) -> list[Outgoing]:
        return []

    def wake_s(self, now_s: float) -> float | None:
        return None

    def full(self) -> frozenset[str]:
        return frozenset()

    def done(self) -> dict[Partition, int]:
        return {}

    def stop(self, now_s: float) -> list[Outgoing]:
        return []

    def trimmed(self) -> dict[str, float]:
        """Share of the fused forecasts in which each station was trimmed, most often first."""
        names = sorted(set(self.last) | set(self.trims), key=lambda n: (-self.trims[n], n))
        return {name: self.trims[name] / max(1, self.fused) for name in names}
