"""Runs one role as this process: waits for the broker, checks the topics, works until it is told to stop."""

from __future__ import annotations

import sys

import click

from consumers.options import create_command, fail, needs_broker
from streamgp.errors import StreamGPError
from streamgp.roles.loop import Role, run, stopping
from streamgp.roles.settings import Settings
from streamgp.roles.wiring import Kind, subscriptions
from streamgp.wire.clock import SystemClock
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.topics import preflight, topic_plan


def serve(
    kind: Kind, role: Role, settings: Settings, *, station: str | None = None, also: tuple[str, ...] = ()
) -> None:
    """Run a role over Kafka until SIGTERM or SIGINT; exits with the code of what went wrong, if anything.

    Parameters
    ----------
    also
        Suffixes of further topics to read.
    """
    name = " ".join(filter(None, (kind, station)))
    log = KafkaLog(needs_broker(settings), settings.kafka)
    reads = subscriptions(kind, settings, station=station, also=also)
    try:
        with stopping() as stop:
            preflight(
                log, [spec.name for spec in topic_plan(settings.prefix)], command=create_command(settings), stop=stop
            )
            click.echo(f"{name}: running on {settings.broker}, topics {settings.prefix}.*", err=True)
            run(role, log.reader(reads), log.writer(), SystemClock(), stop)
    except StreamGPError as error:
        fail(error)
    click.echo(f"{name}: stopped", err=True)
    sys.exit(0)
