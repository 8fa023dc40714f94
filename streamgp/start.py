"""Where the command begins: a process that runs a role can be told to stop before anything else is loaded."""

from __future__ import annotations

import os
import sys

# built in: `signal` itself loads enum and what that needs first, which on a busy machine is a tenth of a second
from _signal import SIGINT, SIGTERM, signal  # type: ignore[import-not-found]  # typeshed describes `signal` alone

#: those that run until they are told to stop; each then sets handlers of its own (streamgp.roles.loop)
ROLES = frozenset({"agent", "cloud", "scorer", "trainer", "trainee"})


def stop_at_once() -> dict[int, object]:
    """From here on SIGTERM and SIGINT end this process with 0; the handlers that were there.

    For a role that is still being loaded, which takes up to seconds: it has nothing to finish.
    """
    return {number: signal(number, _end) for number in (SIGTERM, SIGINT)}


def _end(_number: int, _frame: object) -> None:
    os.write(2, b"stopped before it had begun\n")
    os._exit(0)  # an exception might be caught by whatever is being imported


def begin() -> None:
    """The first act of ``streamgp``: only a role that has not begun may end with 0 when it is cut off."""
    if not ROLES.isdisjoint(sys.argv[1:2]):
        stop_at_once()


def run() -> None:
    """The process of ``streamgp``."""
    begin()
    from streamgp.cli import run as loaded

    loaded()
