"""``streamgp keys``: make, list, replace and revoke the keys that records are signed with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec.structs import replace

from consumers.options import Number, fail
from streamgp.errors import SettingsError, StreamGPError
from streamgp.roles.identity import key_path
from streamgp.wire.keys import (
    LIST,
    Allowed,
    AllowList,
    key_id,
    make_key,
    raw_public,
    read_list,
    read_private,
    write_list,
    write_private,
)
from streamgp.wire.lock import locked

#: who signs beside the agents; a trainer signs as the cloud, a trainee as its station's agent
ROLES = ("cloud", "scorer", "asker")
#: the file that whoever changes the list holds meanwhile, and how long another's turn is waited for
LOCK, WAIT_S = "allowed.lock", 10.0

F = TypeVar("F", bound=Callable[..., Any])
_FOLDER = click.option(
    "--keys",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("keys"),
    show_default=True,
    envvar="STREAMGP_KEYS",
    show_envvar=True,
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
        wanted = _roles(stations, roles)
        with _changing(folder, new=True) as known:
            _refuse_strangers(folder, known)
            there = [role for role in wanted if key_path(folder, role).exists()]
            made = _make(folder, [role for role in wanted if role not in there], known)
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
        known = _read(folder)
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
        wanted = _roles(stations, roles)
        with _changing(folder) as known:
            _refuse_strangers(folder, known)
            having = {e.role for e in known}
            if without := [r for r in wanted if r not in having and not key_path(folder, r).exists()]:
                raise SettingsError(
                    f"nothing to rotate: no key of {', '.join(without)}; `streamgp keys make` makes one"
                )
            ending = [e for e in known if e.role in wanted and not e.revoked and e.until_ms > end.timestamp() * 1000]
            made = _make(folder, wanted, [replace(e, until=until) if e in ending else e for e in known])
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
        with _changing(folder) as known:
            hit = [e for e in known if e.role in which or e.id.hex() in which]
            if unknown := set(which) - {e.role for e in known} - {e.id.hex() for e in known}:
                raise SettingsError(f"no such key: {', '.join(sorted(unknown))}")
            write_list(folder / LIST, [replace(e, revoked=True) if e in hit else e for e in known])
    except StreamGPError as error:
        fail(error)
    _show([replace(e, revoked=True) for e in hit], as_json, "revoked")


@contextmanager
def _changing(folder: Path, *, new: bool = False) -> Iterator[list[Allowed]]:
    """The entries of the list, which no other command changes until this one is through."""
    try:
        if new:
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            raise SettingsError(f"no folder {folder}: `streamgp keys make` makes one")
        with locked(folder / LOCK, wait_s=WAIT_S):
            yield _read(folder)
    except OSError as error:
        raise SettingsError(f"the keys in {folder} cannot be changed: {error.strerror}") from error


def _read(folder: Path) -> list[Allowed]:
    known = read_list(folder / LIST)
    AllowList.of(known)
    return known


def _refuse_strangers(folder: Path, known: Iterable[Allowed]) -> None:
    """Refuse to write a list that lacks keys which lie here: it is lost, or an older one, and all others' keys with it.

    A private key that cannot be read is known where its role is: to replace it is what `rotate` is for.
    """
    ids, names = {e.id for e in known}, {key_path(folder, e.role).name for e in known}
    strangers = []
    for path in sorted(folder.glob("*.pem")):
        if path.stem not in ROLES and not path.stem.startswith("agent."):
            continue
        try:
            stranger = key_id(raw_public(read_private(path))) not in ids
        except SettingsError:
            stranger = path.name not in names
        strangers += [path.name] if stranger else []
    if strangers:
        raise SettingsError(
            f"{folder / LIST} does not know the private {_keys(strangers)}: nothing was changed, for a list that lacks "
            f"a key bars it. Put the list back that has them (each machine has a copy), or move the files of keys that "
            f"are not needed any more out of {folder}"
        )


def _keys(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"key{'s' if len(names) > 1 else ''} {', '.join(names[:most])}{more}"


def _make(folder: Path, roles: Sequence[str], before: Sequence[Allowed]) -> list[Allowed]:
    """New keys of these roles, and the list with them behind what stood there before."""
    fresh, made = [key_path(folder, role).with_suffix(".pem.new") for role in roles], []
    for path, role in zip(fresh, roles, strict=True):
        path.unlink(missing_ok=True)  # of a call that was cut off
        pem, entry = make_key(role)
        write_private(path, pem)
        made.append(entry)
    if made:
        write_list(folder / LIST, [*before, *made])
    for path in fresh:  # last, so that whoever sees a new key is allowed to sign with it
        own = path.with_suffix("")
        if own.exists():
            own.replace(own.with_suffix(".pem.old"))
        path.replace(own)
    return made


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
