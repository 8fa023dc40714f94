"""``streamgp cloud``: the fusing of everybody's answers as a process."""

from __future__ import annotations

from pathlib import Path

import click

from consumers.options import log_to_stderr, settings_of, shared
from consumers.processes import serve
from streamgp.roles.cloud import CloudRole


@click.command("cloud")
@shared
def command(broker: str | None, prefix: str | None, settings_file: Path | None) -> None:
    """Fuse the answers to each query by the trimmed product of experts and publish the forecasts.

    A window closes when every known agent has answered, or at its deadline. Stops within 5 s of SIGTERM.
    """
    log_to_stderr()
    settings = settings_of(settings_file, broker=broker, prefix=prefix)
    serve("cloud", CloudRole(settings), settings)


if __name__ == "__main__":
    command(prog_name="python -m consumers.cloud")
