"""The server of a federated training: rounds over the topics ``updates`` and ``globals``."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, final

from streamgp.errors import CheckpointError, DecodeError, KeptSettingsError
from streamgp.fusion.federation import RoundResult, Summary, needed, server_step
from streamgp.fusion.privacy import spent
from streamgp.gp.hierarchy.shared_step import SharedState
from streamgp.models.hgp.rounds import server_start
from streamgp.roles.plain import REMEDY, offsets_in, offsets_out, restoring
from streamgp.roles.training_records import flat, shaped, state_arrays, state_of, units_from
from streamgp.roles.training_settings import TrainingSettings, told
from streamgp.roles.training_state import result_in, result_out, shapes_of, shared_in, shared_out
from streamgp.roles.training_trust import Distrust
from streamgp.wire.clock import Clock
from streamgp.wire.codec import decode, encode
from streamgp.wire.deadletter import dead_letter
from streamgp.wire.log import Message, Outgoing, Partition
from streamgp.wire.records import DEAD_LETTER, GlobalState, Update

log = logging.getLogger("streamgp.trainer")

Status: TypeAlias = Literal["ok", "empty", "failed", "waiting", "done"]
VERSION = 2


@final
class TrainingServer:
    """One training as a role: a pure step fed with updates, that publishes the shared block after every round.

    A successor goes on from its state. Where that is lost, the newest record of the run in ``globals`` is enough:
    given it as ``resume``, it opens the same round, reads that round's updates again (its group's offsets stand where
    the round began) and goes on. A client counts once a round; what belongs to another run or round is counted and
    ignored. Times in its records are those of the newest update read, so that the same calls give the same bytes.

    Attributes
    ----------
    outcome : None while it runs, ``done`` after the last round, ``gave_up`` after ``wait_s`` with too few clients.
    ignored : how many updates were not used, by reason.
    counts : the same, as health tells it.
    """

    def __init__(
        self, settings: TrainingSettings, *, prefix: str, clock: Clock, resume: GlobalState | None = None
    ) -> None:
        self.settings = settings.checked()
        self.plan = settings.plan()
        self.schedule = settings.schedule()
        self.prefix = prefix
        self.clock = clock
        self.outcome: Literal["done", "gave_up"] | None = None
        self.ignored: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.round, self.shared = 0, self._opening()
        self.last: RoundResult | None = None
        self._answers: dict[str, Summary] = {}
        self._bad: dict[str, str] = {}
        self._absent: dict[str, int] = {}
        self._spoke: set[str] = set()
        self._distrust = Distrust(self.settings.patience)
        self._needed = needed(self.settings.min_clients, rule=self.settings.rule, beta=self.settings.beta)
        self._stuck = False
        self._opened_s = self._lonely_s = clock.monotonic_s()
        self._told = -1
        self._newest_ms = clock.now_ms()
        self._positions: dict[Partition, int] = {}
        self._done: dict[Partition, int] = {}
        self._letters: list[Outgoing] = []
        self.resume(resume)

    def resume(self, record: GlobalState | None) -> None:
        """Go on from a record of this run; None: from the beginning.

        Raises
        ------
        CheckpointError
            If its sizes are not those of the settings.
        """
        if record is None:
            return
        shared = state_of(record)
        if shapes_of(shared) != shapes_of(self.shared):
            raise CheckpointError(f"round {record.round} of run {record.run!r} has other sizes than the settings say")
        self.round, self.shared = record.round, shared
        self._absent = dict.fromkeys(record.clients, 0)
        self._spoke = set(record.clients)

    def start(self, now_s: float) -> list[Outgoing]:
        """The state as it stands, so that clients can begin."""
        self._opened_s = self._lonely_s = now_s
        finished = bool(self.settings.rounds) and self.round >= self.settings.rounds
        self.outcome = "done" if finished else None
        return [self._publish("done" if finished else "waiting")]

    def feed(self, messages: list[Message], now_s: float) -> None:
        """Take in updates; what cannot be read goes to the dead letters, what does not belong here is counted."""
        for message in messages:
            if message.topic != f"{self.prefix}.updates":
                continue
            self._positions[(message.topic, message.partition)] = message.offset + 1
            self._newest_ms = max(self._newest_ms, int(message.timestamp_ms))
            try:
                update = decode(message.value, Update)
                if message.key != update.client:
                    raise DecodeError("the key is another client's", "client")
                self._take(update)
            except DecodeError as error:
                self._ignore("unreadable")
                letter = dead_letter(
                    message,
                    topic=f"{self.prefix}.{DEAD_LETTER}",
                    key=message.key or "unknown",
                    reason=error.reason,
                    field=error.field,
                )
                self._letters.append(letter)

    def drain(self, now_s: float) -> list[Outgoing]:
        """Close the round if it is time, and say what became of it."""
        out, self._letters = self._letters, []
        if self.outcome is not None:
            return out
        present = len(self._answers) + len(self._bad)
        if len(self._answers) >= self._needed and not self._stuck:
            self._lonely_s = now_s
        if self._complete() or now_s - self._opened_s >= self.settings.round_s:
            out.append(self._close(now_s))
        elif len(self._answers) < self._needed and present != self._told:
            out.append(self._publish("waiting"))
        if self.outcome is None and now_s - self._lonely_s >= self.settings.wait_s:
            log.error("gave up round %d: %d of %d clients", self.round, len(self._answers), self._needed)
            self.outcome = "gave_up"
        return out

    def wake_s(self, now_s: float) -> float | None:
        """Seconds until the round's deadline, or until it gives up."""
        if self.outcome is not None:
            return None
        ends = min(self._opened_s + self.settings.round_s, self._lonely_s + self.settings.wait_s)
        return max(0.0, ends - now_s)

    def ended(self) -> bool:
        """Whether there is nothing more to come."""
        return self.outcome is not None

    def full(self) -> frozenset[str]:
        return frozenset()

    def done(self) -> dict[Partition, int]:
        """Where the present round began: a successor reads its updates again."""
        return dict(self._done)

    def stop(self, now_s: float) -> list[Outgoing]:
        return []

    # -- the state

    def vitals(self) -> dict[str, float]:
        """What health tells of a training."""
        return {"round": float(self.round), "present": float(len(self._answers)), "held": 0.0}

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return {
            "v": VERSION,
            "run": self.settings.run,
            "round": self.round,
            "shared": shared_out(self.shared),
            "last": result_out(self.last),
            "answers": {client: dict(summary) for client, summary in self._answers.items()},
            "bad": dict(self._bad),
            "absent": dict(self._absent),
            "spoke": sorted(self._spoke),
            "distrust": self._distrust.state(),
            "stuck": self._stuck,
            "times": [self._opened_s, self._lonely_s, self._told, self._newest_ms],
            "positions": [offsets_out(self._positions), offsets_out(self._done)],
            "counts": [dict(self.ignored), dict(self.counts)],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises
        ------
        CheckpointError
            If it is damaged or of another version.
        KeptSettingsError
            If it is of another run, or its sizes are not those of the settings.
        """
        with restoring("trainer", state, VERSION):
            shared = shared_in(state["shared"])
            if state["run"] != self.settings.run:
                raise KeptSettingsError(
                    f"training.run = {self.settings.run} (the kept state is of run {state['run']}): {REMEDY}"
                )
            if shapes_of(shared) != shapes_of(self.shared):
                raise KeptSettingsError(
                    f"training: the model of the kept state has other sizes than the settings say: {REMEDY}"
                )
            self.round, self.shared, self.last = state["round"], shared, result_in(state["last"], shared)
            self._answers = {client: dict(summary) for client, summary in state["answers"].items()}
            self._bad, self._absent = dict(state["bad"]), dict(state["absent"])
            self._spoke, self._stuck = set(state["spoke"]), state["stuck"]
            self._distrust.restore(state["distrust"])
            self._opened_s, self._lonely_s, self._told, self._newest_ms = state["times"]
            self._positions, self._done = (offsets_in(rows) for rows in state["positions"])
            self.ignored, self.counts = (Counter(counts) for counts in state["counts"])

    def _opening(self) -> SharedState:
        units = units_from(self.settings)
        low, high = (
            units.inputs(box[None])[0] for box in (units.center - units.span / 2, units.center + units.span / 2)
        )
        return server_start(self.plan, self.schedule, low=low, high=high)

    def _take(self, update: Update) -> None:
        """An update of this round, the first of its client; anything else is counted."""
        if update.run != self.settings.run:
            self._ignore("another run")
        elif update.round != self.round or self.outcome is not None:
            self._ignore("late" if update.round <= self.round else "ahead")
        elif update.client in self._answers or update.client in self._bad:
            self._ignore("repeated")
        else:
            self._stuck = False
            try:
                summary = shaped(update.arrays, update.shapes)
            except DecodeError as error:
                self._bad[update.client] = str(error)
                return
            if self._distrust.repeats(update.client, summary, self.round):
                self._bad[update.client] = "the very answer to an earlier round"
            else:
                self._answers[update.client] = summary

    def _ignore(self, reason: str) -> None:
        self.ignored[reason] += 1
        self.counts["refused: unreadable" if reason == "unreadable" else f"ignored: {reason}"] += 1

    def _complete(self) -> bool:
        """Whether everybody who takes part has answered, and somebody with something to say."""
        answered = set(self._answers) | set(self._bad)
        if not any(self._answers.values()) or len(self._answers) < self._needed or self._stuck:
            return False
        if not self._absent:
            return self.settings.expected is not None and len(answered) >= self.settings.expected
        return set(self._absent) <= answered

    def _close(self, now_s: float) -> Outgoing:
        """End the round: the next one on the new state, or the same one again if it failed."""
        result = server_step(
            self.shared,
            self._answers,
            layout=self.plan.layout,
            ascent=self.schedule.ascent,
            rule=self.settings.rule,
            beta=self.settings.beta,
            min_clients=self.settings.min_clients,
            known=self._spoke & set(self._absent),
            distrusted=self._distrust.now(self.round),
            noise=privacy.clip * privacy.noise if (privacy := self.settings.privacy()) else 0.0,
        )
        self.last = RoundResult(
            result.state, result.status, result.used, result.silent, {**result.refused, **self._bad}
        )
        self._opened_s = now_s
        if result.status == "failed":
            log.warning("round %d failed: %d usable answers", self.round, len(result.used))
            self._stuck = len(self._answers) >= self._needed
            too_early = self.round == 0 and len(self._answers) + len(self._bad) < self._needed
            return self._publish("waiting" if too_early else "failed")
        heard = set(result.used) | set(result.silent)
        absent = {c: n + 1 for c, n in self._absent.items() if c not in heard}
        self._absent = {c: n for c, n in absent.items() if n < self.settings.patience} | dict.fromkeys(heard, 0)
        self._spoke |= set(result.used)
        self._distrust.note(self.round, self.last.refused)
        self.shared = result.state
        self.round += 1
        self._answers, self._bad = {}, {}
        self._done = dict(self._positions)
        if self.settings.rounds and self.round >= self.settings.rounds:
            self.outcome = "done"
            return self._publish("done")
        return self._publish(result.status)

    def _publish(self, status: Status) -> Outgoing:
        """The record of the state as it is now."""
        s = self.settings
        arrays, shapes = flat(state_arrays(self.shared, s))
        privacy = s.privacy()
        last = self.last
        self._told = len(self._answers) + len(self._bad)
        record = GlobalState(
            run=s.run,
            round=self.round,
            time_ms=self._newest_ms,
            status=status,
            clients=last.used if last else tuple(self._absent),
            refused=last.refused if last else {},
            present=len(self._answers),
            needed=self._needed,
            steps=self.shared.steps,
            settings=told(s),
            arrays=arrays,
            shapes=shapes,
            epsilon=spent(privacy, self.round + any(self._answers.values())) if privacy else None,
            delta=s.delta if privacy else None,
        )
        log.info("run %s round %d: %s, %d of %d clients", s.run, self.round, status, record.present, self._needed)
        return Outgoing(f"{self.prefix}.globals", s.run, encode(record))
