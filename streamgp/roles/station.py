"""The agent as a process: decodes, checks at the door, merges by event time, retries, and tells what it did."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any, final

from streamgp.errors import DecodeError
from streamgp.roles.agent import Agent
from streamgp.roles.budget import Budget
from streamgp.roles.door import Door, Refused
from streamgp.roles.kept_settings import of_agent, tell
from streamgp.roles.liar import Liar
from streamgp.roles.merge import Merge
from streamgp.roles.outbox import Outbox
from streamgp.roles.own_questions import OwnQuestions
from streamgp.roles.plain import (
    message_in,
    message_out,
    offsets_in,
    offsets_out,
    records_in,
    records_out,
    restoring,
)
from streamgp.roles.promises import Promises
from streamgp.roles.settings import Settings
from streamgp.wire.codec import decode
from streamgp.wire.log import Message, Outgoing, Partition
from streamgp.wire.records import (
    Forecast,
    GlobalState,
    Observation,
    Prediction,
    Progress,
    Query,
    StationForecast,
)

log = logging.getLogger("streamgp.agent")

#: delays before an observation that the model could not learn is tried again; then it is a dead letter
RETRY_S = (0.2, 0.4, 0.8)
#: observations and queries held back, beyond which no more observations are read
HELD = 4096
VERSION = 2


@final
class AgentRole:
    """One station's agent between a reader and a writer (see :class:`streamgp.roles.loop.Role`).

    Inputs: ``observations`` (its own station's), ``queries``, ``progress`` and ``forecasts``. Outputs:
    ``queries``, ``progress``, ``predictions``, ``station-forecasts`` and ``dead-letter``.

    A question is given up when its time has passed by the clock and all that was written by then has been read, which
    the caller says by ``feed([], now_s)`` or ``reached``: for a station that is behind it may be there, not yet read.
    """

    def __init__(self, agent: Agent, settings: Settings, door: Door, *, liar: Liar | None = None) -> None:
        a = settings.agent
        self.agent = agent
        self.counts: Counter[str] = Counter()
        self._settings = settings
        self._door = door
        self._liar = liar
        self._merge = Merge(
            station=agent.station,
            stations=settings.stations,
            max_wait_s=a.max_wait_s,
            idle_wait_s=a.idle_wait_s,
            lateness_ms=a.lateness_ms,
            settle_s=a.settle_s,
        )
        self._origin: dict[int, Message] = {}
        self._next: dict[Partition, int] = {}
        self._promises = Promises(agent.station)
        self._budget = Budget()
        self._suffixes: dict[str, str] = {}
        self._questions = OwnQuestions(agent, wait_s=a.forecast_wait_s)
        self._answered: OrderedDict[str, None] = OrderedDict()
        self._retry: tuple[Observation, int, float] | None = None
        self._followed: tuple[str, int, int] | None = None
        self._empty_since_s: float | None = None
        self._more = False
        self._all_read = False  # whether, as of the call that goes on, all that was written has been read
        self._refused = 0
        self._out = Outbox(settings, self.counts, log=log, key=agent.station)

    # -- the Role protocol

    def start(self, now_s: float) -> list[Outgoing]:
        self._merge.start(now_s, last_ms=self.agent.last_ms)
        self._tell(self._promises.promise(None, "busy"))
        return self._out.take()

    def feed(self, messages: list[Message], now_s: float) -> None:
        if messages:
            progress = self._settings.topic("progress")
            if any(m.topic != progress for m in messages):  # one station's word that it is idle must not wake the next
                self._empty_since_s = None
            for message in messages:
                self._read(message, now_s)
            return
        self._all_read = True
        self._merge.exhausted(now_s)
        if self._empty_since_s is None:
            self._empty_since_s = now_s

    def drain(self, now_s: float) -> list[Outgoing]:
        self._more = False
        batches, learned, step = self._budget.batches(now_s), self.counts["learned"], self._step
        for _ in range(batches):
            if not step(now_s):
                break
        else:
            self._more = True
            self._budget.spent(now_s)
        self._promises.worked(self.counts["learned"] - learned, more=self._more)
        if self._liar is not None:
            self._lie(self._liar.due(now_s))
        if self._all_read:
            self._all_read = False
            self._give_up(now_s)
        head_ms, last_ms = self._merge.head_ms, self.agent.last_ms
        self._tell(self._promises.due(now_s, head_ms=head_ms, last_ms=last_ms, empty_since_s=self._empty_since_s))
        return self._out.take()

    def wake_s(self, now_s: float) -> float | None:
        if self._more:
            return 0.0
        times = [] if self._retry is None else [max(0.0, self._retry[2] - now_s)]
        merge = self._merge.wake_s(now_s)
        if merge is not None and self._retry is None:
            times.append(merge)
        if self._liar is not None and (lie := self._liar.wake_s(now_s)) is not None:
            times.append(lie)
        if given_up := self._questions.wake_s(now_s):  # past that it is reading that ends the wait
            times.append(given_up)
        empty_since_s = self._empty_since_s if self._merge.head_ms is None else None
        if (word := self._promises.wake_s(now_s, empty_since_s=empty_since_s)) is not None:
            times.append(word)
        return min(times) if times else None

    def overdue(self, now_s: float) -> bool:
        """Whether by the clock a question's time is up (see :class:`streamgp.roles.reach.Patient`)."""
        return self._questions.wake_s(now_s) == 0.0

    def reached(self, then_s: float) -> list[Outgoing]:
        """What the station says alone of the questions whose time was up then."""
        self._give_up(then_s)
        return self._out.take()

    def full(self) -> frozenset[str]:
        return frozenset({self._settings.observations_topic(self.agent.station)} if self._merge.waiting > HELD else ())

    def done(self) -> dict[Partition, int]:
        offsets = dict(self._next)
        for message in self._origin.values():
            at = (message.topic, message.partition)
            offsets[at] = min(offsets[at], message.offset)
        return offsets

    def stop(self, now_s: float) -> list[Outgoing]:
        self._tell(self._promises.promise(self.agent.last_ms, "gone"))
        return self._out.take()

    def vitals(self) -> dict[str, float]:
        """What health tells of a station."""
        last = self.agent.last_ms
        told = {
            "held": float(self._merge.waiting),
            "open_questions": float(len(self._questions)),
            "peers": float(len(self._merge.peers())),
        }
        if last is not None:
            told["last_learned_ms"] = float(last)
        if (since_s := self._merge.head_since_s) is not None:
            told |= {"held_since_s": since_s, "longest_s": self._merge.longest_s}
        return told

    # -- the state

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here; what a liar holds back is not part of it."""
        questions = self._questions.state()
        return {
            "v": VERSION,
            "agent": self.agent.state(),
            "door": self._door.state(),
            "merge": self._merge.state(),
            "origin": [[time_ms, message_out(message)] for time_ms, message in self._origin.items()],
            "next": offsets_out(self._next),
            **self._promises.state(),
            "open": questions["open"],
            "answered": list(self._answered),
            "early": questions["early"],
            "retry": None
            if self._retry is None
            else [records_out([self._retry[0]])[0], self._retry[1], self._retry[2]],
            "flow": [self._empty_since_s, self._more, self._refused],
            "budget": self._budget.state(),
            "counts": dict(self.counts),
            "followed": None if self._followed is None else list(self._followed),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises
        ------
        CheckpointError
            If it is damaged, of another version or of another station.
        KeptSettingsError
            If it is of no use with these settings.
        """
        state = _of_today(state)
        with restoring(f"agent {self.agent.station}", state, VERSION):
            self.agent.restore(state["agent"])
            self._door = Door.from_state(state["door"], self._settings.door_settings())
            self._merge.restore(state["merge"])
            self._origin = {time_ms: message_in(fields) for time_ms, fields in state["origin"]}
            self._next = offsets_in(state["next"])
            self._promises.restore(state)
            self._budget = Budget.from_state(state["budget"])
            self._questions.restore(state)
            self._answered = OrderedDict.fromkeys(state["answered"])
            self._retry = None
            if state["retry"] is not None:
                value, tries, at_s = state["retry"]
                self._retry = (records_in([value], Observation)[0], tries, at_s)
            self._empty_since_s, self._more, self._refused = state["flow"]
            self.counts.clear()
            self.counts.update(state["counts"])
            followed = state["followed"]
            self._followed = None if followed is None else (followed[0], followed[1], followed[2])
            tell(f"agent {self.agent.station}", of_agent(self._settings, state))

    @property
    def resting(self) -> bool:
        """Whether nothing is held back and no question of its own is open."""
        return not (self._merge.waiting or len(self._questions) or self._retry)

    @property
    def handled(self) -> int:
        """Observations learned or refused so far."""
        return self.counts["learned"] + self._refused

    # -- reading

    def _read(self, message: Message, now_s: float) -> None:
        topic, offset = message.topic, message.offset
        at = (topic, message.partition)
        if offset < self._next.get(at, 0):
            self.counts["read twice"] += 1
            return
        self._next[at] = offset + 1
        suffix = self._suffixes.get(topic)
        if suffix is None:
            suffix = self._suffixes[topic] = self._settings.suffix(topic)
        try:
            if suffix == "observations":
                if message.key == self.agent.station:
                    self._admit(decode(message.value, Observation), message, now_s)
            elif suffix == "queries":
                self._question(decode(message.value, Query), now_s)
            elif suffix == "progress":
                if message.key == self.agent.station:
                    return  # its own
                self._merge.add_progress(decode(message.value, Progress), now_s)
            elif suffix == "forecasts" and message.key is not None:
                if self._questions.concerns(message.key):
                    self._publish(self._questions.heard(message.key, decode(message.value, Forecast)))
            elif suffix == "globals":
                if message.key == self._settings.training.run:
                    self._follow(decode(message.value, GlobalState))
            elif suffix == "predictions" and self._liar is not None:
                self._overhear(self._liar, decode(message.value, Prediction))
        except DecodeError as error:
            self._refuse(message, error.reason, error.field)

    def _follow(self, record: GlobalState) -> None:
        """Stand on the global layer of the training from here on; a record that says nothing new is passed over."""
        from streamgp.roles.following import global_model  # what trains, for who is told of a training

        given = global_model(record)
        if given is None or self._followed == (record.run, record.round, record.steps):
            return
        taken = self.agent.model.adopt(given)
        self.counts["global layers taken" if taken else "global layers of other rows"] += 1
        self._followed = (record.run, record.round, record.steps)

    def _overhear(self, liar: Liar, prediction: Prediction) -> None:
        if prediction.agent != self.agent.station:
            liar.overhear(prediction)

    def _admit(self, observation: Observation, message: Message, now_s: float) -> None:
        if observation.station != self.agent.station:
            self._refuse(message, f"the key says {message.key!r}, the record {observation.station!r}", "station")
            return
        verdict = self._door.check(observation, int(message.timestamp_ms))
        if isinstance(verdict, Refused):
            self._refuse(message, verdict.text, verdict.field, count=verdict.reason)
            return
        observation = verdict.observation
        if not self._merge.add_observation(observation, now_s):
            self._refuse(message, "late", "time_ms")
            return
        self._origin[observation.time_ms] = message

    def _question(self, query: Query, now_s: float) -> None:
        if query.station == self.agent.station:
            return  # answered when it was asked
        if query.id in self._answered:
            self.counts["query twice"] += 1
            self._merge.note_query(query, now_s)
            return
        self._answered[query.id] = None
        if len(self._answered) > 100_000:
            self._answered.popitem(last=False)
        self._merge.add_query(query, now_s)

    # -- working

    def _step(self, now_s: float) -> bool:
        if self._retry is not None:
            observation, tries, at_s = self._retry
            if now_s < at_s:
                return False
            self._retry = None
            self._learn(observation, tries, now_s)
            return True
        batch = self._merge.next(now_s)
        if batch is None:
            return False
        if isinstance(batch, Observation):
            if self._empty_since_s is None and self._merge.head_ms is None:
                self._empty_since_s = now_s
            self._learn(batch, 0, now_s)
        else:
            self._answer(batch, now_s)
        return True

    def _learn(self, observation: Observation, tries: int, now_s: float) -> None:
        try:
            self.agent.learn(observation)
        except Exception as error:  # whatever a model raises, one record must not stop the station
            if tries < len(RETRY_S):
                self._retry = (observation, tries + 1, now_s + RETRY_S[tries])
                self.counts["learning retried"] += 1
                return
            log.warning("%s: not learned, %s: %s", self.agent.station, observation.time_ms, error)
            self._refuse(self._origin.pop(observation.time_ms), f"not learned: {error}", "y")
            return
        del self._origin[observation.time_ms]
        self.counts["learned"] += 1
        queries = self.agent.ask()
        if not queries:
            return
        for query in queries:
            self._out.write("queries", query.id, query)
            self._promises.asked(query.id)
        self._answer(queries, now_s)
        for forecast in self._questions.asked(queries, now_s):
            self._publish(forecast)

    def _answer(self, queries: list[Query], now_s: float) -> None:
        answers = self.agent.answer(queries)
        self.counts["answered"] += len(answers)
        if self._liar is not None:
            self._lie(self._liar.take(queries, answers, peers=self._merge.peers(), now_s=now_s))
            return
        for answer in answers:
            self._out.write("predictions", answer.query_id, answer)

    def _lie(self, told: list[tuple[str, bytes]]) -> None:
        self._out.add([Outgoing(self._settings.topic("predictions"), key, value) for key, value in told])

    # -- telling

    def _tell(self, word: Progress | None) -> None:
        if word is not None:
            self._out.write("progress", self.agent.station, word)

    def _give_up(self, then_s: float) -> None:
        for forecast in self._questions.overdue(then_s):
            self.counts["forecast alone"] += 1
            self._publish(forecast)

    def _publish(self, forecast: StationForecast | None) -> None:
        if forecast is not None:
            self._out.write("station-forecasts", self.agent.station, forecast)

    def _refuse(self, message: Message, reason: str, field: str, *, count: str | None = None) -> None:
        self._refused += self._settings.suffix(message.topic) == "observations"
        self._out.refuse(message, reason, field, count=count)


def _of_today(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A state of version 1 in today's form: how much a drain may do stood with the promises then, or nowhere."""
    if state.get("v") != 1:
        return state
    pace = list(state.get("pace") or [None, False])
    return {**state, "v": VERSION, "pace": pace[:2], "budget": pace[2:] or Budget().state()}
