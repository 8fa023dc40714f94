"""Event-time merge of a station's own observations with everybody's queries.

An agent answers a query of event time tau after learning its own observations up to tau and before any later
one. So an observation of time t is held until no query before t can still come: every known peer has promised
so (a ``Progress`` record), or has been silent for too long. The numbers then depend on the records alone, not
on how fast they were carried; a silent input holds nothing back for longer than a stated time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from streamgp.roles.plain import records_in, records_out, restoring
from streamgp.wire.records import Observation, Progress, Query

Batch: TypeAlias = Observation | list[Query] | None

VERSION = 1
#: ids of a peer's questions remembered after it has promised about them: it may do so twice, having restarted
CLAIMED = 256


@dataclass(slots=True)
class _Peer:
    """What is known of another station's questions."""

    promised_ms: int | None = None
    idle: bool = False
    excused: bool = False
    trust: float = 1.0
    claims: deque[Progress] = field(default_factory=lambda: deque(maxlen=256))
    claimed: deque[str] = field(default_factory=lambda: deque(maxlen=CLAIMED))


@final
class Merge:
    """Puts one station's inputs in event-time order; the caller says what time it is.

    Parameters
    ----------
    station
        The station itself: its own queries are answered when asked and do not pass here.
    stations
        Peers known beforehand; others are added when their first promise or query comes.
    max_wait_s, idle_wait_s
        How long a busy peer, or one that had read all its input, may say nothing while an observation waits.
    settle_s
        How long after the latest new peer the first observation may be released.
    lateness_ms
        Own observations are put in order within this span of event time.

    Examples
    --------
    >>> merge = Merge(station="A", stations=("A",), max_wait_s=30, idle_wait_s=2, settle_s=0)
    >>> merge.add_observation(Observation(station="A", time_ms=5, y=1.0), now_s=0.0)
    True
    >>> merge.next(now_s=0.0).time_ms
    5
    >>> merge.next(now_s=0.0) is None
    True
    """

    def __init__(
        self,
        *,
        station: str,
        stations: tuple[str, ...] = (),
        max_wait_s: float,
        idle_wait_s: float,
        settle_s: float,
        lateness_ms: int = 0,
    ) -> None:
        self._station = station
        self._max_wait_s = max_wait_s
        self._idle_wait_s = idle_wait_s
        self._settle_s = settle_s
        self._lateness_ms = lateness_ms
        self._newest_ms: int | None = None
        self._peers: dict[str, _Peer] = {s: _Peer() for s in stations if s != station}
        self._known = frozenset(stations)
        self._own: deque[Observation] = deque()
        self._head_since_s = 0.0
        self._exhausted_s = 0.0
        self._queries: list[tuple[int, str, float, Query]] = []
        self._seen: dict[str, set[str]] = {}
        self._settled_at_s: float | None = None
        self._last_ms: int | None = None
        self.excused = 0
        self.late_queries = 0

    # -- what comes in

    def start(self, now_s: float, *, last_ms: int | None = None) -> None:
        """Begin at this time, having learned up to ``last_ms`` (from a snapshot)."""
        self._settled_at_s = now_s + self._settle_s
        self._exhausted_s = now_s
        self._last_ms = last_ms

    def exhausted(self, now_s: float) -> None:
        """The reader had nothing more to give at this time: waits count only up to here."""
        self._exhausted_s = now_s

    def add_observation(self, observation: Observation, now_s: float) -> bool:
        """An own observation, put in its place; False if a later one is learned already."""
        time_ms = observation.time_ms
        if self._last_ms is not None and time_ms <= self._last_ms:
            return False
        if not self._own or time_ms < self._own[0].time_ms:
            self._head_since_s = now_s
        at = len(self._own)
        while at and self._own[at - 1].time_ms > time_ms:
            at -= 1
        self._own.insert(at, observation)
        if self._newest_ms is None or time_ms > self._newest_ms:
            self._newest_ms = time_ms
        return True

    def add_query(self, query: Query, now_s: float) -> None:
        """A question of another station, or from outside."""
        self.note_query(query, now_s)
        if self._last_ms is not None and query.time_ms < self._last_ms:
            self.late_queries += 1
        heapq.heappush(self._queries, (query.time_ms, query.id, now_s, query))

    def note_query(self, query: Query, now_s: float) -> None:
        """A question was read, be it the first time or again: promises about it count."""
        if query.station is not None:
            peer = self._peer(query.station, now_s)
            self._seen.setdefault(query.station, set()).add(query.id)
            self._believe(query.station, peer)

    def add_progress(self, progress: Progress, now_s: float) -> None:
        """A peer's promise; it counts once the queries that it names have been read."""
        if progress.station == self._station:
            return
        if progress.state == "gone":
            self._peers.pop(progress.station, None)
            self._seen.pop(progress.station, None)
            return
        peer = self._peer(progress.station, now_s)
        peer.claims.append(progress)
        self._believe(progress.station, peer)

    def _peer(self, name: str, now_s: float) -> _Peer:
        peer = self._peers.get(name)
        if peer is None:
            peer = self._peers[name] = _Peer()
            if self._last_ms is None:
                self._settled_at_s = now_s + self._settle_s
        return peer

    def _believe(self, name: str, peer: _Peer) -> None:
        seen = self._seen.setdefault(name, set())
        while peer.claims and all(q in seen or q in peer.claimed for q in peer.claims[0].queries):
            claim = peer.claims.popleft()
            seen.difference_update(claim.queries)
            peer.claimed.extend(claim.queries)
            peer.idle = claim.state == "idle"
            if claim.time_ms is not None:
                peer.promised_ms = max(claim.time_ms, peer.promised_ms or claim.time_ms)
                peer.excused = False
        if len(seen) > 100_000:  # a peer that floods us with questions and never promises anything
            seen.clear()

    # -- what goes out

    @property
    def head_ms(self) -> int | None:
        """Event time of the station's next own observation, if it is here."""
        return self._own[0].time_ms if self._own else None

    @property
    def head_since_s(self) -> float | None:
        """Since when that observation has been the next one, if it is here."""
        return self._head_since_s if self._own else None

    @property
    def longest_s(self) -> float:
        """How long the next observation may be held back at the most, by the clock."""
        return _by_clock(max(self._max_wait_s, self._idle_wait_s)) + self._settle_s

    @property
    def waiting(self) -> int:
        """Observations and queries held back now."""
        return len(self._own) + len(self._queries)

    def peers(self) -> tuple[str, ...]:
        """Names of the peers known now."""
        return tuple(sorted(self._peers))

    def next(self, now_s: float) -> Batch:
        """The next observation to learn or the queries to answer before it; None: wait."""
        if self._queries and (ready := self._ready_queries(now_s)):
            return ready
        if self._own and self._released(self._own[0].time_ms, now_s):
            observation = self._own.popleft()
            self._head_since_s = now_s
            self._last_ms = observation.time_ms
            return observation
        return None

    def _ready_queries(self, now_s: float) -> list[Query]:
        ready: list[Query] = []
        horizon = self.head_ms
        while self._queries:
            time_ms, _, since_s, query = self._queries[0]
            known = self._last_ms is not None and time_ms <= self._last_ms
            passed = horizon is not None and horizon > time_ms
            if not (known or passed or (horizon is None and self._waited(since_s, self._idle_wait_s, now_s))):
                break
            heapq.heappop(self._queries)
            ready.append(query)
        return ready

    def _released(self, time_ms: int, now_s: float) -> bool:
        if self._last_ms is None and not self._settled(now_s):
            return False
        # an earlier one may still come; once the input is silent it is not waited for any longer
        young = self._lateness_ms and self._newest_ms is not None and self._newest_ms - time_ms < self._lateness_ms
        if young and not self._waited(self._head_since_s, self._idle_wait_s, now_s):
            return False
        if not self._peers:
            return True
        true = []
        for peer in self._peers.values():
            if peer.excused or self._behind(peer):
                continue
            if peer.promised_ms is not None and peer.promised_ms >= time_ms:
                true.append(peer)
                continue
            if not self._waited(self._head_since_s, self._patience_s(peer), now_s):
                return False
            peer.excused = True
            peer.trust = max(peer.trust / 2, 1 / 64)
            self.excused += 1
        for peer in true:  # once a record, however often it was looked at
            peer.trust = min(1.0, 1.1 * peer.trust)
        return True

    def _settled(self, now_s: float) -> bool:
        if self._settled_at_s is None or now_s >= self._settled_at_s:
            return True
        return (
            bool(self._known)
            and self._known >= set(self._peers)
            and all(p.promised_ms is not None for p in self._peers.values())
        )

    def _behind(self, peer: _Peer) -> bool:
        """A peer that catches up from further back than we are is answered, not waited for."""
        return self._last_ms is not None and (peer.promised_ms is None or peer.promised_ms < self._last_ms)

    def _patience_s(self, peer: _Peer) -> float:
        """A peer that keeps promising too little is waited for less and less."""
        return peer.trust * (self._idle_wait_s if peer.idle else self._max_wait_s)

    def _waited(self, since_s: float, patience_s: float, now_s: float) -> bool:
        """Whether a wait is over: by a look at an input that had nothing more, or long after, by the clock."""
        return self._exhausted_s - since_s >= patience_s or now_s - since_s >= _by_clock(patience_s)

    def wake_s(self, now_s: float) -> float | None:
        """Seconds after which time alone may release something; None if only a record can."""
        times = []
        if self._queries and not self._own:
            times.append(min(since for _, _, since, _ in self._queries[:64]) + self._idle_wait_s)
        if self._own:
            if self._last_ms is None and self._settled_at_s is not None and not self._settled(now_s):
                times.append(self._settled_at_s)
            if self._lateness_ms:
                times.append(self._head_since_s + self._idle_wait_s)
            times += [
                self._head_since_s + self._patience_s(p)
                for p in self._peers.values()
                if not p.excused and not self._behind(p)
            ]
        return max(0.0, min(times) - now_s) if times else None

    # -- the state

    def state(self) -> dict[str, Any]:
        """All that is held and known; times are those of the caller's clock."""
        peers = {
            name: [p.promised_ms, p.idle, p.excused, p.trust, records_out(p.claims), list(p.claimed)]
            for name, p in self._peers.items()
        }
        queries = sorted(self._queries, key=lambda held: held[:3])
        return {
            "v": VERSION,
            "peers": peers,
            "own": records_out(self._own),
            "queries": [
                [since_s, value]
                for (_, _, since_s, _), value in zip(queries, records_out(q[3] for q in queries), strict=True)
            ],
            "seen": {name: sorted(ids) for name, ids in self._seen.items()},
            "times": [self._head_since_s, self._exhausted_s, self._settled_at_s, self._last_ms, self._newest_ms],
            "counts": [self.excused, self.late_queries],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; raises a CheckpointError if it is damaged or of another version."""
        with restoring("merge", state, VERSION):
            self._peers = {}
            for name, (promised, idle, excused, trust, claims, claimed) in state["peers"].items():
                peer = self._peers[name] = _Peer(promised, idle, excused, trust)
                peer.claims.extend(records_in(claims, Progress))
                peer.claimed.extend(claimed)
            self._own = deque(records_in(state["own"], Observation))
            since, values = [s for s, _ in state["queries"]], [v for _, v in state["queries"]]
            read = records_in(values, Query)
            self._queries = [(q.time_ms, q.id, s, q) for s, q in zip(since, read, strict=True)]  # sorted: a heap
            self._seen = {name: set(ids) for name, ids in state["seen"].items()}
            self._head_since_s, self._exhausted_s, self._settled_at_s, self._last_ms, self._newest_ms = state["times"]
            self.excused, self.late_queries = state["counts"]


def _by_clock(patience_s: float) -> float:
    """How long a wait may last where the input never comes to an end."""
    return 3 * patience_s + 1.0
