"""``streamgp topics``: make and list the topics of a network."""

from __future__ import annotations

import json
from pathlib import Path

import click

from consumers.options import fail, needs_broker, settings_of, shared
from streamgp.errors import StreamGPError
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.topics import topic_plan


@click.group("topics")
def command() -> None:
    """Make and list the topics of a network."""


@command.command("create")
@shared
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else there.")
def create(broker: str | None, prefix: str | None, settings_file: Path | None, as_json: bool) -> None:
    """Make the topics that do not exist yet; those that do are left as they are."""
    settings = settings_of(settings_file, broker=broker, prefix=prefix)
    try:
        made = KafkaLog(needs_broker(settings), settings.kafka).create_topics(topic_plan(settings.prefix))
    except StreamGPError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps({"created": made}))
        return
    click.echo("\n".join(f"created {name}" for name in made) or "all topics exist")


@command.command("list")
@shared
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else there.")
def show(broker: str | None, prefix: str | None, settings_file: Path | None, as_json: bool) -> None:
    """List the topics under the prefix with their partitions, and those that are missing."""
    settings = settings_of(settings_file, broker=broker, prefix=prefix)
    try:
        topics = KafkaLog(needs_broker(settings), settings.kafka).topics()
    except StreamGPError as error:
        fail(error)
    wanted = [spec.name for spec in topic_plan(settings.prefix)]
    there = {name: topics[name] for name in wanted if name in topics}
    missing = [name for name in wanted if name not in topics]
    if as_json:
        click.echo(json.dumps({"topics": there, "missing": missing}))
        return
    for name, partitions in there.items():
        click.echo(f"{name}  {partitions} partition{'s' if partitions != 1 else ''}")
    for name in missing:
        click.echo(f"{name}  missing: `streamgp topics create` makes it")
