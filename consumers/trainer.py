"""``streamgp trainer``: the server of a federated training as a process."""

from __future__ import annotations

if __name__ == "__main__":
    from streamgp.start import stop_at_once

    stop_at_once()

import sys
from pathlib import Path

import click

from consumers.logs import log_to_stderr
from consumers.options import keeping, settings_of, shared, with_state
from consumers.processes import work
from streamgp.roles.kinds import role_name, subscriptions
from streamgp.roles.place import Place
from streamgp.roles.refusals import Refusals
from streamgp.roles.settings import Settings
from streamgp.roles.trainer import TrainingServer
from streamgp.roles.training_rows import newest_state
from streamgp.wire.clock import SystemClock
from streamgp.wire.gate import Gate
from streamgp.wire.log import Log, Subscription
from streamgp.wire.records import GlobalState

#: exit code of a training that never had enough clients
GAVE_UP = 8


@click.command("trainer")
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
    """Lead the rounds of a training: collect the stations' updates, move the shared block, publish it.

    The settings' table [training] says what is trained. It goes on where it was killed; where its state is lost,
    with --fresh from the newest record of its run in the topic `globals`. It ends with the last round; exit code 8
    means that there were never enough stations. It signs as the cloud. No row ever reaches it.
    """
    log_to_stderr()
    settings = with_state(settings_of(settings_file, broker=broker, prefix=prefix), state, keys, health)
    reads = tuple(subscriptions("trainer", settings))
    own = settings.state_topics == "per-role"
    place = Place(role_name("trainer", settings), settings.prefix, reads, own_state=own)

    server = TrainingServer(settings.training, prefix=settings.prefix, clock=SystemClock())

    def resume(log: Log, gate: Gate) -> None:
        server.resume(newest(log, gate, settings))

    work("trainer", server, settings, place=place, signed_as="cloud", fresh=fresh, first=resume)
    click.echo(f"{place.role}: {server.outcome or 'stopped'} at round {server.round}", err=True)
    sys.exit(GAVE_UP if server.outcome == "gave_up" else 0)


def newest(log: Log, gate: Gate, settings: Settings) -> GlobalState | None:
    """The newest record of the run that the gate lets in; what it does not is told as a role tells it."""
    refusals = Refusals(role_name("trainer", settings), settings.topic("dead-letter"))
    reader = log.reader([Subscription(settings.topic("globals"))])
    return newest_state(reader, settings.training.run, believe=lambda m: refusals.passes(gate, m))


if __name__ == "__main__":
    command(prog_name="python -m consumers.trainer")
