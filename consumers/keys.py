"""``streamgp keys``: make, list, replace and revoke the keys that records are signed with."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec.structs import replace

from consumers.options import Number, fail
from streamgp.errors import SettingsError, StreamGPError
from streamgp.roles.identity import key_path
from streamgp.wire.keys import LIST, Allowed, AllowList, make_key, read_list, write_list, write_private

#: who signs beside the agents; a trainer signs as the cloud, a trainee as its station's agent
ROLES = ("cloud", "scorer", "asker")

F = TypeVar("F", bound=Callable[..., Any])
_FOLDER = click.option(
    "--keys",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("keys"),
    show_default=True,
    envvar="STREAMGP_KEYS",
    help="Folder of the private keys and of allowed.toml.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else there.")


def _roles(stations: tuple[str, ...], roles: tuple[str, ...]) -> list[str]:
    wanted = [*(f"agent.{station}" for station in stations), *roles]
    if not wanted or not all(name.strip() for name in wanted):
        raise SettingsError("name at least one --station or --role")
    if unknown := [role for role in roles if role not in ROLES and not role.startswith("agent.")]:
        raise SettingsError(f"no role is called {', '.join(unknown)}: there are {', '.join(ROLES)}, and agent.STATION")
    return list(dict.fromkeys(wanted))


@click.group("keys")
def command() -> None:
    """Make, list, rotate and revoke the Ed25519 keys that records are signed with.

    A private key stays on the machine of its role; allowed.toml goes to all of them. Running roles look at it
    again by themselves.
    """


@command.command("make")
@_FOLDER
@_JSON
@click.option(
    "--station", "stations", multiple=True, metavar="NAME", help="A key for the agent of this station.  [default: none]"
)
@click.option(
    "--role", "roles", multiple=True, metavar="ROLE", help="A key for cloud, scorer or asker.  [default: none]"
)
def make(folder: Path, as_json: bool, stations: tuple[str, ...], roles: tuple[str, ...]) -> None:
    """Make keys, and allow them. A role that has a key already is left as it is."""
    try:
        known = read_list(folder / LIST)
        wanted = _roles(stations, roles)
        there = [role for role in wanted if key_path(folder, role).exists()]
        made = [_make(key_path(folder, role), role) for role in wanted if role not in there]
        write_list(folder / LIST, [*known, *made])
    except StreamGPError as error:
        fail(error)
    for role in there:
        click.echo(f"{role} has a key already, left as it is: `streamgp keys rotate` replaces it", err=True)
    if made or as_json:
        _show(made, as_json, "made")


@command.command("list")
@_FOLDER
@_JSON
def show(folder: Path, as_json: bool) -> None:
    """List the keys that are allowed, those that ended, and those that are revoked."""
    try:
        known = read_list(folder / LIST)
        AllowList.of(known)
    except StreamGPError as error:
        fail(error)
    _show(known, as_json, "keys")


@command.command("rotate")
@_FOLDER
@_JSON
@click.option(
    "--station", "stations", multiple=True, metavar="NAME", help="The agent of this station.  [default: none]"
)
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Cloud, scorer or asker.  [default: none]")
@click.option("--overlap-hours", type=Number(0, 87_600), default=24.0, show_default=True,
              help="How long what the old key signs is still believed.")  # fmt: skip
def rotate(
    folder: Path, as_json: bool, stations: tuple[str, ...], roles: tuple[str, ...], overlap_hours: float
) -> None:
    """Make new keys and let the old ones end. Roles that run take their new keys by themselves.

    Within a second, once allowed.toml has the key beside them: bring that file to all machines first, and then each
    private key to its own.
    """
    end = datetime.now(timezone.utc) + timedelta(hours=overlap_hours)
    until = end.isoformat(timespec="seconds")
    try:
        wanted, known = _roles(stations, roles), read_list(folder / LIST)
        having = {e.role for e in known}
        if without := [r for r in wanted if r not in having and not key_path(folder, r).exists()]:
            raise SettingsError(f"nothing to rotate: no key of {', '.join(without)}; `streamgp keys make` makes one")
        ending = [e for e in known if e.role in wanted and not e.revoked and e.until_ms > end.timestamp() * 1000]
        ended = [replace(e, until=until) if e in ending else e for e in known]
        fresh = [key_path(folder, role).with_suffix(".pem.new") for role in wanted]
        for path in fresh:
            path.unlink(missing_ok=True)
        made = [_make(path, role) for path, role in zip(fresh, wanted, strict=True)]
        write_list(folder / LIST, [*ended, *made])
        for path in fresh:  # last, so that whoever sees a new key is allowed to sign with it
            own = path.with_suffix("")
            if own.exists():
                own.replace(own.with_suffix(".pem.old"))
            path.replace(own)
    except StreamGPError as error:
        fail(error)
    _show(made, as_json, "made")


@command.command("revoke")
@_FOLDER
@_JSON
@click.argument("which", nargs=-1, required=True, metavar="ID|ROLE...")
def revoke(folder: Path, as_json: bool, which: tuple[str, ...]) -> None:
    """Refuse all that these keys sign or signed: an id as `list` shows it, or a role for all of its keys."""
    try:
        known = read_list(folder / LIST)
        hit = [e for e in known if e.role in which or e.id.hex() in which]
        unknown = set(which) - {e.role for e in known} - {e.id.hex() for e in known}
        if unknown:
            raise SettingsError(f"no such key: {', '.join(sorted(unknown))}")
        write_list(folder / LIST, [replace(e, revoked=True) if e in hit else e for e in known])
    except StreamGPError as error:
        fail(error)
    _show([replace(e, revoked=True) for e in hit], as_json, "revoked")


def _make(path: Path, role: str) -> Allowed:
    pem, entry = make_key(role)
    write_private(path, pem)
    return entry


def _show(entries: list[Allowed], as_json: bool, name: str) -> None:
    if as_json:
        rows = [
            {"id": e.id.hex(), "role": e.role, "public": e.public, "until": e.until, "revoked": e.revoked}
            for e in entries
        ]
        click.echo(json.dumps({name: rows}))
        return
    for e in entries:
        state = "revoked" if e.revoked else f"until {e.until}" if e.until else "allowed"
        click.echo(f"{e.id.hex()}  {e.role}  {state}")
    if not entries:
        click.echo("no keys")


if __name__ == "__main__":
    command(prog_name="python -m consumers.keys")
