"""What roles remember, in the plain values that a snapshot can hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from streamgp.errors import CheckpointError, DecodeError, KeptSettingsError
from streamgp.gp.gaussian import Gaussian
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Message, Partition
from streamgp.wire.records import Record

R = TypeVar("R", bound=Record)

#: what to do about a setting with which a kept state is of no use
REMEDY = "set it back, or start with --fresh to learn everything anew on purpose"


@contextmanager
def restoring(what: str, state: Mapping[str, Any], version: int) -> Iterator[None]:
    """Check the version of a state; what goes wrong within is a CheckpointError that names ``what``.

    A KeptSettingsError passes: the state is whole, and it is the settings that do not fit it.
    """
    if state.get("v") != version:
        raise CheckpointError(f"{what}: version {state.get('v')!r}, this release reads {version}")
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, KeptSettingsError):  # nothing is damaged
            raise
        raise CheckpointError(f"{what}: damaged state ({type(error).__name__}: {error})") from error


def records_out(records: Iterable[Record]) -> list[bytes]:
    """Each as it would be on the wire."""
    return [encode(record) for record in records]


def records_in(values: Iterable[bytes], kind: type[R]) -> list[R]:
    """What :func:`records_out` wrote."""
    try:
        return [decode(value, kind) for value in values]
    except DecodeError as error:
        raise CheckpointError(f"a record in the snapshot: {error}") from error


def message_out(message: Message) -> list[Any]:
    """All fields of a message."""
    m = message
    headers = [[name, value] for name, value in m.headers]
    return [m.topic, m.partition, m.offset, m.key, m.value, m.timestamp_ms, headers]


def message_in(fields: list[Any]) -> Message:
    """What :func:`message_out` wrote."""
    topic, partition, offset, key, value, timestamp_ms, headers = fields
    return Message(topic, partition, offset, key, value, timestamp_ms, tuple((n, v) for n, v in headers))


def offsets_out(offsets: Mapping[Partition, int]) -> list[Any]:
    """Topic, partition and offset of each."""
    return [[topic, index, offset] for (topic, index), offset in offsets.items()]


def offsets_in(rows: list[Any]) -> dict[Partition, int]:
    """What :func:`offsets_out` wrote."""
    return {(topic, index): offset for topic, index, offset in rows}


def belief_out(belief: Gaussian) -> list[Any]:
    """The three arrays."""
    return [belief.mean, belief.variance, belief.noise_variance]


def belief_in(arrays: list[Any]) -> Gaussian:
    """What :func:`belief_out` wrote."""
    mean, variance, noise = (np.asarray(a, dtype=np.float64) for a in arrays)
    return Gaussian(mean, variance, noise)
