"""``streamgp trainee``: one station's part in a federated training as a process."""

from __future__ import annotations

from pathlib import Path

import click

from consumers.logs import log_to_stderr
from consumers.options import fail, needs_broker, settings_of, shared
from streamgp.errors import StreamGPError
from streamgp.roles.loop import run, stopping
from streamgp.roles.training_client import TrainingClient
from streamgp.roles.training_rows import Until, to_the_end
from streamgp.roles.training_store import FileStore
from streamgp.roles.wiring import training_rows
from streamgp.wire.clock import SystemClock
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Subscription


@click.command("trainee")
@shared
@click.option("--station", required=True, help="Whose observations are learned; they never leave this process.")
@click.option(
    "--own",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File in which the station's own layers survive a restart.",
)
def command(broker: str | None, prefix: str | None, settings_file: Path | None, station: str, own: Path) -> None:
    """Answer every round of a training with a summary of the shared block, until the trainer says that it is done."""
    log_to_stderr()
    settings = settings_of(settings_file, broker=broker, prefix=prefix)
    log, clock, training = KafkaLog(needs_broker(settings), settings.kafka), SystemClock(), settings.training
    try:
        with stopping() as stop:
            rows = training_rows(settings, station)
            mine = Subscription(settings.observations_topic(station), key=station)
            rows.feed(list(to_the_end(log.reader([mine]))))  # all that is known, before the first answer
            client = TrainingClient(
                station, rows, prefix=settings.prefix, clock=clock, run=training.run, store=FileStore(own)
            )
            reads = [Subscription(settings.topic("globals")), mine]
            run(client, log.reader(reads), log.writer(), clock, Until(client, stop))
    except StreamGPError as error:
        fail(error)
    finally:
        log.close()
    click.echo(f"trainee {station}: {'done' if client.finished else 'stopped'}", err=True)


if __name__ == "__main__":
    command(prog_name="python -m consumers.trainee")
