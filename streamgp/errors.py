"""The project's own error tree: everything raised on purpose derives from :class:`StreamGPError`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class StreamGPError(Exception):
    """Base of every error that this project raises on purpose."""


class SettingsError(StreamGPError, ValueError):
    """A setting is unknown, out of range, or contradicts another."""


class DecodeError(StreamGPError, ValueError):
    """Bytes that are no record. ``field`` names where (a dotted path, empty for the whole), ``reason`` why."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class EncodeError(StreamGPError, ValueError):
    """A record that must not be written: it holds a NaN, an infinity or a value of the wrong type."""


class NotPositiveDefiniteError(StreamGPError, ArithmeticError):
    """A matrix that no jitter of the ladder makes positive definite."""


class LogError(StreamGPError):
    """The log (broker or embedded) refused, lost or could not confirm something."""


class TopicMissingError(LogError):
    """A topic that a role needs does not exist."""


class BrokerUnavailableError(LogError):
    """No broker answered within the time given."""


class DeliveryError(LogError):
    """Records that were not confirmed: ``failed`` holds those given up, each with its reason.

    Of those it is not known that they are in the log. ``pending`` counts those that may still arrive, and
    ``unconfirmed`` holds them.
    """

    def __init__(
        self,
        message: str,
        failed: Sequence[tuple[Any, str]] = (),
        pending: int = 0,
        unconfirmed: Sequence[Any] = (),
    ) -> None:
        super().__init__(message)
        self.failed = tuple(failed)
        self.pending = pending
        self.unconfirmed = tuple(unconfirmed)


class FencedError(LogError):
    """Another process runs as the same station; this one must stop."""


class CheckpointError(StreamGPError):
    """A snapshot that is damaged, or of a version that this release cannot read."""


class KeptSettingsError(SettingsError, CheckpointError):
    """A whole state that is of no use with these settings: a setting has to be set back, or everything learned anew."""


class DatasetError(StreamGPError):
    """A data set that is not there, cannot be fetched, or is not what its checksum says."""


class NoQuorumError(StreamGPError, ValueError):
    """Too few usable answers to fuse: an answer would be a guess, so none is given."""
