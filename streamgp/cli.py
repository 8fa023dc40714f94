"""``streamgp``: one command for every role; each is loaded when it is called, so that --help is quick."""

from __future__ import annotations

if __name__ == "__main__":
    from streamgp.start import begin

    begin()

import atexit
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, final

import click

from streamgp.start import ROLES, stop_at_once

#: command -> module that holds its ``command``, and a line for the overview
COMMANDS = {
    "demo": ("consumers.demo", "A whole network in one process, some of it lying, and one table in the end."),
    "replay": ("producers.replay", "Send a data set or files as observations."),
    "query": ("producers.queries", "Ask the agents about given points or a grid."),
    "agent": ("consumers.agent", "Run one station's agent."),
    "cloud": ("consumers.cloud", "Run the cloud that fuses the answers."),
    "scorer": ("consumers.scorer", "Run the scorer that holds forecasts against the truth."),
    "trainer": ("consumers.trainer", "Run the server of a federated training of the hierarchical model."),
    "trainee": ("consumers.trainee", "Run one station's part in a federated training."),
    "watch": ("consumers.watch", "Show forecasts and running scores as they come."),
    "topics": ("consumers.topics", "Make and list the topics."),
    "keys": ("consumers.keys", "Make, list, replace and revoke the keys that records are signed with."),
    "dead-letters": ("consumers.dead_letters", "List what was refused and why, and write it once more."),
    "experiment": ("streamgp.experiments.command", "Run a study of one of the papers."),
}


@contextmanager
def stopping_early() -> Iterator[None]:
    """A role that is told to stop while it is being loaded ends with 0 (see :mod:`streamgp.start`)."""
    old: dict[int, Any] = stop_at_once()
    try:
        yield
    finally:
        for number, previous in old.items():
            signal.signal(number, previous)


@final
class Lazy(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in ROLES:
            ctx.with_resource(stopping_early())
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _version() -> str:
    """The installed version; a source tree that is run where it lies has none."""
    try:
        return version("streamgp")
    except PackageNotFoundError:
        return "not installed"


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), package_name="streamgp")
def main() -> None:
    """Online, federated, Byzantine-resilient Gaussian processes over Kafka."""


def run() -> None:
    """The process. One that runs a role is gone when the role has ended: the interpreter is not taken down first."""
    try:
        main(prog_name="streamgp")
    except SystemExit as ended:
        if not ROLES.isdisjoint(sys.argv[1:2]) and isinstance(ended.code, int):
            atexit._run_exitfuncs()
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(ended.code)
        raise


if __name__ == "__main__":
    run()
