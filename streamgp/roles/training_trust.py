"""What a training's server remembers of clients whose updates it refused, and of what everybody sent."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from streamgp.gp.gaussian import Array

#: answers of a client that are remembered, to know one that comes again
REMEMBERED = 64


@final
class Distrust:
    """Clients that are not believed for a while, the longer the more often they were refused; and replays.

    Parameters
    ----------
    rounds
        How long a client is not believed after its second refusal; twice as long after its third, and so on. The first
        costs it that round alone: an honest client may be conspicuous once.

    Examples
    --------
    >>> distrust = Distrust(3)
    >>> distrust.note(0, {"liar": "mean is not finite"})
    >>> distrust.note(1, {"liar": "mean is not finite"})
    >>> sorted(distrust.now(4)), sorted(distrust.now(5))
    (['liar'], [])
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self._until: dict[str, tuple[int, int]] = {}  # last round without belief, refusals
        self._sent: dict[str, deque[tuple[int, bytes]]] = {}

    def note(self, round_: int, refused: Mapping[str, str]) -> None:
        """Take in who was refused in a round; refusals while a client is not believed anyway change nothing."""
        for client in refused:
            until, times = self._until.get(client, (-1, 0))
            if round_ > until:
                self._until[client] = (round_ + self.rounds * times, times + 1)

    def now(self, round_: int) -> frozenset[str]:
        """Who is not believed in a round."""
        return frozenset(client for client, (until, _) in self._until.items() if round_ <= until)

    def repeats(self, client: str, summary: Mapping[str, Array], round_: int) -> bool:
        """Whether a summary is, to the bit, what the client sent in another round; and remember it.

        The shared block moves in every round, so that no honest derivative comes twice.
        """
        if not summary:
            return False
        digest = hashlib.sha256()
        for name in sorted(summary):
            digest.update(name.encode() + b"\0" + np.ascontiguousarray(summary[name], dtype="<f8").tobytes())
        sent = self._sent.setdefault(client, deque(maxlen=REMEMBERED))
        known = any(before == digest.digest() and at != round_ for at, before in sent)
        if not known:
            sent.append((round_, digest.digest()))
        return known

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return {
            "until": {client: list(entry) for client, entry in self._until.items()},
            "sent": {client: [list(entry) for entry in sent] for client, sent in self._sent.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become what ``state`` describes."""
        self._until = {client: (int(until), int(times)) for client, (until, times) in state["until"].items()}
        self._sent = {
            client: deque(((int(at), bytes(digest)) for at, digest in sent), maxlen=REMEMBERED)
            for client, sent in state["sent"].items()
        }
