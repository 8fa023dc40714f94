"""Runs one role as this process: waits for the broker, checks the topics, works until it is told to stop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import click

from consumers.logs import log_to_stderr
from consumers.options import create_command, fail, needs_broker
from streamgp.errors import StreamGPError
from streamgp.roles.addresses import ReadsWhole
from streamgp.roles.health import Health, HealthServer, Waiting
from streamgp.roles.identity import make_gate, signs
from streamgp.roles.kept import Kept, KeptRole, Place
from streamgp.roles.kinds import Kind, role_name, subscriptions, written_topics
from streamgp.roles.loop import ending_within, stopping
from streamgp.roles.settings import Settings
from streamgp.roles.stores import make_store
from streamgp.roles.training_rows import Ends, Until
from streamgp.wire.clock import Clock, SystemClock
from streamgp.wire.gate import Gate
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Log
from streamgp.wire.topics import preflight


@contextmanager
def serving(role: str, settings: Settings, clock: Clock) -> Iterator[Callable[[Kept], None]]:
    """Health and metrics, where the settings say so, as long as this lasts; what is given is told that it runs."""
    if settings.health.listen is None:
        yield lambda kept: None
        return
    server = HealthServer(Waiting(role, settings.health, clock), settings.health.listen)
    click.echo(f"{role}: health and metrics on http://{server.address}/", err=True)

    def show(kept: Kept) -> None:
        server.health = Health(kept, settings.health, clock)

    try:
        yield show
    finally:
        server.close()


def serve(
    kind: Kind,
    role: KeptRole,
    settings: Settings,
    *,
    station: str | None = None,
    also: tuple[str, ...] = (),
    fresh: bool = False,
) -> None:
    """Run a role over Kafka until SIGTERM or SIGINT; exits with the code of what went wrong, if anything.

    Parameters
    ----------
    also
        Suffixes of further topics to read.
    fresh
        Begin anew, though there was a state.
    """
    name = role_name(kind, settings, station)
    reads = tuple(subscriptions(kind, settings, station=station, also=also))
    at_once = frozenset({settings.topic("queries"), settings.topic("progress")})
    place = Place(name, settings.prefix, reads, at_once, settings.state_topics == "per-role")
    work(kind, role, settings, place=place, fresh=fresh)
    click.echo(f"{name}: stopped", err=True)
    sys.exit(0)


def work(
    kind: Kind,
    role: KeptRole,
    settings: Settings,
    *,
    place: Place,
    signed_as: str | None = None,
    fresh: bool = False,
    first: Callable[[Log, Gate], None] = lambda log, gate: None,
) -> None:
    """Run a role until it is told to stop, or says ``ended()``; exits the process only if something went wrong.

    Parameters
    ----------
    signed_as
        Whose key signs what it writes; by default the role's own.
    first
        Called before the very first start, and with ``fresh``.
    """
    keep = settings.keep
    if settings.health.log == "json":
        log_to_stderr(form="json")
    clock = SystemClock()
    try:
        log = KafkaLog(needs_broker(settings), settings.kafka)
        gate = make_gate(settings, signed_as or place.role, clock)
        with (
            closing(log),
            stopping() as told,
            ending_within(keep.end_within_s, told),
            serving(place.role, settings, clock) as show,  # before the broker is waited for
        ):
            wanted = {*written_topics(kind, settings, place.role), *(s.topic for s in place.reads)}
            sizes = preflight(log, wanted, command=create_command(settings), stop=told)
            if told.is_set():  # while the broker was waited for
                return
            if isinstance(role, ReadsWhole):
                role.sized(sizes)
            stop = Until(role, told) if isinstance(role, Ends) else told
            store = make_store(keep.state, place, log=log, clock=clock)
            kept = Kept(
                role,
                place,
                log=log,
                store=store,
                clock=clock,
                settings=keep,
                gate=gate,
                stop=stop,
                fresh=fresh,
                first=lambda: first(log, gate),
            )
            click.echo(
                f"{place.role}: running on {settings.broker}, topics {settings.prefix}.*; commits every "
                f"{keep.commit_interval_s:g} s, signing {'on' if signs(settings) else 'off'}",
                err=True,
            )
            show(kept)
            kept.run()
    except StreamGPError as error:
        fail(error)
