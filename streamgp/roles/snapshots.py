"""When a role's state is kept, and where its number is told."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, final

from streamgp.errors import CheckpointError, FencedError, LogError
from streamgp.roles.commits import Commits
from streamgp.roles.elsewhere import Elsewhere
from streamgp.roles.heads import Heads
from streamgp.roles.settings import KeepSettings
from streamgp.wire.checkpoint import SnapshotStore, pack
from streamgp.wire.clock import Clock
from streamgp.wire.log import Outgoing

log = logging.getLogger("streamgp.kept")

#: a snapshot may take no more than this share of the time
SHARE = 0.05


@final
class Snapshots:
    """Writes the snapshots of one role: rarely, and soon where much was done since the last.

    Parameters
    ----------
    heads
        Makes the record that tells the number of the last one.
    taken_s
        When the last one was written, or tried, by the clock; None: never.
    head
        Goes out with the next commit; None: nothing is to be told.
    """

    def __init__(self, store: SnapshotStore, heads: Heads, *, role: str, settings: KeepSettings, clock: Clock) -> None:
        self.taken_s: float | None = None
        self.head: Outgoing | None = None
        self._store = store
        self._heads = heads
        self._role = role
        self._settings = settings
        self._clock = clock
        self._changed = False
        self._busy_s = 0.0
        self._cost_s = 0.0

    def changed(self) -> None:
        """The last one is not the newest state any more."""
        self._changed = True

    def worked(self, seconds: float) -> None:
        """So much time went into what the last one does not hold."""
        self._busy_s += seconds

    def due(self) -> bool:
        """Whether it is time for another."""
        age_s = self._clock.monotonic_s() - (self.taken_s or 0.0)
        wanted = age_s >= self._settings.snapshot_every_s or self._busy_s >= self._settings.snapshot_busy_s
        return self._changed and wanted and age_s * SHARE >= self._cost_s

    def keep(self, number: int, data: Mapping[str, Any], *, since_s: float) -> None:
        """Write one whose making began at ``since_s``.

        Raises
        ------
        CheckpointError
            If it could not be written; those before it are as they were.
        """
        self._store.save(number, pack(data))
        self.head = self._heads.record(number)
        self.taken_s = self._clock.monotonic_s()
        self._cost_s = self.taken_s - since_s
        self._busy_s, self._changed = 0.0, False

    def failed(self, error: Exception) -> None:
        """One was not written: the journal bridges it, and it is tried again when the next is due."""
        log.warning("%s: %s", self._role, error)
        self._busy_s = 0.0
        self.taken_s = self._clock.monotonic_s()

    def begin_anew(self, number: int, commits: Commits, elsewhere: Elsewhere) -> None:
        """The first snapshot of a new life will have this number: the life of before is over from here on.

        Who is killed before that snapshot is kept has ended the one and not begun the other: neither goes on then,
        each is a refusal until it is begun anew once more.

        Raises
        ------
        LogError
            If it could not be told; the life of before may go on where it was not.
        """
        commits.mark(number, [self._heads.record(number), *elsewhere.over(number)])

    def forget_before(self, number: int) -> None:
        """The first snapshot of a new life is kept, and was told: those of before are of no use."""
        self.head = None
        try:
            self._store.forget(number)
        except FencedError:
            raise
        except (CheckpointError, LogError) as error:
            log.warning("%s: %s", self._role, error)

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()
