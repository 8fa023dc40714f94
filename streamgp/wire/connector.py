"""Makes a client in the background, again and again until it stands, so that nobody waits longer than he wants."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar, final

from streamgp.errors import BrokerUnavailableError, LogError

C = TypeVar("C")

#: seconds between two attempts: the first pause, and the longest
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0


@final
class Connector(Generic[C]):
    """A client that may not be there yet.

    ``make`` is called in a thread of its own and may take its time. When it raises a BrokerUnavailableError it
    is called again after a pause that grows up to 2 s; any other error is final, and every :meth:`get` raises it.

    Parameters
    ----------
    make
        Makes the client.
    dispose
        Lets go of one that was made after :meth:`close`.
    ready
        Called in that thread when the client stands.
    log
        Told once when the broker is away and once when it is back, however long that lasts.

    Examples
    --------
    >>> connector = Connector(lambda: "client", dispose=print)
    >>> connector.get(5.0)
    'client'
    """

    def __init__(
        self,
        make: Callable[[], C],
        *,
        dispose: Callable[[C], object],
        ready: Callable[[], object] | None = None,
        log: logging.Logger | None = None,
    ) -> None:
        self._make = make
        self._dispose = dispose
        self._ready = ready
        self._log = log or logging.getLogger("streamgp.wire")
        self._settled = threading.Event()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._client: C | None = None
        self._error: Exception | None = None
        self._pid: int | None = None

    def get(self, timeout_s: float) -> C | None:
        """The client, or None if it does not stand within ``timeout_s``.

        Raises
        ------
        LogError
            If it cannot be made, or was made before a fork: its threads live in the parent only.
        """
        if self._pid is None:
            self._pid = os.getpid()
            threading.Thread(target=self._run, name="streamgp-connect", daemon=True).start()
        elif self._pid != os.getpid():
            raise LogError("made before a fork and used after it: make readers and writers in the child process")
        if not self._settled.wait(timeout_s):
            return None
        if self._error is not None:
            raise self._error
        return self._client

    def close(self) -> C | None:
        """Stop trying; the client, if there is one, is the caller's to let go of."""
        with self._lock:
            self._closing.set()
            client, self._client = self._client, None
            return client if self._pid == os.getpid() else None

    def _run(self) -> None:
        pause_s, told = FIRST_PAUSE_S, False
        while not self._closing.is_set():
            try:
                client = self._make()
            except BrokerUnavailableError as error:
                if not told:
                    self._log.warning("%s; trying until it answers", error)
                    told = True
                self._closing.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            except Exception as error:  # told to whoever asks for the client
                self._error = error
                self._settled.set()
                return
            else:
                if told:
                    self._log.warning("the broker answers")
                self._hand_over(client)
                return

    def _hand_over(self, client: C) -> None:
        with self._lock:
            late = self._closing.is_set()
            if not late:
                self._client = client
                self._settled.set()
        if late:
            self._dispose(client)
        elif self._ready is not None:
            self._ready()
