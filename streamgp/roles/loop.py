"""The loop around a role: poll, feed, drain, write, flush, commit; the same for every role and every log."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from streamgp.errors import DeliveryError, LogError
from streamgp.roles.reach import Reach
from streamgp.wire.clock import Clock
from streamgp.wire.log import Message, Outgoing, Partition, Reader, Writer

log = logging.getLogger("streamgp")

#: seconds between flushes; between them outputs are on their way but not yet confirmed
FLUSH_EVERY_S = 1.0
#: what a flush waits while the loop turns, and at the end: whoever is told to stop must be gone within 5 s
FLUSH_S, LAST_FLUSH_S = 0.5, 1.0
#: longest single wait for input, so that a stop is seen in time
POLL_S = 0.25
#: shortest wait after a step in which nothing was done, however much the role would like to go on
IDLE_S = 0.02
#: exit code of a process that was told to stop and took too long
CUT_OFF = 9


class Role(Protocol):
    """A process of the pipeline as a pure step on a clock that the caller reads."""

    def start(self, now_s: float) -> list[Outgoing]:
        """Records to write before anything is read."""

    def feed(self, messages: list[Message], now_s: float) -> None:
        """Take in what was read; an empty list says that all that was there at this time has been read.

        It is not called after a poll that brought nothing while something waits, or may wait, at the broker; a role
        that must know more is told by :meth:`streamgp.roles.reach.Patient.reached`.
        """

    def drain(self, now_s: float) -> list[Outgoing]:
        """Work on what was taken in, for a bounded time, and return what to write."""

    def wake_s(self, now_s: float) -> float | None:
        """Seconds until time alone gives the role something to do; 0 if it has more to do at once."""

    def full(self) -> frozenset[str]:
        """Topics of which it has enough for now, and that are not to be read."""

    def done(self) -> dict[Partition, int]:
        """Per input partition the next offset: all before it is learned, answered or refused."""

    def stop(self, now_s: float) -> list[Outgoing]:
        """Last records, when the process ends in good order."""


def run(role: Role, reader: Reader, writer: Writer, clock: Clock, stop: threading.Event) -> None:
    """Run a role until ``stop`` is set; closes reader and writer.

    Order at each flush: outputs confirmed, then offsets committed. What is still on its way, because the broker is
    away, is waited for: the loop turns on, commits nothing and looks again. If an output failed for good nothing is
    committed and the error ends the process, whose successor reads the same records again.

    Raises
    ------
    LogError
        If an output failed for good.
    """
    flushed_s, idle, reach = clock.monotonic_s(), False, Reach(role, reader)
    try:
        writer.write(role.start(clock.monotonic_s()))
        while not stop.is_set():
            wake = role.wake_s(clock.monotonic_s())
            timeout = POLL_S if wake is None else min(POLL_S, max(wake, IDLE_S) if idle else wake)
            messages = reader.poll(timeout, without=role.full())
            if messages or reader.stats.exhausted:
                role.feed(messages, clock.monotonic_s())
            out = role.drain(clock.monotonic_s())
            out += reach.told(clock.monotonic_s())
            if out:
                writer.write(out)
            idle = not (messages or out)
            if clock.monotonic_s() - flushed_s >= FLUSH_EVERY_S:
                if _confirmed(writer):
                    reader.commit(role.done())
                flushed_s = clock.monotonic_s()
        writer.write(role.stop(clock.monotonic_s()))
        writer.flush(LAST_FLUSH_S)
        reader.commit(role.done())
    except LogError:
        log.exception("outputs were not confirmed; nothing was committed after them")
        raise
    finally:
        reader.close()
        writer.close()


def _confirmed(writer: Writer) -> bool:
    """Whether all that was written is confirmed; what is on its way still may be. Raises if any of it failed."""
    try:
        writer.flush(FLUSH_S)
    except DeliveryError as error:
        if error.failed:
            raise
        return False
    return True


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; the handler does nothing else, so nothing can hang in it."""
    stop = threading.Event()

    def handler(number: int, _frame: object) -> None:
        stop.set()

    old = {s: signal.signal(s, handler) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, previous in old.items():
            signal.signal(number, previous)


@contextmanager
def ending_within(seconds: float, stop: threading.Event, *, end: Callable[[int], object] = os._exit) -> Iterator[None]:
    """Once told to stop, end the process after so long even if something still waits (for a broker, for a fit).

    That is as safe as ``kill -9``: what is not committed is done again by the successor. The exit code is then 9.
    """
    over = threading.Event()

    def watch() -> None:
        while not stop.wait(POLL_S):
            if over.is_set():
                return
        if not over.wait(seconds):
            log.error(
                "not ended in good order within %g s; what was not committed is done again by the successor", seconds
            )
            end(CUT_OFF)

    thread = threading.Thread(target=watch, name="ending", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(2 * POLL_S)


def together(
    pairs: list[tuple[Role, Reader, Writer]], clock: ManualSteps, *, after_round: Callable[[], None] = lambda: None
) -> None:
    """Run several roles in this thread, one after another, until none has anything to do.

    When all inputs are read and nothing is written, the clock is moved to the next time at which a role would
    do something by itself: waits cost nothing, and the numbers are those of processes that never had to wait.
    """
    for role, _, writer in pairs:
        writer.write(role.start(clock.monotonic_s()))
    while True:
        busy = False
        for role, reader, writer in pairs:
            messages = reader.poll(0.0, without=role.full())
            if messages or reader.stats.exhausted:
                role.feed(messages, clock.monotonic_s())
            out = role.drain(clock.monotonic_s())
            if out:
                writer.write(out)
            busy = busy or bool(messages) or bool(out)
        after_round()
        if busy:
            continue
        wakes = [w for role, _, _ in pairs if (w := role.wake_s(clock.monotonic_s())) is not None]
        if not wakes:
            break
        clock.advance(max(min(wakes), 1e-3))
    for role, _, writer in pairs:
        writer.write(role.stop(clock.monotonic_s()))


class ManualSteps(Clock, Protocol):
    """A clock that the single-process run moves itself."""

    def advance(self, seconds: float) -> None: ...
