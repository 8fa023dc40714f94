"""What a role is to whoever keeps it, and where it works."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from streamgp.roles.loop import Role
from streamgp.wire.checkpoint import SnapshotStore
from streamgp.wire.log import Outgoing, Subscription
from streamgp.wire.topics import role_topic


class KeptRole(Role, Protocol):
    """A role that can say all that it knows."""

    counts: Counter[str]
    """What has happened, by name; ``refused: REASON`` and ``trimmed: AGENT`` among them."""

    def vitals(self) -> dict[str, float]:
        """Numbers as of now: ``held`` is how much it has read and not yet worked on.

        ``held_since_s`` is since when, in the role's own time, the next of it has waited for others, and ``longest_s``
        how long that may take.
        """

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; raises a CheckpointError if it cannot be."""


#: makes a store, given how to write records in a transaction
MakeStore: TypeAlias = Callable[[Callable[[list[Outgoing]], None]], SnapshotStore]


@dataclass(frozen=True)
class Place:
    """Where a role works: its name (``agent.Dublin``), what it reads, and which outputs need not wait.

    ``at_once`` are topics whose records carry ids and repeat harmlessly: questions and promises. The stations
    wait for each other's, so they are written before their commit, and once more by whoever starts again.
    ``own_state`` says that its journal and its snapshots are in topics of its own.
    """

    role: str
    prefix: str
    reads: tuple[Subscription, ...]
    at_once: frozenset[str] = frozenset()
    own_state: bool = False

    def topic(self, suffix: str) -> str:
        return f"{self.prefix}.{suffix}"

    def state_topic(self, suffix: str) -> str:
        """The role's ``journal`` or ``snapshots``."""
        return role_topic(self.prefix, suffix, self.role) if self.own_state else self.topic(suffix)
