"""``streamgp dead-letters``: what was refused, why, and the same records once more."""

from __future__ import annotations

import base64
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from consumers.options import create_command, fail, needs_broker, settings_of, shared
from streamgp.errors import DecodeError, DeliveryError, StreamGPError
from streamgp.roles.settings import Settings
from streamgp.wire.clock import SystemClock
from streamgp.wire.deadletter import DeadLetter, kind_of, read_dead_letter
from streamgp.wire.journal import read_all
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Log, Message, Outgoing, Subscription
from streamgp.wire.topics import preflight

F = TypeVar("F", bound=Callable[..., Any])
#: what stations and those who ask write: a letter may name any topic, and only to these is a record written again
INPUTS = frozenset({"observations", "queries", "progress", "predictions", "station-forecasts", "updates"})
#: exit code of a replay that could not write all that it should have
NOT_ALL = 10


def _choosing(command: F) -> F:
    """Which letters: all filters that are given must hold."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else there."),
        click.option(
            "--topic", metavar="SUFFIX", help="Only records of this topic, e.g. observations.  [default: all]"
        ),
        click.option("--reason", metavar="TEXT", help="Only where the reason holds this text.  [default: all]"),
        click.option(
            "--station", metavar="NAME", help="Only letters of this station, or refused by it.  [default: all]"
        ),
    ):
        command = option(command)
    return command


@click.group("dead-letters")
def command() -> None:
    """List what was refused, with where it came from and why, and write records once more."""


@command.command("list")
@shared
@_choosing
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Show the newest so many.")
@click.pass_obj
def show(
    log: Log | None, /, broker: str | None, prefix: str | None, settings_file: Path | None, limit: int, **given: Any
) -> None:
    """Count refused records by reason, and show the newest."""
    settings = settings_of(settings_file, broker=broker, prefix=prefix)
    try:
        log = log or KafkaLog(needs_broker(settings), settings.kafka)
        found = list(_chosen(log, settings, given, strays=Counter()))
    except StreamGPError as error:
        fail(error)
    counts = Counter(kind_of(letter.reason) for _, letter in found)
    newest = sorted(found, key=lambda pair: pair[0].timestamp_ms)[-limit:]
    if given["as_json"]:
        rows = [_row(message, letter) for message, letter in newest]
        click.echo(json.dumps({"total": len(found), "reasons": dict(counts.most_common()), "letters": rows}))
        return
    for reason, count in counts.most_common():
        click.echo(f"{count:8d}  {_printable(reason)}")
    for message, letter in newest:
        field = f" ({letter.field})" if letter.field else ""
        value = (letter.value or b"")[:480].decode("utf-8", "replace")[:120]
        place = f"{letter.topic}[{letter.partition}]@{letter.offset}"
        click.echo(_printable(f"{message.key}  {place}  {letter.reason}{field}  {value}"))
    if not found:
        click.echo("no dead letters")


@command.command("replay")
@shared
@_choosing
@click.option("--dry-run", is_flag=True, help="Only say how many there are.")
@click.pass_obj
def replay(
    log: Log | None, /, broker: str | None, prefix: str | None, settings_file: Path | None, dry_run: bool, **given: Any
) -> None:
    """Write refused records to their topics once more, in the order in which they were refused.

    For when the cause is mended: a setting of the door, an older release. A record is written once, however many
    roles refused it and however often it was replayed. What is refused again becomes a dead letter again; what was
    learned meanwhile is refused as a duplicate, so a second replay does no harm. A reading older than what its station
    has learned since is late, whatever the settings: replay before new readings come. A record that was refused for its
    signature stays refused, and is not written.

    Records go where stations and those who ask write (observations, queries, answers), and nowhere else, whatever a
    letter says. One that cannot be written, for it was cut or its topic is none of these, is counted with the
    reason, the others are written, and the exit code is 10.
    """
    settings = settings_of(settings_file, broker=broker, prefix=prefix)
    again: dict[tuple[str, bytes], Outgoing] = {}
    stays, cannot, written = Counter[str](), Counter[str](), 0
    try:
        log = log or KafkaLog(needs_broker(settings), settings.kafka)
        chosen = sorted(_chosen(log, settings, given, strays=stays), key=lambda pair: pair[0].timestamp_ms)
        sizes = log.topics()
        for _, letter in chosen:
            if letter.reason.startswith("refused: "):
                stays[f"{letter.reason}, which it stays"] += 1
            elif letter.topic.startswith("file:"):
                stays["rows of files: mend the file and load it again"] += 1
            elif (fault := _fault(letter, settings, sizes)) is not None:
                cannot[fault] += 1
            elif letter.identity not in again:
                try:
                    again[letter.identity] = letter.again()
                except ValueError as error:
                    cannot[str(error)] += 1
        if again and not dry_run:
            written = _write([*again.values()], log, cannot)
    except StreamGPError as error:
        fail(error)
    if given["as_json"]:
        click.echo(json.dumps({"found": len(again), "written": written, "cannot": {**stays, **cannot}}))
    else:
        click.echo(f"{len(again)} found, {written} written")
        for reason, count in {**stays, **cannot}.items():
            click.echo(f"{count} not: {_printable(reason)}")
    if cannot:
        sys.exit(NOT_ALL)


def _fault(letter: DeadLetter, settings: Settings, sizes: dict[str, int]) -> str | None:
    """Why a record is not written to where its letter says that it came from."""
    if not letter.topic.startswith(f"{settings.prefix}."):
        return f"topic {letter.topic[:80]!r} is none of {settings.prefix}"
    if settings.suffix(letter.topic) not in INPUTS:
        return f"topic {letter.topic[:80]!r} is not one that stations and those who ask write"
    if letter.topic not in sizes:
        return f"topic {letter.topic[:80]!r} does not exist"
    if not (0 <= letter.partition < sizes[letter.topic] and letter.offset >= 0):
        return f"topic {letter.topic!r} has no partition {letter.partition} with an offset {letter.offset}"
    return None


def _write(records: list[Outgoing], log: Log, cannot: Counter[str]) -> int:
    """Write them; how many are confirmed. The others are counted by reason."""
    writer = log.writer()
    try:
        writer.write(records)
        writer.flush(60.0)
    except DeliveryError as error:
        for _, reason in error.failed:
            cannot[reason.strip().splitlines()[0][:200] if reason.strip() else "not confirmed"] += 1
        if error.pending:
            cannot["not confirmed in time"] += error.pending
    finally:
        writer.close()
    return writer.stats.acknowledged


def _chosen(
    log: Log, settings: Settings, given: dict[str, Any], *, strays: Counter[str]
) -> Iterator[tuple[Message, DeadLetter]]:
    """The letters that all filters let through; what is no letter is counted, where no filter could say."""
    preflight(log, [settings.topic("dead-letter")], command=create_command(settings), patience_s=0.0)
    reader = log.reader([Subscription(settings.topic("dead-letter"))])
    try:
        messages = read_all(reader, SystemClock())
    finally:
        reader.close()
    for message in messages:
        try:
            letter = read_dead_letter(message)
        except DecodeError as error:
            if given["station"] in (None, message.key) and not (given["reason"] or given["topic"]):
                strays[f"no dead letter: {error}"] += 1
            continue
        wanted = (
            given["station"] in (None, message.key, letter.key)
            and (given["reason"] or "") in letter.reason
            and (given["topic"] is None or _is_of(letter.topic, settings, given["topic"]))
        )
        if wanted:
            yield message, letter


def _is_of(topic: str, settings: Settings, suffix: str) -> bool:
    """Whether a topic has that suffix; a station's own observations are observations."""
    own = suffix == "observations" and topic.startswith(settings.topic("observations."))
    return own or topic == settings.topic(suffix)


def _printable(text: str) -> str:
    """Strangers wrote it: no new line, and nothing that a terminal would do."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _row(message: Message, letter: DeadLetter) -> dict[str, Any]:
    value = letter.value or b""
    try:
        shown = {"value": value.decode()}
    except UnicodeDecodeError:
        shown = {"value_base64": base64.b64encode(value).decode()}
    origin = {"topic": letter.topic, "partition": letter.partition, "offset": letter.offset, "key": letter.key}
    return {"by": message.key, **origin, "reason": letter.reason, "field": letter.field, **shown}


if __name__ == "__main__":
    command(prog_name="python -m consumers.dead_letters")
