"""``streamgp trainee``: one station's part in a federated training as a process."""

from __future__ import annotations

if __name__ == "__main__":
    from streamgp.start import stop_at_once

    stop_at_once()

from pathlib import Path

import click

from consumers.logs import log_to_stderr
from consumers.options import check_station, fail, keeping, settings_of, shared, with_state
from consumers.processes import work
from streamgp.errors import StreamGPError
from streamgp.roles.place import Place
from streamgp.roles.training_client import TrainingClient
from streamgp.roles.training_store import FileStore
from streamgp.roles.wiring import role_name, subscriptions, training_rows
from streamgp.wire.clock import SystemClock


@click.command("trainee")
@shared
@keeping
@click.option(
    "--station", required=True, metavar="NAME", help="Whose observations are learned; they never leave this process."
)
@click.option(
    "--own",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to keep the station's own layers in as well, and to begin with them where there is no state yet.  "
    "[default: none]",
)
def command(
    broker: str | None,
    prefix: str | None,
    settings_file: Path | None,
    state: str | None,
    keys: str | None,
    health: str | None,
    fresh: bool,
    station: str,
    own: Path | None,
) -> None:
    """Answer every round of a training with a summary of the shared block, until the trainer says that it is done.

    It goes on where it was killed, answers no round twice, and signs as the station's agent.
    """
    check_station(station)
    log_to_stderr()
    settings = with_state(settings_of(settings_file, broker=broker, prefix=prefix), state, keys, health)
    training = settings.training
    name = role_name("trainee", settings, station)
    reads = tuple(subscriptions("trainee", settings, station=station))
    place = Place(name, settings.prefix, reads, own_state=settings.state_topics == "per-role")

    rows = training_rows(settings, station)
    try:
        client = TrainingClient(
            station,
            rows,
            prefix=settings.prefix,
            clock=SystemClock(),
            run=training.run,
            store=None if own is None else FileStore(own),
            read_first=True,
        )
    except StreamGPError as error:  # the file of its own layers
        fail(error)
    work("trainee", client, settings, place=place, signed_as=f"agent.{station}", fresh=fresh)
    click.echo(f"{name}: {'done' if client.finished else 'stopped'}", err=True)


if __name__ == "__main__":
    command(prog_name="python -m consumers.trainee")
