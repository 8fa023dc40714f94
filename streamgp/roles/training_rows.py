"""A station's observations as rows of the hierarchical model, and how a training's processes begin."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from streamgp.errors import DecodeError, KeptSettingsError
from streamgp.gp.gaussian import Array
from streamgp.roles.plain import REMEDY
from streamgp.roles.refusals import Refusals
from streamgp.wire.clock import SystemClock
from streamgp.wire.codec import decode
from streamgp.wire.journal import read_all
from streamgp.wire.log import Message, Reader
from streamgp.wire.records import GlobalState, Observation

log = logging.getLogger("streamgp.training-client")

DAY_MS = 86_400_000


@final
class ObservationRows:
    """The newest ``max_rows`` observations of a station: X from ``inputs``, Y from y.

    An input is ``time`` (days since 1970 UTC) or a name in the record's x. A row without one of its inputs is left
    out, a missing output is NaN. A time that is repeated replaces its row.

    Examples
    --------
    >>> from streamgp.wire.codec import encode
    >>> rows = ObservationRows("A", ("time", "depth"), n_outputs=1)
    >>> value = encode(Observation(station="A", time_ms=86_400_000, x={"depth": 2.0}, y=5.0))
    >>> rows.feed([Message("t", 0, 0, "A", value)])
    >>> rows.rows()
    (array([[1., 2.]]), array([[5.]]))
    """

    def __init__(self, station: str, inputs: tuple[str, ...], *, n_outputs: int, max_rows: int = 10_000) -> None:
        self.station, self.inputs, self.n_outputs, self.max_rows = station, inputs, n_outputs, max_rows
        self._rows: OrderedDict[int, tuple[list[float], list[float]]] = OrderedDict()

    def feed(self, messages: list[Message]) -> None:
        """Take in observations; those of other stations, and what is none, are left out."""
        for message in messages:
            if message.key != self.station:
                continue
            try:
                record = decode(message.value, Observation)
            except DecodeError as error:
                log.debug("no observation at offset %d: %s", message.offset, error)
                continue
            named = {**record.x, "time": record.time_ms / DAY_MS}
            x = [named.get(name) for name in self.inputs]
            y = record.y if isinstance(record.y, tuple) else (record.y,)
            if any(v is None for v in x) or len(y) != self.n_outputs:
                continue
            made = [float(v) for v in x if v is not None], [np.nan if v is None else float(v) for v in y]
            self._rows[record.time_ms] = made
            while len(self._rows) > self.max_rows:
                self._rows.popitem(last=False)

    def rows(self) -> tuple[Array, Array]:
        X = np.array([x for x, _ in self._rows.values()], dtype=np.float64).reshape(-1, len(self.inputs))
        Y = np.array([y for _, y in self._rows.values()], dtype=np.float64).reshape(-1, self.n_outputs)
        return X, Y

    def state(self) -> dict[str, Any]:
        """The rows, by time."""
        X, Y = self.rows()
        return {"times": list(self._rows), "X": X, "Y": Y}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; raises a KeptSettingsError if its rows are of another width."""
        X, Y = state["X"], state["Y"]
        if X.shape[1:] != (len(self.inputs),) or Y.shape[1:] != (self.n_outputs,):
            raise KeptSettingsError(
                f"training.inputs are {len(self.inputs)} and training.n_outputs {self.n_outputs} "
                f"(the kept state has rows of {X.shape[1:]} and {Y.shape[1:]}): {REMEDY}"
            )
        rows = zip(state["times"], X.tolist(), Y.tolist(), strict=True)
        self._rows = OrderedDict((time_ms, (x, y)) for time_ms, x, y in rows)


def newest_state(
    reader: Reader, run: str, *, believe: Callable[[Message], bool] = lambda _: True
) -> GlobalState | None:
    """The last record of ``run`` in the topic that a fresh reader reads from its beginning; closes the reader.

    Parameters
    ----------
    believe
        Whether a record is of whom it says; others are passed over. Who says no tells it
        (:meth:`streamgp.roles.refusals.Refusals.passes`).

    Raises
    ------
    BrokerUnavailableError
        If the end was not reached: a training must not begin anew because its past was not read.
    """
    found, refusals = None, Refusals(f"run {run}", "")
    try:
        messages = read_all(reader, SystemClock())
    finally:
        reader.close()
    for message in messages:
        if message.key == run and believe(message):
            try:
                found = decode(message.value, GlobalState)
            except DecodeError as error:
                refusals.unreadable(message, error)
    return found


@runtime_checkable
class Ends(Protocol):
    """A role that comes to an end by itself."""

    def ended(self) -> bool: ...


@final
class Until(threading.Event):
    """Set when told to stop, or when the role has come to its end."""

    def __init__(self, role: Ends, told: threading.Event | None = None) -> None:
        super().__init__()
        self._role, self._told = role, told

    def is_set(self) -> bool:
        return super().is_set() or self._role.ended() or (self._told is not None and self._told.is_set())

    def wait(self, timeout: float | None = None) -> bool:
        if self._told is None:
            super().wait(timeout)
        elif not self.is_set():
            self._told.wait(timeout)
        return self.is_set()
