"""What stands between a role and its topics: who may come in, and what goes out under the role's name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol, final

from streamgp.wire.log import Message, Outgoing


class Gate(Protocol):
    """Checks what is read before a role sees it, and signs what it writes."""

    sequence: int
    """The last number that was signed."""
    counts: Counter[str]
    """What was refused, by reason."""

    @property
    def barred(self) -> str | None:
        """Why others refuse all that is signed here; None: they do not."""

    def look(self) -> None:
        """See whether it has changed who may speak; to be called often, also where nothing is read."""

    def check(self, message: Message) -> Outgoing | None:
        """None: it may pass, and is noted. Else the dead letter that says why not."""

    def note(self, message: Message) -> None:
        """It has passed before."""

    def signed(self, records: list[Outgoing]) -> list[Outgoing]:
        """The records as they go out."""

    def state(self) -> dict[str, Any]:
        """What was seen of whom."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""


@final
class OpenGate:
    """Lets everything through, and signs nothing."""

    barred: str | None = None

    def __init__(self) -> None:
        self.sequence = 0
        self.counts: Counter[str] = Counter()

    def look(self) -> None:
        pass

    def check(self, message: Message) -> Outgoing | None:
        return None

    def note(self, message: Message) -> None:
        pass

    def signed(self, records: list[Outgoing]) -> list[Outgoing]:
        return list(records)

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        pass
