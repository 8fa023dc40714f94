"""The list of allowed keys while a role runs: read again as it changes, and whether the role's own key counts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import final

from streamgp.errors import SettingsError
from streamgp.wire.clock import Clock
from streamgp.wire.keys import AllowList, read_list

log = logging.getLogger("streamgp.keys")

#: how often the file is looked at
EVERY_S = 1.0


@final
class KeyWatch:
    """The last good list of a file, and what it says of the key that this role signs with.

    A list that cannot be read, is gone or names no key (a copy that is under way) changes nothing: who is to be
    refused is marked as revoked. Each change for worse is one warning, each for better one line.

    Parameters
    ----------
    path
        The list.
    role, identity
        Who signs here, and the id of its key.

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

    def __init__(self, path: Path, role: str, identity: bytes, clock: Clock) -> None:
        self._path = path
        self._role = role
        self._identity = identity
        self._clock = clock
        self._looked_s = clock.monotonic_s()
        self._stamp = _stamp(path)
        self._readable = True
        self.allowed = AllowList.of(read_list(path))
        #: why others refuse all that the key signs now, in the word by which they count it; None: they do not
        self.barred = self._why_barred()
        if self.barred in ("revoked key", "expired key"):
            raise SettingsError(
                f"{path}: the key of {role} is {self.barred.removesuffix(' key')}: others would refuse all it says; "
                "`streamgp keys rotate` makes a new one"
            )
        if self.barred is not None:
            raise SettingsError(f"{path} does not allow the key of {role}: others would refuse all it says")

    def look(self) -> str | None:
        """Look at the file, if that was not a moment ago; why it could not be read, once for each change of it."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s < EVERY_S:
            return None
        self._looked_s = now_s
        stamp, trouble = _stamp(self._path), None
        changed, self._stamp = stamp != self._stamp, stamp
        if changed or not self._readable:
            trouble = self._read()
        self._judge()
        return trouble if changed else None

    def _read(self) -> str | None:
        try:
            allowed = AllowList.of(read_list(self._path))
            if not allowed.entries:
                raise SettingsError(f"{self._path} names no key")
        except SettingsError as error:
            if self._readable:
                log.warning("%s: list of keys not read, the one before counts on: %s", self._role, error)
            self._readable = False
            return str(error)
        if not self._readable:
            log.info("%s: list of keys read again: %s", self._role, self._path)
        self._readable, self.allowed = True, allowed
        return None

    def _judge(self) -> None:
        before, self.barred = self.barred, self._why_barred()
        if self.barred == before:
            return
        if self.barred is None:
            log.info("%s: its key counts again", self._role)
        else:
            log.warning("%s: others refuse all it says (%s): %s", self._role, self.barred, self._path)

    def _why_barred(self) -> str | None:
        reason = self.allowed.why_not(self._identity, self._clock.now_ms())
        if reason is None and self.allowed.entries[self._identity].role != self._role:
            return "foreign"
        return reason


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)
