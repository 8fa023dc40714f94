"""The cloud: collects the answers to each query and fuses them so that liars do not decide."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from msgspec import UNSET

from streamgp.errors import DecodeError, EncodeError, NoQuorumError
from streamgp.fusion.fused import Fused, usable
from streamgp.fusion.trimmed import n_trim_for, trimmed_poe
from streamgp.gp.gaussian import Array
from streamgp.roles.plain import offsets_in, offsets_out, restoring
from streamgp.roles.settings import CloudSettings, Settings
from streamgp.roles.window import Closed, Windows
from streamgp.wire.codec import decode, encode
from streamgp.wire.deadletter import dead_letter
from streamgp.wire.log import Message, Outgoing, Partition
from streamgp.wire.records import Forecast, Prediction, Progress, Query, Row

log = logging.getLogger("streamgp.cloud")

VERSION = 1


def fuse(closed: Closed, settings: CloudSettings) -> Forecast:
    """The forecast of a window: Algorithm 3 of the federated paper over the usable answers.

    Every answer is checked before anything is sorted: one that has the wrong number of points, or a number that
    is not finite or not positive, is refused by name. Where fewer answers are left than the cut needs there is
    no quorum and no number.
    """
    query = closed.query
    m = len(query.points)
    speaking = {name: p for name, p in closed.answers.items() if p.abstained is UNSET}
    refused = [name for name, p in speaking.items() if not _shaped(p, m)]
    names = [name for name in speaking if name not in refused]
    if names:
        means, variances, noises = (_stack([getattr(speaking[n], f) for n in names]) for f in _FIELDS)
        sane = np.all(np.isfinite(noises) & (noises >= 0), axis=1)
        good = [a and b for a, b in zip(usable(means, variances).agents.tolist(), sane.tolist(), strict=True)]
        refused += [n for n, ok in zip(names, good, strict=True) if not ok]
        names = [n for n, ok in zip(names, good, strict=True) if ok]
        means, variances, noises = means[good], variances[good], noises[good]
    common = {
        "query_id": query.id,
        "station": query.station,
        "time_ms": query.time_ms,
        "target_ms": query.target_ms,
        "missing": closed.missing,
        "refused": tuple(sorted(refused)),
        "answers": len(names),
    }
    if len(names) >= settings.min_answers and names:
        try:
            # a refused answer is one more that may lie: the cut is counted on all who spoke
            n_trim = n_trim_for(settings.beta, len(names))
            fused = trimmed_poe(means, variances, n_trim)
            plain = trimmed_poe(means, variances, 0)
        except NoQuorumError as error:
            log.debug("%s: no quorum: %s", query.id, error)
        else:
            return Forecast(
                **common,  # type: ignore[arg-type]  # a mapping of the fields above, typed where they are read
                mean=_row(fused.mean),
                variance=_row(fused.variance),
                noise_variance=_row(np.median(noises, axis=0)),
                kept=tuple(int(k) for k in fused.counts),
                trimmed=_cut_names(names, fused),
                status="ok",
                n_trim=n_trim,
                untrimmed_mean=_row(plain.mean),
                untrimmed_variance=_row(plain.variance),
                untrimmed_noise_variance=_row(np.mean(noises, axis=0)),
            )
    return Forecast(
        **common,  # type: ignore[arg-type]  # as above
        mean=None,
        variance=None,
        noise_variance=None,
        kept=(0,) * m,
        trimmed=(),
        status="no_quorum",
    )


_FIELDS = ("mean", "variance", "noise_variance")


def _shaped(prediction: Prediction, m: int) -> bool:
    return all(len(getattr(prediction, field)) == m for field in _FIELDS)


def _stack(rows: list[Row]) -> Array:
    return np.array(rows, dtype=np.float64)


def _cut_names(names: list[str], fused: Fused) -> tuple[str, ...]:
    cut = np.asarray(~fused.kept.all(axis=1), dtype=np.bool_)
    return tuple(sorted(n for n, c in zip(names, cut, strict=True) if c))


def _row(values: Array) -> Row:
    return tuple(values.tolist())


@final
class CloudRole:
    """The cloud between a reader and a writer (see :class:`streamgp.roles.loop.Role`).

    Inputs: ``queries``, ``predictions`` and ``progress``. Outputs: ``forecasts`` and ``dead-letter``.
    """

    def __init__(self, settings: Settings) -> None:
        self.counts: Counter[str] = Counter()
        self._settings = settings
        self._windows = Windows(deadline_s=settings.cloud.deadline_s, patience=settings.cloud.patience)
        for station in settings.stations:
            self._windows.join(station)
        self._next: dict[Partition, int] = {}
        self._out: deque[Outgoing] = deque()

    def start(self, now_s: float) -> list[Outgoing]:
        return []

    def feed(self, messages: list[Message], now_s: float) -> None:
        # promises first: who is there is known before the questions that were asked with them
        suffix_at = len(self._settings.prefix) + 1
        for message in sorted(messages, key=lambda m: m.topic[suffix_at:] != "progress"):
            at = (message.topic, message.partition)
            if message.offset < self._next.get(at, 0):
                self.counts["read twice"] += 1
                continue
            self._next[at] = message.offset + 1
            try:
                self._read(message, message.topic[suffix_at:], now_s)
            except DecodeError as error:
                self._refuse(message, error.reason, error.field)

    def _read(self, message: Message, suffix: str, now_s: float) -> None:
        if suffix == "progress":
            progress = decode(message.value, Progress)
            if progress.state == "gone":
                self._windows.leave(progress.station)
            elif progress.time_ms is None or not self._windows.knows(progress.station):
                self._windows.join(progress.station)
        elif suffix == "queries":
            query = decode(message.value, Query)
            if not query.points:
                self._refuse(message, "no points", "points")
            else:
                self._windows.open(query, now_s)
        elif suffix == "predictions":
            self._windows.add(decode(message.value, Prediction), now_s)

    def drain(self, now_s: float) -> list[Outgoing]:
        for closed in self._windows.close(now_s):
            forecast = fuse(closed, self._settings.cloud)
            self.counts[f"forecast {forecast.status}"] += 1
            self.counts.update(f"trimmed: {name}" for name in forecast.trimmed)
            try:
                value = encode(forecast)
            except EncodeError as error:
                self.counts["withheld: forecasts"] += 1
                log.warning("withheld a forecast: %s", error)
                continue
            self._out.append(Outgoing(self._settings.topic("forecasts"), forecast.query_id, value))
        out = list(self._out)
        self._out.clear()
        return out

    def wake_s(self, now_s: float) -> float | None:
        return self._windows.wake_s(now_s)

    def full(self) -> frozenset[str]:
        return frozenset()

    def done(self) -> dict[Partition, int]:
        return dict(self._next)

    def stop(self, now_s: float) -> list[Outgoing]:
        return []

    def vitals(self) -> dict[str, float]:
        """What health tells of the cloud."""
        return {"windows_open": float(self._windows.filling), "agents": float(len(self._windows.expected()))}

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        next_ = offsets_out(self._next)
        return {"v": VERSION, "windows": self._windows.state(), "next": next_, "counts": dict(self.counts)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; raises a CheckpointError if it is damaged or of another version."""
        with restoring("cloud", state, VERSION):
            self._windows.restore(state["windows"])
            self._next = offsets_in(state["next"])
            self.counts = Counter(state["counts"])

    @property
    def windows(self) -> Windows:
        """The windows open now, and what was counted about answers."""
        return self._windows

    def _refuse(self, message: Message, reason: str, field: str) -> None:
        self.counts[f"refused: {reason}"] += 1
        self._out.append(
            dead_letter(
                message,
                topic=self._settings.topic("dead-letter"),
                key=message.key or "",
                reason=reason,
                field=field,
            )
        )
