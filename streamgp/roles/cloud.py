"""The cloud: collects the answers to each query and fuses them so that liars do not decide."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, final

from streamgp.errors import DecodeError
from streamgp.roles.fusing import Fusing
from streamgp.roles.outbox import Outbox
from streamgp.roles.plain import offsets_in, offsets_out, restoring
from streamgp.roles.settings import Settings
from streamgp.roles.window import Windows
from streamgp.wire.codec import decode
from streamgp.wire.log import Message, Outgoing, Partition
from streamgp.wire.records import Prediction, Progress, Query

log = logging.getLogger("streamgp.cloud")

VERSION = 1
#: open windows from which on answers are read before further questions, and answers that wait for their question from
#: which on questions are read before further answers
MANY = 5_000


@final
class CloudRole:
    """The cloud between a reader and a writer (see :class:`streamgp.roles.loop.Role`).

    Inputs: ``queries``, ``predictions`` and ``progress``. Outputs: ``forecasts``, ``trust`` and ``dead-letter``.

    A deadline is over when it has passed by the clock and all that was written by then has been read, which the caller
    says by ``feed([], now_s)`` or ``reached``: a cloud that is far behind does not tell agents as missing whose answers
    are there.
    """

    def __init__(self, settings: Settings) -> None:
        self.counts: Counter[str] = Counter()
        self._settings = settings
        self._windows = Windows(deadline_s=settings.cloud.deadline_s, patience=settings.cloud.patience)
        for station in settings.stations:
            self._windows.join(station)
        self._fusing = Fusing(settings.cloud, network=settings.network)
        self._next: dict[Partition, int] = {}
        self._read_s: float | None = None  # all that was written by then has been read
        self._answers_read = self._questions_read = False  # all of them, and none since
        self._out = Outbox(settings, self.counts, log=log)

    def start(self, now_s: float) -> list[Outgoing]:
        return []

    def feed(self, messages: list[Message], now_s: float) -> None:
        if not messages:
            if self._settings.topic("predictions") not in self.full():
                self._read_s = now_s
            self._answers_read = self._questions_read = True
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
                self._out.refuse(message, error.reason, error.field)

    def _read(self, message: Message, suffix: str, now_s: float) -> None:
        if suffix == "progress":
            progress = decode(message.value, Progress)
            if progress.state == "gone":
                self._windows.leave(progress.station)
            elif progress.time_ms is None or not self._windows.knows(progress.station):
                self._windows.join(progress.station)
        elif suffix == "queries":
            self._questions_read = False
            query = decode(message.value, Query)
            if not query.points:
                self._out.refuse(message, "no points", "points")
            else:
                self._windows.open(query, now_s)
                self._fusing.heard(query)
        elif suffix == "predictions":
            self._answers_read = False
            self._windows.add(decode(message.value, Prediction), now_s)

    def drain(self, now_s: float) -> list[Outgoing]:
        for forecast, reports in self._fusing.conclude(self._windows.close(self._read_s)):
            self.counts[f"forecast {forecast.status}"] += 1
            self.counts.update(f"trimmed: {name}" for name in forecast.trimmed if self._windows.knows(name))
            self._out.write("forecasts", forecast.query_id, forecast)
            for report in reports:
                self._out.write("trust", report.agent, report)
        return self._out.take()

    def wake_s(self, now_s: float) -> float | None:
        return self._windows.wake_s(now_s) or None  # past the deadline it is reading that ends the wait

    def overdue(self, now_s: float) -> bool:
        """Whether a deadline has passed by the clock (see :class:`streamgp.roles.reach.Patient`)."""
        return self._windows.wake_s(now_s) == 0.0

    def reached(self, then_s: float) -> list[Outgoing]:
        """The forecasts of the windows whose deadline was over at this time."""
        self.feed([], then_s)
        return self.drain(then_s)

    def full(self) -> frozenset[str]:
        if self._windows.ahead >= MANY:
            return frozenset(() if self._questions_read else {self._settings.topic("predictions")})
        many = self._windows.filling >= MANY and not self._answers_read
        return frozenset({self._settings.topic("queries")} if many else ())

    def done(self) -> dict[Partition, int]:
        return dict(self._next)

    def stop(self, now_s: float) -> list[Outgoing]:
        return []

    def vitals(self) -> dict[str, float]:
        """What health tells of the cloud."""
        told = {"windows_open": float(self._windows.filling), "agents": float(len(self._windows.expected()))}
        oldest_s = self._windows.oldest_s
        wait = {"held_since_s": oldest_s or 0.0, "longest_s": self._settings.cloud.deadline_s}
        return told if oldest_s is None else {**told, **wait}

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        next_ = offsets_out(self._next)
        return {
            "v": VERSION,
            "windows": self._windows.state(),
            "fusing": self._fusing.state(),
            "next": next_,
            "read": [self._read_s, self._answers_read, self._questions_read],
            "counts": dict(self.counts),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; raises a CheckpointError if it is damaged or of another version."""
        with restoring("cloud", state, VERSION):
            self._windows.restore(state["windows"])
            self._fusing.restore(state["fusing"])
            self._next = offsets_in(state["next"])
            self._read_s, self._answers_read, self._questions_read = state.get("read", (None, False, False))
            self.counts.clear()
            self.counts.update(state["counts"])

    @property
    def windows(self) -> Windows:
        """The windows open now, and what was counted about answers."""
        return self._windows
