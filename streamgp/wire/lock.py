"""Files that one process at a time holds: a role's state folder, and the list of keys while it is changed."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamgp.errors import SettingsError

_AGAIN_S = 0.02


def try_lock(path: Path) -> int | None:
    """Hold a file, made if there is none, until the descriptor that is returned is closed; None if another holds it.

    The lock ends with its process, however that ends; a file that is left behind holds nothing.

    Raises
    ------
    OSError
        If the file cannot be made or locked.
    """
    held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(held), path.stat()):
            return held
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(held)
        raise
    os.close(held)  # another holds it, or removed it since it was opened: that one is nobody's lock any more
    return None


@contextmanager
def locked(path: Path, *, wait_s: float) -> Iterator[None]:
    """Hold a file for a while, and remove it; another's turn is waited for.

    Raises
    ------
    SettingsError
        If another process holds it for ``wait_s`` seconds.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lock"
    >>> with locked(path, wait_s=1.0):
    ...     print(try_lock(path), path.exists())
    None True
    >>> path.exists()
    False
    """
    end = time.monotonic() + wait_s
    while (held := try_lock(path)) is None:
        if time.monotonic() >= end:
            raise SettingsError(f"another process holds {path} since {wait_s:g} s: nothing was changed, try again")
        time.sleep(_AGAIN_S)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before it is let go: whoever opened it meanwhile sees that it is gone
        os.close(held)
