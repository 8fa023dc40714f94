"""``streamgp cloud``: the fusing of everybody's answers as a process."""

from __future__ import annotations

if __name__ == "__main__":
    from streamgp.start import stop_at_once

    stop_at_once()

from pathlib import Path

import click

from consumers.logs import log_to_stderr
from consumers.options import keeping, settings_of, shared, with_state
from consumers.processes import serve
from streamgp.roles.cloud import CloudRole


@click.command("cloud")
@shared
@keeping
def command(
    broker: str | None,
    prefix: str | None,
    settings_file: Path | None,
    state: str | None,
    keys: str | None,
    health: str | None,
    fresh: bool,
) -> None:
    """Fuse the answers to each query by the trimmed product of experts and publish the forecasts.

    A window closes when every known agent has answered, or at its deadline. Stops within 5 s of SIGTERM.
    """
    log_to_stderr()
    settings = with_state(settings_of(settings_file, broker=broker, prefix=prefix), state, keys, health)
    serve("cloud", CloudRole(settings), settings, fresh=fresh)


if __name__ == "__main__":
    command(prog_name="python -m consumers.cloud")
