"""Write observations and know of each what became of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import final

from producers.pacing import Pacer
from streamgp.errors import DeliveryError, LogError
from streamgp.wire.codec import encode
from streamgp.wire.log import Outgoing, Writer
from streamgp.wire.records import Observation

#: records handed over at once; after so many their confirmation is waited for
_BATCH, _CHECK = 500, 50_000
#: longest single pause, so that a stop is seen
_SLICE_S = 0.5


@dataclass
class Outcome:
    """What became of the records: ``sent = acknowledged + failed``.

    ``left`` are the records that are not known to be in the log: failed ones first, then, after a stop, those
    that were not sent.
    """

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    stopped: bool = False
    reasons: Counter[str] = field(default_factory=Counter)
    left: list[Outgoing] = field(default_factory=list)


def outgoing(observation: Observation, topic: str) -> Outgoing:
    """The record as it is written: its key is the station's name, plain."""
    return Outgoing(topic, observation.station, encode(observation))


@final
class Sender:
    """Sends records by a pacer's times.

    Parameters
    ----------
    writer
        Where to.
    pacer
        When.
    pause
        Waits so many seconds and says whether to stop; asked with 0 between batches.
    timeout_s
        How long the confirmation of what was sent is waited for.
    progress
        Told how many records were handed over since it was last told.

    Examples
    --------
    >>> from streamgp.wire.clock import ManualClock
    >>> from streamgp.wire.log import TopicSpec
    >>> from streamgp.wire.memory import MemoryLog
    >>> log = MemoryLog()
    >>> _ = log.create_topics([TopicSpec("observations")])
    >>> sender = Sender(log.writer(), Pacer(ManualClock()), pause=lambda seconds: False)
    >>> rows = [Observation(station="A", time_ms=t, y=1.0) for t in range(3)]
    >>> outcome = sender.send([(o.time_ms, outgoing(o, "observations")) for o in rows])
    >>> outcome.sent, outcome.acknowledged, outcome.failed
    (3, 3, 0)
    """

    def __init__(
        self,
        writer: Writer,
        pacer: Pacer,
        *,
        pause: Callable[[float], bool],
        timeout_s: float = 30.0,
        progress: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._writer = writer
        self._pacer = pacer
        self._pause = pause
        self._timeout_s = timeout_s
        self._progress = progress
        self._outcome = Outcome()
        self._batch: list[Outgoing] = []
        self._unconfirmed: list[Outgoing] = []
        self._acknowledged = writer.stats.acknowledged
        self._broken = ""

    def send(self, records: Iterable[tuple[int, Outgoing]]) -> Outcome:
        """Send (event time in ms, record) pairs in their order; never raises for what the log does not take."""
        outcome, unsent = self._outcome, []
        for index, (time_ms, record) in enumerate(records):
            outcome.stopped = outcome.stopped or self._until(index, time_ms)
            if outcome.stopped:
                unsent.append(record)
                continue
            self._batch.append(record)
            if len(self._batch) >= _BATCH:
                self._hand_over()
                outcome.stopped = outcome.stopped or self._pause(0.0)
        self._hand_over()
        self._confirm()
        outcome.left += unsent
        return outcome

    def _until(self, index: int, time_ms: int) -> bool:
        """Wait for a record's turn, after handing over what was due before; whether to stop instead."""
        wait_s = self._pacer.due_s(index, time_ms)
        if wait_s <= 0.0:
            return False
        self._hand_over()
        while wait_s > 0.0:
            if self._pause(min(wait_s, _SLICE_S)):
                return True
            wait_s = self._pacer.due_s(index, time_ms)
        return False

    def _hand_over(self) -> None:
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        outcome = self._outcome
        outcome.sent += len(batch)
        self._unconfirmed += batch
        try:
            self._writer.write(batch)
        except LogError as error:  # going on cannot help: the topic is missing, access is denied
            outcome.stopped, self._broken = True, str(error)
        self._progress(len(batch))
        if len(self._unconfirmed) >= _CHECK:
            self._confirm()

    def _confirm(self) -> None:
        """Wait for what was sent; what failed, or may have, is left."""
        sent, self._unconfirmed = self._unconfirmed, []
        lost: list[Outgoing] = []
        try:
            self._writer.flush(self._timeout_s)
        except DeliveryError as error:
            lost = [*(record for record, _ in error.failed), *error.unconfirmed]
            self._outcome.reasons.update(_kind(reason) for _, reason in error.failed)
            if error.pending:
                self._outcome.reasons[f"not confirmed within {self._timeout_s:g} s"] += error.pending
        except LogError as error:
            self._broken = str(error)
        acknowledged = self._writer.stats.acknowledged - self._acknowledged
        self._acknowledged += acknowledged
        self._outcome.acknowledged += acknowledged
        self._outcome.failed += len(sent) - acknowledged
        if len(sent) - acknowledged != len(lost):  # the writer broke, and does not tell which it took
            self._outcome.reasons[self._broken or "not known"] += len(sent) - acknowledged - len(lost)
            lost = sent
        self._outcome.left += lost


def _kind(reason: str) -> str:
    """A reason without the particulars of one record: the name of the error, where it begins with one."""
    match = re.match(r"\w+Error\b", reason)
    return match[0] if match else reason
