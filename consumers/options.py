"""What all commands share: where the broker is, under which prefix, and with which settings."""

from __future__ import annotations

import math
import os
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import numpy as np
from msgspec.structs import replace
from threadpoolctl import threadpool_limits

from streamgp.errors import (
    BrokerUnavailableError,
    CheckpointError,
    FencedError,
    SettingsError,
    StreamGPError,
    TopicMissingError,
)
from streamgp.roles.settings import Settings, load_settings

F = TypeVar("F", bound=Callable[..., Any])


class Number(click.FloatRange):
    """A finite number of a range: click takes a NaN for being in every range, and an infinity where there is no end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{number} is no finite number.", param, ctx)
        return number


#: characters of a station's name: with a time and a horizon behind it, it is an id (of 256 at most)
MOST_STATION = 230
#: exit codes that mean something; 1 is everything else that went wrong, 2 is click's: wrong use
EXIT = {SettingsError: 3, TopicMissingError: 4, BrokerUnavailableError: 5, FencedError: 6, CheckpointError: 7}


def shared(command: F) -> F:
    """The options ``--broker``, ``--prefix`` and ``--settings``."""
    for option in (
        click.option(
            "--settings",
            "settings_file",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="TOML file; an unknown key is an error.  [default: none; every setting has one]",
        ),
        click.option("--prefix", help="Topics are PREFIX.observations and so on.  [default: streamgp]"),
        click.option("--broker", metavar="HOST:PORT", help="Apache Kafka to work with.  [default: that of --settings]"),
    ):
        command = option(command)
    return command


def with_keys_option(command: F) -> F:
    """The option ``--keys`` of whoever signs."""
    return click.option(
        "--keys",
        metavar="DIR",
        envvar="STREAMGP_KEYS",
        show_envvar=True,
        help="Where `streamgp keys make` wrote the keys.  [default: keys]",
    )(command)


def keeping(command: F) -> F:
    """The options of a role whose state is kept: ``--state``, ``--fresh``, ``--keys`` and ``--health``."""
    for option in (
        click.option(
            "--fresh",
            is_flag=True,
            help="Begin anew, though there is a state: everything is learned again, and what was answered before is "
            "answered a second time under the same ids. The old snapshots go.",
        ),
        click.option(
            "--health",
            metavar="HOST:PORT",
            envvar="STREAMGP_HEALTH",
            show_envvar=True,
            help="Serve /healthz and Prometheus' /metrics there.  [default: not served]",
        ),
        with_keys_option,
        click.option(
            "--state",
            metavar="DIR|topic",
            envvar="STREAMGP_STATE",
            show_envvar=True,
            help="Where the state is kept: a folder, or the snapshots topic, so that the role can be moved to another "
            "machine.  [default: a folder in the user's state home]",
        ),
    ):
        command = option(command)
    return command


def with_state(settings: Settings, state: str | None, keys: str | None, health: str | None) -> Settings:
    """The settings, with the options ``--state``, ``--keys`` and ``--health`` put over them; ends if they cannot be."""
    if health is not None:
        settings = replace(settings, health=replace(settings.health, listen=health))
        try:
            settings.health.address()
        except SettingsError as error:
            fail(error)
    if state is not None:
        settings = replace(settings, keep=replace(settings.keep, state=state))
    return with_keys(settings, keys)


def with_keys(settings: Settings, keys: str | None) -> Settings:
    """The settings, with the option ``--keys`` put over them."""
    return settings if keys is None else replace(settings, signing=replace(settings.signing, keys=keys))


def settings_of(settings_file: Path | None, *, broker: str | None, prefix: str | None) -> Settings:
    """The settings file with the options put over it; ends the process if it cannot be."""
    try:
        return load_settings(settings_file, broker=broker, prefix=prefix)
    except SettingsError as error:
        fail(error)


def needs_broker(settings: Settings) -> str:
    """The broker's address; ends the process where none is named."""
    if settings.broker is None:
        fail(SettingsError("no broker: give --broker HOST:PORT, or `broker` in the settings file"))
    return settings.broker


def one_thread() -> None:
    """Keep BLAS to one thread in this process: a station's matrices are small, and its neighbours run beside it."""
    threadpool_limits(limits=1)
    # the same for the libraries that the model, imported when it is chosen, brings with it: they look here when loaded
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    # glibc gives memory back when twice the largest block ever freed lies idle, and fetching its pages anew for every
    # temporary costs as much as the work on it: a fit of 256 rows takes half the time after this, untouched, block
    np.empty(4_000_000)


def check_station(station: str) -> None:
    """End with a wrong setting if no station can be called that: a name is part of the ids of its questions."""
    if not station.strip():
        fail(SettingsError("--station must not be empty"))
    if len(station) > MOST_STATION:
        fail(SettingsError(f"--station has {len(station)} characters, of {MOST_STATION} at most"))
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in station):
        fail(SettingsError(f"--station {station!r} holds a control character, or bytes that are no text"))


def create_command(settings: Settings) -> str:
    """The command that makes the topics of these settings."""
    return f"streamgp topics create --broker {settings.broker} --prefix {settings.prefix}"


def fail(error: StreamGPError) -> NoReturn:
    """Say what is wrong in one line and end with the code of its kind."""
    click.echo(f"error: {error}", err=True)
    sys.exit(next((code for kind, code in EXIT.items() if isinstance(error, kind)), 1))
