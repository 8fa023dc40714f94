"""The network layer: what the other stations' last surprises say about a station's next one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from streamgp.fusion.asked import (
    Asked,
    Correction,
    Influence,
    check_time,
    check_told,
    is_usable,
    known_places,
    unchanged,
)
from streamgp.fusion.influences import dropped, influences
from streamgp.fusion.innovations import NEVER, VALUE, InnovationStore
from streamgp.fusion.network_settings import NetworkSettings
from streamgp.fusion.surroundings import Standing, regressors
from streamgp.fusion.table import Table
from streamgp.fusion.targets import FIRST_SOURCE, Targets
from streamgp.fusion.waiting import Told, Waiting
from streamgp.gp.gaussian import Array

Mask = NDArray[np.bool_]

_SAME_HORIZON = 1.02  # clocks jitter; two and three steps ahead are two horizons
_MAX_HORIZONS = 16  # a station that asks for ever new horizons must not fill the memory
STATE_VERSION = 2


@final
class NetworkLayer:
    """For each station and horizon the mean and variance of its next error, given everybody's last ones.

    The contract: an innovation stamped t may be used by every correction at t or later, never before, in whatever order
    the calls come; one that is observed before event time has come to t waits until then. The caller
    holds a step until all queries of its event time have come or a deadline has passed, then calls :meth:`step`,
    or :meth:`observe` for each and then :meth:`correct` for each. What is late is integrated out of the
    corrections made meanwhile, and serves the later ones. Stations first seen in one call of :meth:`step` are
    taken in by name, so the numbers do not depend on who shared the step with whom, nor in what order.

    Parameters
    ----------
    settings
        See :class:`~streamgp.fusion.network_settings.NetworkSettings`.
    coordinates
        Station name to (latitude, longitude) in degrees, where known: near stations are the first candidates.

    Examples
    --------
    >>> layer = NetworkLayer()
    >>> asked = [Asked("A", 2000, 10.0, 3.0, 1.0), Asked("B", 2000, 20.0, 3.0, 1.0)]
    >>> first, _ = layer.step(1000, asked)
    >>> first.mean, first.ratio
    (10.0, 1.0)
    """

    def __init__(
        self,
        settings: NetworkSettings | None = None,
        *,
        coordinates: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        if settings is not None and not isinstance(settings, NetworkSettings):
            raise TypeError(f"settings must be NetworkSettings, got {type(settings).__name__}")
        self.settings = settings or NetworkSettings()
        self.coordinates = known_places(coordinates or {})
        self.stations: list[str] = []
        self.refused = 0
        self._row: dict[str, int] = {}
        self._now_ms = int(NEVER)
        self._waiting = Waiting()
        self._store = InnovationStore()
        self._told = Table({"place": np.full(2, np.nan), "last": np.nan, "last_ms": NEVER})
        self._targets: dict[int, Targets] = {}

    def step(self, time_ms: int, asked: Sequence[Asked]) -> list[Correction]:
        """Learn from the innovations of one event time, then answer its queries; the order of ``asked`` is kept.

        Raises
        ------
        TypeError
            If the time is no integer.
        ValueError
            If it lies beyond 2^56 ms.
        """
        self.advance(time_ms)
        self._join(a.station for a in asked)
        for horizon, group in self._by_horizon(time_ms, asked).items():
            told = [(a.station, a.innovation) for a in group]
            self.refused += len(told) - len(_finite(told))
            self._observe(time_ms, _finite(told), horizon)
        return self.answer(time_ms, asked)

    def hear(self, time_ms: int, told: Sequence[Told], *, horizon_ms: int) -> None:
        """Take in (station, innovation) pairs of one time and horizon; None: the last forecast had no truth.

        What is not finite is refused and counted; a horizon that is not positive is nobody's.

        Raises
        ------
        TypeError
            If a station is no string, an innovation no number, or a time no integer.
        ValueError
            If a time lies beyond 2^56 ms.
        """
        check_time(time_ms, name="time_ms")
        check_time(horizon_ms, name="horizon_ms")
        check_told(told)
        usable = _finite(told)
        self.refused += len(told) - len(usable)
        if time_ms > self._now_ms:
            self._waiting.put(int(time_ms), int(horizon_ms), usable)
        else:
            self._take_in(time_ms, usable, horizon_ms)

    def advance(self, time_ms: int) -> None:
        """Event time has come to ``time_ms``: take in what waited for it; :meth:`step` and :meth:`answer` do so."""
        check_time(time_ms, name="time_ms")
        for at_ms, horizon_ms, told in self._waiting.due(time_ms):
            self._take_in(at_ms, told, horizon_ms)
        self._now_ms = max(self._now_ms, int(time_ms))

    def _take_in(self, time_ms: int, told: Sequence[Told], horizon_ms: int) -> None:
        self._join(station for station, _ in told)
        self._observe(time_ms, sorted(told, key=lambda pair: pair[0]), self._bucket(horizon_ms))

    def answer(self, time_ms: int, asked: Sequence[Asked]) -> list[Correction]:
        """Correct forecasts with all that is known at ``time_ms``; their innovations are not looked at."""
        self.advance(time_ms)
        self._join(a.station for a in asked)
        answers: dict[int, Correction] = {}
        for horizon, group in self._by_horizon(time_ms, asked).items():
            for a, answer in zip(group, self._correct(time_ms, group, horizon), strict=True):
                answers[id(a)] = answer
        return [answers[id(a)] for a in asked]

    def observe(self, station: str, time_ms: int, innovation: float | None, *, horizon_ms: int) -> None:
        """:meth:`hear` for one station."""
        self.hear(time_ms, [(station, innovation)], horizon_ms=horizon_ms)

    def correct(self, time_ms: int, asked: Asked) -> Correction:
        """:meth:`answer` for one forecast."""
        return self.answer(time_ms, [asked])[0]

    def knows(self, station: str) -> bool:
        """Whether the station has been heard or asked about before."""
        return station in self._row

    def _join(self, stations: Iterable[str]) -> None:
        new = sorted({name for name in stations if name not in self._row})
        if not new:
            return
        for name in new:
            self._row[name] = len(self.stations)
            self.stations.append(name)
        n = len(self.stations)
        self._store.grow(n)
        self._told.grow(n)
        for name in new:
            self._told["place"][self._row[name]] = self.coordinates.get(name, (np.nan, np.nan))
        for targets in self._targets.values():
            targets.grow(n, coordinates=self._told["place"])

    def _bucket(self, horizon_ms: int) -> int | None:
        """The horizon under which this one is learned; None when there are too many already."""
        known = self._known(horizon_ms)
        if known is not None or horizon_ms <= 0 or len(self._targets) >= _MAX_HORIZONS:
            return known
        targets = Targets(self.settings)
        targets.grow(len(self.stations), coordinates=self._told["place"])
        self._targets[horizon_ms] = targets
        return horizon_ms

    def _known(self, horizon_ms: int) -> int | None:
        near = [h for h in self._targets if h <= _SAME_HORIZON * horizon_ms and horizon_ms <= _SAME_HORIZON * h]
        return min(near, key=lambda h: (abs(h - horizon_ms), h), default=None)

    def _by_horizon(self, time_ms: int, asked: Sequence[Asked]) -> dict[int | None, list[Asked]]:
        groups: dict[int | None, list[Asked]] = {}
        for a in sorted(asked, key=lambda a: (a.target_ms, a.station)):
            groups.setdefault(self._bucket(a.target_ms - time_ms), []).append(a)
        return groups

    def _observe(self, time_ms: int, told: Sequence[Told], horizon: int | None) -> None:
        if horizon is None:
            return
        targets, clip = self._targets[horizon], self.settings.clip
        usable = [(self._row[station], e) for station, e in told if e is not None]
        for wave in _waves([row for row, _ in usable]):
            rows = np.array([usable[i][0] for i in wave], dtype=np.intp)
            e = np.clip(np.array([usable[i][1] for i in wave], dtype=np.float64), -clip, clip)
            self._store.push_all(rows, time_ms, e, period_ms=horizon)
            hit, was, e = targets.learn(rows, time_ms, e, tolerance_ms=horizon // 4)
            if len(hit) == 0:
                continue
            issued = was["time_ms"].astype(np.int64)
            heard = self._store.read(targets.screening.candidates[hit], issued, lag=0)[..., VALUE]
            targets.screen(hit, e, heard, n_stations=len(self.stations))
            self._remember(hit, was["mean"][:, 0] + was["sd"][:, 0] * e, time_ms)

    def _remember(self, rows: NDArray[np.intp], values: Array, time_ms: int) -> None:
        """Keep the last value that a station's own forecast and innovation amount to."""
        newer = self._told["last_ms"][rows] < time_ms
        self._told["last"][rows[newer]] = values[newer]
        self._told["last_ms"][rows[newer]] = time_ms

    def _correct(self, time_ms: int, group: Sequence[Asked], horizon: int | None) -> list[Correction]:
        if horizon is None:
            return [unchanged(a) for a in group]
        answers: list[Correction] = [unchanged(a) for a in group]
        usable = [i for i, a in enumerate(group) if is_usable(a)]
        for wave in _waves([self._row[group[i].station] for i in usable]):
            at = [usable[j] for j in wave]
            for i, answer in zip(at, self._answer(time_ms, [group[i] for i in at], horizon), strict=True):
                answers[i] = answer
        return answers

    def _answer(self, time_ms: int, group: Sequence[Asked], horizon: int) -> list[Correction]:
        targets, names = self._targets[horizon], self.stations
        rows = np.array([self._row[a.station] for a in group], dtype=np.intp)
        sources = targets.screening.sources[rows]
        standing = self._standing(time_ms, rows, group, horizon)
        given = regressors(
            self._store, rows=rows, sources=sources, time_ms=time_ms, horizon_ms=horizon, standing=standing
        )
        target_ms = np.array([a.target_ms for a in group], dtype=np.int64)
        answer = targets.answer(rows, given, time_ms=time_ms, target_ms=target_ms, mean=standing.mean, sd=standing.sd)
        silent, dropped = ~given.known[:, FIRST_SOURCE:], targets.harm.dropped[rows]
        some = np.any(silent | dropped, axis=-1).tolist()
        shift, ratio, sd = answer.shift.tolist(), answer.ratio.tolist(), standing.sd.tolist()
        weights = answer.weights.tolist()

        def named(mask: Mask, i: int) -> tuple[str, ...]:
            return tuple(names[j] for j in sources[i][mask[i]].tolist()) if some[i] else ()

        return [
            Correction(
                station=a.station,
                target_ms=a.target_ms,
                mean=a.mean + shift[i] * sd[i],
                variance=a.variance * ratio[i],
                noise_variance=a.noise_variance * ratio[i],
                shift=shift[i],
                ratio=ratio[i],
                weights=(weights[i][0], weights[i][1], weights[i][2], weights[i][3]),
                silent=named(silent, i),
                dropped=named(dropped, i),
            )
            for i, a in enumerate(group)
        ]

    def _standing(self, time_ms: int, rows: NDArray[np.intp], group: Sequence[Asked], horizon: int) -> Standing:
        def column(values: Iterable[float | None]) -> Array:
            return np.array([np.nan if v is None else v for v in values], dtype=np.float64)

        mean = column(a.mean for a in group)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = (mean - column(a.level for a in group)) / column(a.spread for a in group)
        stamped = self._told["last_ms"][rows]
        fresh = (stamped > time_ms - horizon) & (stamped <= time_ms)
        return Standing(
            mean=mean,
            sd=np.sqrt(column(a.variance for a in group) + column(a.noise_variance for a in group)),
            level=np.where(np.isfinite(level), level, np.nan),
            last=np.where(fresh, self._told["last"][rows], np.nan),
            fused=column(a.fused_mean for a in group),
        )

    def influences(self, *, horizon_ms: int) -> list[Influence]:
        """Who foretells whom at this horizon, one entry per station and source; empty if it is not known."""
        horizon = self._known(horizon_ms)
        if horizon is None:
            return []
        return influences(self._targets[horizon], self.stations, horizon_ms=horizon)

    def dropped(self) -> dict[str, list[str]]:
        """Source to the stations that hear it no more at some horizon, because it had made things worse lately."""
        return dropped(self._targets.values(), self.stations)

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here: numbers, strings, lists, dicts and arrays."""
        return {
            "version": STATE_VERSION,
            "settings": asdict(self.settings),
            "coordinates": {name: list(at) for name, at in self.coordinates.items()},
            "stations": list(self.stations),
            "refused": self.refused,
            "now_ms": self._now_ms,
            "waiting": self._waiting.state(),
            "store": self._store.state(),
            "told": self._told.state(),
            "targets": {str(h): t.state() for h, t in self._targets.items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The layer that ``state`` describes: it answers and learns the same, to the bit.

        Raises
        ------
        ValueError
            If the state is of another version, or damaged.
        """
        if not isinstance(state, dict) or state.get("version") != STATE_VERSION:
            found = state.get("version") if isinstance(state, dict) else state
            raise ValueError(f"a network state of version {found!r} cannot be read")
        try:
            return cls._restored(state)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            raise ValueError(f"the network state is damaged ({type(error).__name__}: {error})") from error

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        settings: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in state["settings"].items()}
        layer = cls(NetworkSettings(**settings), coordinates=state["coordinates"])
        layer.stations = list(state["stations"])
        layer.refused = int(state["refused"])
        layer._now_ms = int(state["now_ms"])
        layer._waiting.restore(state["waiting"])
        layer._row = {name: i for i, name in enumerate(layer.stations)}
        layer._store.restore(state["store"])
        layer._told.restore(state["told"])
        for horizon, saved in state["targets"].items():
            targets = Targets(settings=layer.settings)
            targets.restore(saved)
            layer._targets[int(horizon)] = targets
        rows = {len(layer._row), layer._store.table.n, layer._told.n, *(t.table.n for t in layer._targets.values())}
        if len(rows) > 1 or not isinstance(state["stations"], list):
            raise ValueError(f"{len(layer.stations)} stations, but tables of {sorted(rows)} rows")
        return layer


def _finite(told: Sequence[Told]) -> list[Told]:
    """The pairs whose innovation is a number or None."""
    return [pair for pair in told if pair[1] is None or math.isfinite(pair[1])]


def _waves(rows: Sequence[int]) -> list[list[int]]:
    """Positions in as many groups as it takes for no row to occur twice in one."""
    if len(set(rows)) == len(rows):
        return [list(range(len(rows)))] if rows else []
    waves: list[list[int]] = []
    turn: dict[int, int] = {}
    for i, row in enumerate(rows):
        at = turn.get(row, 0)
        turn[row] = at + 1
        if at == len(waves):
            waves.append([])
        waves[at].append(i)
    return waves
