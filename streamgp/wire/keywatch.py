"""The keys while a role runs: the list, read again as it changes, and the role's own, and whether that counts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from streamgp.errors import SettingsError
from streamgp.wire.clock import Clock
from streamgp.wire.keys import AllowList, key_id, raw_public, read_list, read_private

log = logging.getLogger("streamgp.keys")

#: how often the files are looked at
EVERY_S = 1.0


@final
class OwnKey:
    """The private key of a role that runs: another one in its file takes its place once the list allows that.

    Until then, and while the file is damaged, readable by others, of a key of another kind, or gone, the one before
    signs on. What stands so for two looks, longer than a file takes to be replaced, is one warning.

    Parameters
    ----------
    path
        The file.
    role, key
        Whose key it is, and the one that signs until there is another.

    Examples
    --------
    >>> import tempfile
    >>> from streamgp.wire.keys import make_key, write_private
    >>> folder, (old, _), (new, entry) = Path(tempfile.mkdtemp()), make_key("cloud"), make_key("cloud")
    >>> write_private(folder / "old.pem", old)
    >>> write_private(folder / "cloud.pem", new)
    >>> own = OwnKey(folder / "cloud.pem", "cloud", read_private(folder / "old.pem"))
    >>> own.look(AllowList.of([]), 0.0)
    >>> own.id == entry.id
    False
    >>> own.look(AllowList.of([entry]), 0.0)
    >>> own.id == entry.id
    True
    """

    def __init__(self, path: Path, role: str, key: Ed25519PrivateKey) -> None:
        self.key = key
        self.id = key_id(raw_public(key))
        self._path = path
        self._role = role
        self._stamp: tuple[int, int, int] | None = None  # the key may have been read long ago
        self._trouble: str | None = None
        self._told = False

    def look(self, allowed: AllowList, now_ms: float) -> None:
        """Look at the file; ``key`` and ``id`` are those of the key that is to sign from now on."""
        stamp = stamp_of(self._path)
        if stamp == self._stamp and self._trouble is None:
            return
        before, self._stamp = self._trouble, stamp
        try:
            key = read_private(self._path)
            self._trouble = self._take(key, allowed, now_ms)
        except SettingsError as error:
            self._trouble = str(error)
        if self._trouble is None or self._trouble != before:
            self._told = False
        elif not self._told:
            self._told = True
            log.warning("%s: private key not taken, the one before signs on: %s", self._role, self._trouble)

    def _take(self, key: Ed25519PrivateKey, allowed: AllowList, now_ms: float) -> str | None:
        identity = key_id(raw_public(key))
        if identity == self.id:
            if self._told:
                log.info("%s: private key read again: %s", self._role, self._path)
            return None
        reason = _why_barred(allowed, self._role, identity, now_ms)
        if reason is not None:
            return f"{self._path}: others refuse key {identity.hex()} ({reason})"
        self.key, self.id = key, identity
        log.info("%s: signs with its new key %s from now on", self._role, identity.hex())
        return None


@final
class LastGoodList:
    """The last good list of a file: one that cannot be read, is gone or names no key changes nothing.

    Such a list is one warning, and one line when it is read again.

    Parameters
    ----------
    path
        The file.
    whose
        Who reads it, for the log.

    Raises
    ------
    SettingsError
        If it cannot be read at the first time.

    Examples
    --------
    >>> import tempfile
    >>> from streamgp.wire.keys import make_key, write_list
    >>> path, (_, entry) = Path(tempfile.mkdtemp()) / "allowed.toml", make_key("cloud")
    >>> write_list(path, [entry])
    >>> good = LastGoodList(path, "watch")
    >>> _ = path.write_text("no list")
    >>> good.look() is None, entry.id in good.allowed.entries
    (False, True)
    """

    def __init__(self, path: Path, whose: str) -> None:
        self._path = path
        self._whose = whose
        self._stamp = stamp_of(path)
        self._readable = True
        self.allowed = AllowList.of(read_list(path))

    @property
    def changed(self) -> bool:
        """Whether the file is another than when it was looked at last."""
        return stamp_of(self._path) != self._stamp

    def look(self) -> str | None:
        """Read it if it has changed, or could not be read; why it was not read, once for each change of it."""
        stamp = stamp_of(self._path)
        changed, self._stamp = stamp != self._stamp, stamp
        trouble = self._read() if changed or not self._readable else None
        return trouble if changed else None

    def _read(self) -> str | None:
        try:
            allowed = AllowList.of(read_list(self._path))
            if not allowed.entries:
                raise SettingsError(f"{self._path} names no key")
        except SettingsError as error:
            if self._readable:
                log.warning("%s: list of keys not read, the one before counts on: %s", self._whose, error)
            self._readable = False
            return str(error)
        if not self._readable:
            log.info("%s: list of keys read again: %s", self._whose, self._path)
        self._readable, self.allowed = True, allowed
        return None


@final
class KeyWatch:
    """The last good list of a file, and what it says of the key that this role signs with.

    A list that is no good (a copy that is under way) changes nothing: who is to be refused is marked as revoked. Each
    change for worse is one warning, each for better one line.

    Parameters
    ----------
    path
        The list.
    role, identity
        Who signs here, and the id of its key.
    own
        Where that key may change; looked at with the list, so that nothing is signed by a list that is not read yet.

    Raises
    ------
    SettingsError
        If the list cannot be read, or others refuse by it what this key signs.

    Examples
    --------
    >>> import tempfile
    >>> from streamgp.wire.clock import ManualClock
    >>> from streamgp.wire.keys import make_key, write_list
    >>> path, (_, entry) = Path(tempfile.mkdtemp()) / "allowed.toml", make_key("cloud")
    >>> write_list(path, [entry])
    >>> KeyWatch(path, "cloud", entry.id, ManualClock()).barred is None
    True
    """

    def __init__(self, path: Path, role: str, identity: bytes, clock: Clock, *, own: OwnKey | None = None) -> None:
        self._path = path
        self._role = role
        self._identity = identity
        self._own = own
        self._clock = clock
        self._looked_s = clock.monotonic_s()
        self._list = LastGoodList(path, role)
        #: why others refuse all that the key signs now, in the word by which they count it; None: they do not
        self.barred = self._why_barred()
        if self.barred in ("revoked key", "expired key"):
            raise SettingsError(
                f"{path}: the key of {role} is {self.barred.removesuffix(' key')}: others would refuse all it says; "
                "`streamgp keys rotate` makes a new one"
            )
        if self.barred is not None:
            raise SettingsError(f"{path} does not allow the key of {role}: others would refuse all it says")

    @property
    def allowed(self) -> AllowList:
        """The last good list."""
        return self._list.allowed

    def look(self, *, at_once: bool = False) -> str | None:
        """Look at the files, if that was not a moment ago; why the list was not read, once for each change of it.

        ``at_once``: also a moment later, if the list has changed. Who signs with a new key may be quicker to see it in
        the list than who reads.
        """
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s < EVERY_S and not (at_once and self._list.changed):
            return None
        self._looked_s = now_s
        trouble = self._list.look()
        if self._own is not None:
            self._own.look(self.allowed, self._clock.now_ms())
            self._identity = self._own.id
        self._judge()
        return trouble

    def _judge(self) -> None:
        before, self.barred = self.barred, self._why_barred()
        if self.barred == before:
            return
        if self.barred is None:
            log.info("%s: its key counts again", self._role)
        else:
            log.warning("%s: others refuse all it says (%s): %s", self._role, self.barred, self._path)

    def _why_barred(self) -> str | None:
        return _why_barred(self.allowed, self._role, self._identity, self._clock.now_ms())


def _why_barred(allowed: AllowList, role: str, identity: bytes, now_ms: float) -> str | None:
    reason = allowed.why_not(identity, now_ms)
    if reason is None and allowed.entries[identity].role != role:
        return "foreign"
    return reason


def stamp_of(path: Path) -> tuple[int, int, int]:
    """Another one when the file has changed; that of no file is all 0."""
    try:
        stat = path.stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)
