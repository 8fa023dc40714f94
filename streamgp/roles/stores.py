"""Where the state of a role is kept: a folder of its own, one that was named, or the snapshots topic."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from streamgp.roles.place import MakeStore, Place
from streamgp.wire.checkpoint import FolderStore, SnapshotStore
from streamgp.wire.clock import Clock
from streamgp.wire.log import Log, Outgoing
from streamgp.wire.snapshot_topic import TopicStore

TOPIC = "topic"
#: file systems take names of 255 bytes; of a longer one so many are kept
MOST_NAME, CUT_NAME = 247, 160


def make_store(state: str | None, place: Place, *, log: Log, clock: Clock) -> MakeStore:
    """The store that ``state`` names.

    Parameters
    ----------
    state
        ``topic``, or a folder in which the role has one of its own. None: a folder in the user's state home
        (``$XDG_STATE_HOME`` or ``~/.local/state``, there ``streamgp``), by the identity of the topics, so that
        topics that are made anew begin with an empty one.
    """

    def make(write: Callable[[list[Outgoing]], None]) -> SnapshotStore:
        if state == TOPIC:
            return TopicStore(log, place.state_topic("snapshots"), place.role, write=write, clock=clock)
        if state is not None:
            return FolderStore(Path(state) / folder_name(place.role))
        home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        own = log.topic_id(place.state_topic("journal"))
        return FolderStore(home / "streamgp" / f"{place.prefix}-{own}" / folder_name(place.role))

    return make


def folder_name(role: str) -> str:
    """A name that every file system takes, also with ``.pem.new`` behind it, one for each role.

    A longer one is cut, with a digest behind two underscores, which no other has.

    Examples
    --------
    >>> folder_name("agent.Malin Head"), folder_name("agent.../x")
    ('agent.Malin_20Head', 'agent._2e_2e_2fx')
    >>> len(folder_name("agent." + 100 * "\u96e8"))
    194
    """
    kind, dot, station = role.partition(".")
    name = kind + dot + re.sub(r"[^A-Za-z0-9-]", lambda m: "".join(f"_{b:02x}" for b in m.group().encode()), station)
    return name if len(name) <= MOST_NAME else f"{name[:CUT_NAME]}__{hashlib.sha256(role.encode()).hexdigest()[:32]}"
