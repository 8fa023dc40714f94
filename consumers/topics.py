"""``streamgp topics``: make and list the topics of a network."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from consumers.options import fail, needs_broker, settings_of, shared
from streamgp.errors import SettingsError, StreamGPError
from streamgp.roles.access import rules
from streamgp.roles.kinds import own_roles
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
        made = KafkaLog(needs_broker(settings), settings.kafka).create_topics(
            topic_plan(settings.prefix, stations=settings.own_topics(), roles=own_roles(settings))
        )
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
    wanted = [
        spec.name for spec in topic_plan(settings.prefix, stations=settings.own_topics(), roles=own_roles(settings))
    ]
    there = {name: topics[name] for name in wanted if name in topics}
    missing = [name for name in wanted if name not in topics]
    if as_json:
        click.echo(json.dumps({"topics": there, "missing": missing}))
        return
    for name, partitions in there.items():
        click.echo(f"{name}  {partitions} partition{'s' if partitions != 1 else ''}")
    for name in missing:
        click.echo(f"{name}  missing: `streamgp topics create` makes it")


@command.command("acl")
@shared
@click.option("--principal", default="User:{role}", show_default=True,
              help="How the broker names a role's user; {role} is agent.NAME, cloud or scorer.")  # fmt: skip
@click.option("--training", is_flag=True, help="Those of `streamgp trainer` and `streamgp trainee` as well.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else there.")
def acl(
    broker: str | None, prefix: str | None, settings_file: Path | None, principal: str, training: bool, as_json: bool
) -> None:
    """Print the access rules of every role, as `kafka-acls.sh` takes them. The settings name the stations."""
    settings = settings_of(settings_file, broker=broker, prefix=prefix)
    if not settings.stations:
        fail(SettingsError("the settings name no `stations`: whose rules?"))
    found = rules(settings, training=training)
    if as_json:
        rows = [{**asdict(rule), "principal": principal.format(role=rule.role)} for rule in found]
        click.echo(json.dumps({"rules": rows}))
        return
    where = f"--bootstrap-server {settings.broker or 'HOST:PORT'}"
    for rule in found:
        click.echo(f"kafka-acls.sh {where} {rule.command(principal.format(role=rule.role))}")
