"""Windows of answers: one per query, closed when every known agent has answered or its time is up."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from msgspec import UnsetType

from streamgp.roles.plain import records_in, records_out, restoring
from streamgp.wire.records import Prediction, Query

#: ids of closed windows that are remembered, so that late and repeated answers are known as such
REMEMBERED = 50_000
#: agents that are waited for; names beyond are somebody's invention
MOST_AGENTS = 10_000
VERSION = 1


@dataclass(slots=True)
class Window:
    """The answers to one query so far, by agent."""

    query: Query
    opened_s: float
    answers: dict[str, Prediction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Closed:
    """A window that is done: its query, what came, and who was waited for in vain."""

    query: Query
    answers: dict[str, Prediction]
    missing: tuple[str, ...]


@final
class Windows:
    """All open windows of a cloud.

    Windows of stations close in event-time order: one waits until every earlier one is closed, and until the
    queries that its answers say were asked before them have been read. What the cloud learns from window to window
    then depends on the records alone, not on how they were carried. A deadline ends every wait. A question from
    outside neither waits for earlier ones nor holds later ones back.

    Parameters
    ----------
    deadline_s
        A window closes this long after its query was read, whoever is missing.
    patience
        After so many windows in a row that closed without its answer, an agent is not waited for any more.
    most
        Open windows at the most; beyond that the oldest is closed as it is.

    Examples
    --------
    >>> windows = Windows(deadline_s=10.0, patience=3)
    >>> windows.join("A")
    >>> windows.open(Query(id="q", station="A", time_ms=0, target_ms=1, points=((0.0,),)), now_s=0.0)
    >>> windows.add(Prediction(query_id="q", agent="A", time_ms=0, mean=(0.0,), variance=(1.0,),
    ...                        noise_variance=(0.1,), learned=1), now_s=0.0)
    >>> [c.query.id for c in windows.close(now_s=0.0)]
    ['q']
    """

    def __init__(self, *, deadline_s: float, patience: int, most: int = 20_000) -> None:
        self._deadline_s = deadline_s
        self._patience = patience
        self._most = most
        self._open: OrderedDict[str, Window] = OrderedDict()
        self._early: OrderedDict[str, dict[str, Prediction]] = OrderedDict()
        self._ahead: set[str] = set()  # of these, those that half of the agents have answered
        self._closed: OrderedDict[str, None] = OrderedDict()
        self._touched = False
        self._missed: dict[str, int] = {}
        self.counts: Counter[str] = Counter()

    # -- who is there

    def join(self, agent: str) -> None:
        """The agent is there (again): windows wait for it."""
        if agent in self._missed or len(self._missed) < MOST_AGENTS:
            self._missed[agent] = 0

    def leave(self, agent: str) -> None:
        """The agent has left: nobody waits for it, its answers still count."""
        if self._missed.pop(agent, None) is not None:
            self._touched = True

    def knows(self, agent: str) -> bool:
        """Whether the agent has joined, and not left."""
        return agent in self._missed

    def expected(self) -> frozenset[str]:
        """Agents that a window waits for now."""
        return frozenset(a for a, missed in self._missed.items() if missed < self._patience)

    # -- what comes in

    def open(self, query: Query, now_s: float) -> None:
        """Begin to collect; a query that was seen before is counted and nothing else."""
        if query.id in self._open or query.id in self._closed:
            self.counts["query twice"] += 1
            return
        window = Window(query, now_s)
        window.answers.update(self._early.pop(query.id, {}))
        self._ahead.discard(query.id)
        self._open[query.id] = window
        self._touched = True

    def add(self, prediction: Prediction, now_s: float) -> None:
        """An answer: the first of each agent counts; late, repeated and unasked ones are counted by name."""
        if prediction.query_id in self._closed:
            self.counts["late answer"] += 1
            return
        window = self._open.get(prediction.query_id)
        answers = self._early_answers(prediction.query_id) if window is None else window.answers
        if prediction.agent in answers:
            self.counts["answer twice"] += 1
            return
        answers[prediction.agent] = prediction
        if window is None:
            self._note_ahead(prediction.query_id, answers)
        self._touched = True
        if self._missed.get(prediction.agent) and self._seen(prediction.asked):
            self._missed[prediction.agent] = 0

    def _early_answers(self, query_id: str) -> dict[str, Prediction]:
        """Answers read before their query: the two topics carry no common order."""
        answers = self._early.setdefault(query_id, {})
        if len(self._early) > self._most:
            self._ahead.discard(self._early.popitem(last=False)[0])
            self.counts["answer to a query never asked"] += 1
        return answers

    def _note_ahead(self, query_id: str, answers: dict[str, Prediction]) -> None:
        """A few can invent questions that nobody asked, half of the agents do not."""
        known = sum(agent in self._missed for agent in answers)
        if 2 * known >= max(1, len(self._missed)):
            self._ahead.add(query_id)

    # -- what goes out

    def close(self, now_s: float | None) -> list[Closed]:
        """The windows that are done now, oldest event time first; with None no deadline ends a wait.

        While no agent is known a window stays open until its deadline.
        """
        done: list[Closed] = []
        overdue = set(self._overdue(now_s))
        if not (self._touched or overdue):
            return done
        self._touched = False
        held_ms: int | None = None  # event time of the oldest window that is not done
        for query_id in sorted(self._open, key=self._order):
            query, expected = self._open[query_id].query, self.expected()
            held = held_ms is not None and query.station is not None and query.time_ms > held_ms
            if query_id in overdue or (not held and expected and not self._waits_for(query_id, expected)):
                done.append(self._finish(query_id, expected))
            elif query.station is not None and held_ms is None:
                held_ms = query.time_ms
        return done

    def _waits_for(self, query_id: str, expected: frozenset[str]) -> list[str]:
        """Agents whose answer, or a query that their answer says came before it, is not here yet."""
        answers = self._open[query_id].answers
        return [a for a in sorted(expected) if a not in answers or not self._seen(answers[a].asked)]

    def _seen(self, query_id: str | UnsetType) -> bool:
        return isinstance(query_id, UnsetType) or query_id in self._open or query_id in self._closed

    def _overdue(self, now_s: float | None) -> list[str]:
        overdue: list[str] = []
        for query_id, window in self._open.items():
            if (now_s is None or now_s - window.opened_s < self._deadline_s) and len(self._open) - len(
                overdue
            ) <= self._most:
                break
            overdue.append(query_id)
        return overdue

    def _order(self, query_id: str) -> tuple[int, str]:
        return self._open[query_id].query.time_ms, query_id

    def _finish(self, query_id: str, expected: frozenset[str]) -> Closed:
        late = self._waits_for(query_id, expected)
        window = self._open.pop(query_id)
        self._closed[query_id] = None
        if len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)
        for agent, answer in window.answers.items():
            if agent in self._missed and self._seen(answer.asked):
                self._missed[agent] = 0
        for agent in late:
            self._missed[agent] += 1
        missing = tuple(agent for agent in late if agent not in window.answers)
        return Closed(window.query, dict(sorted(window.answers.items())), missing)

    @property
    def filling(self) -> int:
        """Windows open now."""
        return len(self._open)

    @property
    def ahead(self) -> int:
        """Queries that at least half of the agents have answered, and that have not been read."""
        return len(self._ahead)

    @property
    def oldest_s(self) -> float | None:
        """When the oldest window was opened."""
        return next(iter(self._open.values())).opened_s if self._open else None

    def wake_s(self, now_s: float) -> float | None:
        """Seconds until the oldest window's time is up."""
        if not self._open:
            return None
        oldest = next(iter(self._open.values()))
        return max(0.0, oldest.opened_s + self._deadline_s - now_s)

    # -- the state

    def state(self) -> dict[str, Any]:
        """All windows and who is waited for; times are those of the caller's clock."""
        return {
            "v": VERSION,
            "open": [
                [records_out([w.query])[0], w.opened_s, records_out(w.answers.values())] for w in self._open.values()
            ],
            "early": [[query_id, records_out(answers.values())] for query_id, answers in self._early.items()],
            "closed": list(self._closed),
            "touched": self._touched,
            "missed": dict(self._missed),
            "counts": dict(self.counts),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; raises a CheckpointError if it is damaged or of another version."""
        with restoring("windows", state, VERSION):
            self._open = OrderedDict()
            for value, opened_s, answers in state["open"]:
                (query,) = records_in([value], Query)
                self._open[query.id] = Window(query, opened_s, _by_agent(answers))
            self._early = OrderedDict((query_id, _by_agent(answers)) for query_id, answers in state["early"])
            self._closed = OrderedDict.fromkeys(state["closed"])
            self._touched = bool(state["touched"])
            self._missed = dict(state["missed"])
            self._ahead = set()
            for query_id, found in self._early.items():
                self._note_ahead(query_id, found)
            self.counts = Counter(state["counts"])


def _by_agent(values: list[bytes]) -> dict[str, Prediction]:
    return {p.agent: p for p in records_in(values, Prediction)}
