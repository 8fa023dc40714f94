"""``streamgp scorer``: holds every forecast against the truth, as a process."""

from __future__ import annotations

if __name__ == "__main__":
    from streamgp.start import stop_at_once

    stop_at_once()

from pathlib import Path

import click

from consumers.logs import log_to_stderr
from consumers.options import keeping, settings_of, shared, with_state
from consumers.processes import serve
from streamgp.roles.scorer import ScorerRole


@click.command("scorer")
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
    """Score every method's forecasts once the truth is known: error, NLPD, CRPS and 90% coverage.

    Persistence is among the methods. Stops within 5 s of SIGTERM.
    """
    log_to_stderr()
    settings = with_state(settings_of(settings_file, broker=broker, prefix=prefix), state, keys, health)
    serve("scorer", ScorerRole(settings), settings, fresh=fresh)


if __name__ == "__main__":
    command(prog_name="python -m consumers.scorer")
