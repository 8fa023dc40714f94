"""The processes of a run, and who starts them again.

They are forked from one that has imported everything: a run of 20,000 observations starts some 84, and what is tested
is what they do, not Python's imports (``tests/broker/test_processes.py`` starts them as their users do).
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

from streamgp import cli
from streamgp.roles.loop import CUT_OFF
from streamgp.roles.stores import folder_name


def _nursery() -> multiprocessing.context.ForkServerContext:
    """Where processes come from: a server that has imported what they need, with one thread."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "consumers.agent", "consumers.cloud", "consumers.scorer"])
    return context


def _role_process(words: list[str], log: Path) -> None:
    """The command as a process of its own, what it says at the end of a file."""
    with log.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.argv = ["streamgp", *words]
    cli.run()


#: within which a process has its state back, on the busiest machine
START_S = 300.0


class Processes:
    """Roles by name, such as ``agent.DUB`` or ``cloud``, each with a log, and with its state in a common folder.

    Parameters
    ----------
    folder
        Where logs and states are kept.

    Attributes
    ----------
    words
        What every command is given.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words: list[str] = []
        self.killed: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()  # "role: exit code" of those that were not told to
        self._nursery = _nursery()
        self._running: dict[str, BaseProcess] = {}
        self._said: dict[str, int] = {}  # bytes of a role's log before its last start

    def start(self, role: str) -> None:
        kind, _, station = role.partition(".")
        words = [kind, *self.words, "--state", str(self.folder / "state")]
        words += ["--station", station] if station else []
        log = self.log_of(role)
        self._said[role] = log.stat().st_size if log.exists() else 0
        process = self._nursery.Process(target=_role_process, args=(words, log))
        process.start()
        self._running[role] = process

    def log_of(self, role: str) -> Path:
        return self.folder / f"{folder_name(role)}.log"

    def works(self, role: str) -> bool:
        """Whether what was started last has its state back."""
        return b": running on" in self.log_of(role).read_bytes()[self._said[role] :]

    def supervise(self) -> None:
        """What has ended is started again, as systemd or an orchestrator would."""
        for role, process in list(self._running.items()):
            if process.exitcode is not None:
                self.ended[f"{role}: {process.exitcode}"] += 1
                self.start(role)

    def kill(self, role: str) -> None:
        """With SIGKILL: it is started again when somebody looks."""
        self._running[role].kill()
        self._running[role].join(10)
        self.killed[role] += 1

    def wait(self, seconds: float) -> None:
        """Look after them for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.supervise()
            time.sleep(min(0.2, left))

    def stop(self, role: str) -> None:
        """In good order; who was cut off, for the machine is busy, starts again and is told again."""
        for _ in range(5):
            end = time.monotonic() + START_S
            while not self.works(role):
                assert time.monotonic() < end, f"{role} does not start"
                self.wait(0.1)
            process = self._running.pop(role)
            process.terminate()
            process.join(60)
            if process.exitcode != CUT_OFF:
                assert process.exitcode == 0, f"{role} ended with {process.exitcode}"
                return
            self.ended[f"{role}: {process.exitcode}"] += 1
            self.start(role)
        raise AssertionError(f"{role} was cut off again and again")

    def close(self) -> None:
        """Leave none behind."""
        for process in self._running.values():
            process.kill()
            process.join(10)
