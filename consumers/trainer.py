"""``streamgp trainer``: the server of a federated training as a process."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from consumers.logs import log_to_stderr
from consumers.options import fail, needs_broker, settings_of, shared
from streamgp.errors import StreamGPError
from streamgp.roles.loop import run, stopping
from streamgp.roles.trainer import TrainingServer
from streamgp.roles.training_rows import Until, newest_state
from streamgp.wire.clock import SystemClock
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Subscription

#: exit code of a training that never had enough clients
GAVE_UP = 8


@click.command("trainer")
@shared
def command(broker: str | None, prefix: str | None, settings_file: Path | None) -> None:
    """Lead the rounds of a training: collect the stations' updates, move the shared block, publish it.

    The settings' table [training] says what is trained. It goes on with its run where the topic `globals` says, and
    ends with the last round; exit code 8 means that there were never enough stations. No row ever reaches it.
    """
    log_to_stderr()
    settings = settings_of(settings_file, broker=broker, prefix=prefix)
    log, clock, training = KafkaLog(needs_broker(settings), settings.kafka), SystemClock(), settings.training
    try:
        with stopping() as stop:
            resume = newest_state(log.reader([Subscription(settings.topic("globals"))]), training.run)
            server = TrainingServer(training, prefix=settings.prefix, clock=clock, resume=resume)
            click.echo(f"trainer: run {training.run} from round {server.round}", err=True)
            reader = log.reader(
                [Subscription(settings.topic("updates"))], group=f"{settings.prefix}.trainer.{training.run}"
            )
            run(server, reader, log.writer(), clock, Until(server, stop))
    except StreamGPError as error:
        fail(error)
    finally:
        log.close()
    click.echo(f"trainer: {server.outcome or 'stopped'} at round {server.round}", err=True)
    sys.exit(GAVE_UP if server.outcome == "gave_up" else 0)


if __name__ == "__main__":
    command(prog_name="python -m consumers.trainer")
