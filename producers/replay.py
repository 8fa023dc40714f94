"""``streamgp replay``: send a data set or files as observations."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from consumers.options import fail, needs_broker, settings_of, shared
from producers import report
from producers.content import Skipped
from producers.loading import Choice, Load, load_dataset, load_files
from producers.pacing import Pacer
from producers.replay_options import file_options, names, replay_options
from producers.resume import check_place, read_left, write_left
from producers.sending import Outcome, Sender, outgoing
from streamgp.errors import BrokerUnavailableError, DatasetError, DeliveryError, SettingsError, StreamGPError
from streamgp.roles.settings import Settings
from streamgp.wire.clock import SystemClock
from streamgp.wire.deadletter import dead_letter
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Log, Message, Writer
from streamgp.wire.topics import preflight, topic_name


@click.command("replay")
@shared
@replay_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else there.")
@click.pass_obj
def command(
    log: Log | None,
    /,
    *,
    broker: str | None,
    prefix: str | None,
    settings_file: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Send a data set or files as observations, in the order of their own time across stations.

    Without --speed and --rate as fast as the broker takes them. Each observation carries its own time; the
    record's timestamp is the time of sending. Ends with 1 if any record was not acknowledged or none was there
    to send, with 130 if it was stopped.
    """
    try:
        settings = settings_of(settings_file, broker=broker, prefix=prefix)
        load = _load(given)
        if given["dry_run"]:
            outcome, letters = Outcome(), 0
        else:
            outcome, letters = _send(load, settings, log or _kafka(settings, given["timeout_s"]), given)
    except StreamGPError as error:
        fail(error)
    facts: dict[str, Any] = {"skipped": load.skipped, "missing": load.missing, "dead_letters": letters}
    if as_json:
        click.echo(json.dumps({"read": load.count, **report.as_object(outcome, **facts)}))
    else:
        dry = f"read {load.count}, nothing sent; " if given["dry_run"] else ""
        click.echo(dry + report.as_text(outcome, **facts))
    if outcome.left and given["resume"] is None:
        _tell("--resume FILE would have kept them for another try")
    if load.why_none:
        fail(DatasetError(f"nothing to send: {load.why_none}"))
    sys.exit(130 if outcome.stopped and not outcome.failed else 1 if outcome.failed else 0)


def _load(given: dict[str, Any]) -> Load:
    """What an earlier run left, or the data set, or the files."""
    left = None if given["resume"] is None else read_left(given["resume"])
    if left is not None:
        _tell(f"{given['resume']}: sending the {len(left)} records that an earlier run left, and no others")
        return Load(left, len(left))
    if (given["dataset"] is None) == (not given["files"]):
        raise SettingsError("give either --dataset NAME or --file PATH")
    choice = Choice(names(given["station"]), given["start"], given["end"], given["limit"])
    if given["dataset"] is not None:
        return load_dataset(given["dataset"], choice, target=given["target"])
    return load_files(given["files"], file_options(given), choice, tell=_tell)


def _send(load: Load, settings: Settings, log: Log, given: dict[str, Any]) -> tuple[Outcome, int]:
    """Everything sent, then the faulty rows as dead letters; what did not arrive is kept."""
    if given["resume"] is not None:
        check_place(given["resume"])
    dead = topic_name(settings.prefix, "dead-letter")
    topics = sorted({settings.observations_topic(station) for station in settings.stations or ("",)})
    pacer = Pacer(SystemClock(), speed=given["speed"], rate=given["rate"])
    try:
        log.topics()
        preflight(log, [*topics, dead] if load.faults else topics)
    except BrokerUnavailableError as error:
        _tell(f"{error}; waiting for it up to {given['timeout_s']:g} s")
    writer = log.writer()
    try:
        with _stopping() as stop, report.progress(load.count, label="sending") as step:
            # Twice the time and a little: by then the client itself has given each record up, and says which.
            known_s = 2.0 * given["timeout_s"] + 5.0
            sender = Sender(writer, pacer, pause=stop.wait, timeout_s=known_s, progress=step)
            outcome = sender.send(
                (o.time_ms, outgoing(o, settings.observations_topic(o.station))) for o in load.observations
            )
            letters = 0 if stop.is_set() else _bury(load.faults, writer, topic=dead, timeout_s=given["timeout_s"])
    finally:
        writer.close()
    if given["resume"] is not None:
        write_left(given["resume"], outcome.left)
    return outcome, letters


def _bury(faults: list[Skipped], writer: Writer, *, topic: str, timeout_s: float) -> int:
    """Write faulty rows to the dead letter, where a person can look at them; how many arrived."""
    if not faults:
        return 0
    letters = [
        dead_letter(
            Message(f"file:{fault.source}", 0, fault.line, fault.station, fault.original),
            topic=topic,
            key=fault.station,
            reason=fault.reason,
            field=fault.field,
        )
        for fault in faults
    ]
    before = writer.stats.acknowledged
    writer.write(letters)
    try:
        writer.flush(timeout_s)
    except DeliveryError as error:
        _tell(f"dead letters: {error}")
    return writer.stats.acknowledged - before


def _kafka(settings: Settings, timeout_s: float) -> Log:
    """The broker's log, with the time that a record may take unless the settings file names it."""
    producer = {"delivery_timeout_ms": round(timeout_s * 1000), "request_timeout_ms": round(timeout_s * 900)}
    kafka: Mapping[str, Any] = settings.kafka
    return KafkaLog(needs_broker(settings), {**kafka, "producer": {**producer, **kafka.get("producer", {})}})


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Set by SIGINT and SIGTERM: what was begun is finished, the rest is kept."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(line: str) -> None:
    click.echo(line, err=True)


if __name__ == "__main__":
    command(prog_name="python -m producers.replay")
