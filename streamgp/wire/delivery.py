"""What became of each record handed to a client that answers later: confirmed, failed, or still on the way."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol, final

from streamgp.errors import DeliveryError
from streamgp.wire.clock import Clock, Deadline
from streamgp.wire.log import Outgoing, WriterStats


class Receipt(Protocol):
    """The client's promise about one record."""

    @property
    def is_done(self) -> bool:
        """Whether its fate is known."""

    @property
    def exception(self) -> BaseException | None:
        """Why it failed, if it did."""

    def get(self, timeout: float) -> object:
        """Wait until its fate is known; raises if it failed or took too long."""


@dataclass(slots=True)
class _Waiting:
    record: Outgoing
    deadline: Deadline


@final
class Delivery:
    """Keeps every record until its fate is known.

    Records that found no broker wait in :attr:`waiting`, in order, each with its own deadline; those handed to
    the client wait for their receipt.

    Parameters
    ----------
    clock
        Measures the deadlines.
    timeout_s
        How long a record may find no broker before it counts as failed.

    Examples
    --------
    >>> from streamgp.wire.clock import ManualClock
    >>> clock = ManualClock()
    >>> delivery = Delivery(clock, 30.0)
    >>> delivery.accept([Outgoing("t", "A", b"1")])
    >>> clock.advance(31.0)
    >>> delivery.expire("nobody came")
    >>> delivery.pending, delivery.stats.failed, dict(delivery.stats.reasons)
    (0, 1, {'nobody came': 1})
    """

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self.stats = WriterStats()
        self.waiting: deque[_Waiting] = deque()
        self._clock = clock
        self._timeout_s = timeout_s
        self._sent: deque[tuple[Receipt, Outgoing]] = deque()
        self._failed: list[tuple[Outgoing, str]] = []

    @property
    def pending(self) -> int:
        """Records whose fate is not known."""
        return len(self.waiting) + len(self._sent)

    def accept(self, records: list[Outgoing]) -> None:
        """Take records over; they wait to be sent."""
        deadline = Deadline(self._clock, self._timeout_s)
        self.waiting.extend(_Waiting(record, deadline) for record in records)
        self.stats.written += len(records)

    def sent(self, receipt: Receipt) -> None:
        """The record that waited longest is with the client now."""
        self._sent.append((receipt, self.waiting.popleft().record))

    def fail_first(self, reason: str) -> None:
        """The record that waited longest will not be sent."""
        self._fail(self.waiting.popleft().record, reason)

    def expire(self, reason: str) -> None:
        """Give up the records that waited too long for a broker."""
        while self.waiting and self.waiting[0].deadline.passed():
            self.fail_first(reason)

    def sweep(self) -> None:
        """Count those whose fate became known, as far as they are in order."""
        while self._sent and self._sent[0][0].is_done:
            self._count(*self._sent.popleft())

    def wait_for_oldest(self, timeout_s: float) -> None:
        """Wait until the fate of the record sent first is known, or the time is over."""
        if self._sent:
            receipt = self._sent[0][0]
            try:
                receipt.get(timeout_s)
            except Exception:  # its fate is read from the receipt below
                if not receipt.is_done:
                    return
            self.sweep()

    def wait(self, deadline: Deadline) -> None:
        """Wait for the receipts of all that was sent."""
        while self._sent and not deadline.passed():
            self.wait_for_oldest(deadline.left_s())

    def report(self) -> None:
        """Raise a DeliveryError if anything failed since the last report, or is still on the way."""
        sent, self._sent = self._sent, deque()
        for receipt, record in sent:
            if receipt.is_done:
                self._count(receipt, record)
            else:
                self._sent.append((receipt, record))
        failed, self._failed = self._failed, []
        if failed or self.pending:
            first = failed[0][1] if failed else "not confirmed in time"
            count = len(failed) + self.pending
            noun = "record was" if count == 1 else "records were"
            unconfirmed = [record for _, record in self._sent] + [waiting.record for waiting in self.waiting]
            raise DeliveryError(f"{count} {noun} not confirmed: {first}", failed, self.pending, unconfirmed)

    def forget(self, reason: str) -> None:
        """Drop all whose fate is not known, without a later report: the caller tells it."""
        for _, record in self._sent:
            self._fail(record, reason)
        self._sent.clear()
        while self.waiting:
            self.fail_first(reason)
        self._failed.clear()

    def _count(self, receipt: Receipt, record: Outgoing) -> None:
        error = receipt.exception
        if error is None:
            self.stats.acknowledged += 1
        else:
            self._fail(record, f"{type(error).__name__}: {error}")

    def _fail(self, record: Outgoing, reason: str) -> None:
        self.stats.failed += 1
        self.stats.reasons[reason] += 1
        self._failed.append((record, reason))
