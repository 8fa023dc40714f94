"""Ed25519 keys of roles, and the list of those that are allowed."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from streamgp.errors import SettingsError

LIST = "allowed.toml"
ID_BYTES = 8
#: why what a key signed counts for nothing, where the list does not name it
UNKNOWN = "unknown key"


class Allowed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A public key (base64 of its 32 bytes) and the role that it speaks for: ``agent.Dublin``, ``cloud``.

    A role may have several. ``until`` ends one (ISO 8601, UTC where no zone is given): what was signed later is
    refused. A revoked one is refused whenever it signed.
    """

    role: str
    public: str
    until: str | None = None
    revoked: bool = False

    @property
    def id(self) -> bytes:
        """First bytes of the key's SHA-256, by which a signature names it."""
        return key_id(base64.b64decode(self.public))

    @property
    def until_ms(self) -> float:
        """The end as ms since 1970."""
        if self.until is None:
            return float("inf")
        end = datetime.fromisoformat(self.until)
        return (end if end.tzinfo else end.replace(tzinfo=timezone.utc)).timestamp() * 1000.0


class _File(msgspec.Struct, forbid_unknown_fields=True):
    keys: list[Allowed] = []


def key_id(public: bytes) -> bytes:
    """First bytes of the SHA-256 of a raw public key."""
    return hashlib.sha256(public).digest()[:ID_BYTES]


@final
@dataclass(frozen=True)
class AllowList:
    """The public keys that may speak, by their ids.

    Examples
    --------
    >>> private, allowed = make_key("agent.Dublin")
    >>> known = AllowList.of([allowed])
    >>> known.find(allowed.id).role
    'agent.Dublin'
    """

    entries: dict[bytes, Allowed]
    publics: dict[bytes, Ed25519PublicKey]

    @classmethod
    def of(cls, entries: Iterable[Allowed]) -> AllowList:
        """The list of these; a key that is revoked once is revoked, whatever else the list says of it.

        Raises
        ------
        SettingsError
            If one of them is no key, or has no role or time.
        """
        known: dict[bytes, Allowed] = {}
        publics: dict[bytes, Ed25519PublicKey] = {}
        for entry in entries:
            try:
                raw = base64.b64decode(entry.public, validate=True)
                publics[key_id(raw)] = Ed25519PublicKey.from_public_bytes(raw)
                _ = entry.until_ms
            except ValueError as error:
                raise SettingsError(f"the allowed key of {entry.role!r} is no key: {error}") from error
            if not entry.role:
                raise SettingsError("an allowed key must name its role")
            before = known.get(key_id(raw))
            known[key_id(raw)] = before if before is not None and before.revoked else entry
        return cls(known, publics)

    def find(self, identity: bytes) -> Allowed | None:
        """The entry of this id."""
        return self.entries.get(identity)

    def why_not(self, identity: bytes, at_ms: float) -> str | None:
        """Why what this key signed at ``at_ms`` counts for nothing, in the word that is counted; None: it counts."""
        entry = self.find(identity)
        if entry is None:
            return UNKNOWN
        if entry.revoked:
            return "revoked key"
        return "expired key" if at_ms > entry.until_ms else None


def make_key(role: str) -> tuple[bytes, Allowed]:
    """A new private key (PEM), and its entry for the list."""
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem, Allowed(role=role, public=base64.b64encode(raw_public(private)).decode())


def raw_public(private: Ed25519PrivateKey) -> bytes:
    """The 32 bytes of the public key."""
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def read_private(path: Path) -> Ed25519PrivateKey:
    """The private key of a file.

    Raises
    ------
    SettingsError
        If there is none, others may read it, or it is no Ed25519 key.
    """
    try:
        if path.stat().st_mode & 0o077:
            raise SettingsError(f"others can read the private key {path}: `chmod 600` it")
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise SettingsError(f"no private key {path}: `streamgp keys make` makes one ({error.strerror})") from error
    except (ValueError, TypeError) as error:
        raise SettingsError(f"{path} is no private key: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingsError(f"{path} is a key of another kind; Ed25519 is needed")
    return key


def write_private(path: Path, pem: bytes) -> None:
    """Write a private key that only its owner can read; one that is there is an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SettingsError(f"{path} is there already: `streamgp keys rotate` replaces a key") from None
    with os.fdopen(out, "wb") as file:
        file.write(pem)


def read_list(path: Path) -> list[Allowed]:
    """The entries of a list; none if there is no file.

    Raises
    ------
    SettingsError
        If it is no list of keys.
    """
    try:
        return msgspec.toml.decode(path.read_bytes(), type=_File).keys
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error


def write_list(path: Path, entries: list[Allowed]) -> None:
    """Replace a list, at once.

    Raises
    ------
    SettingsError
        If it cannot be written; what was there is there still.
    """
    lines = [
        "# Public keys that may speak, and for whom. Written by `streamgp keys`; readers look again by themselves."
    ]
    for entry in entries:
        lines += ["", "[[keys]]", f"role = {_text(entry.role)}", f"public = {_text(entry.public)}"]
        lines += [f"until = {_text(entry.until)}"] if entry.until else []
        lines += ["revoked = true"] if entry.revoked else []
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("x", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise SettingsError(f"{path} was not written: {error.strerror}") from error


def _text(value: str) -> str:
    return msgspec.json.encode(value).decode()
