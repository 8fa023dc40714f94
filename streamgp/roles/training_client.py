"""A client of a federated training: it answers every global record with a summary, and keeps its rows."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol, final
from zlib import crc32

from streamgp.errors import DecodeError, KeptSettingsError
from streamgp.fusion.privacy import privatised
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.data import ClientData, client_data
from streamgp.gp.hierarchy.layers import design
from streamgp.gp.hierarchy.shared_step import SharedState
from streamgp.models.hgp.client import client_step
from streamgp.models.hgp.posterior import ClientPosterior, client_posterior
from streamgp.models.hgp.rounds import MadeFor, client_again, client_start
from streamgp.roles.plain import REMEDY, message_in, message_out, records_in, records_out, restoring
from streamgp.roles.training_records import believable, flat, settings_of, state_of, units_from
from streamgp.roles.training_settings import TrainingSettings
from streamgp.roles.training_state import noise_of, saved_in, saved_out
from streamgp.roles.training_store import MemoryStore, Saved, Store
from streamgp.wire.clock import Clock
from streamgp.wire.codec import decode, encode
from streamgp.wire.deadletter import dead_letter
from streamgp.wire.log import Message, Outgoing, Partition
from streamgp.wire.records import DEAD_LETTER, GlobalState, Update

log = logging.getLogger("streamgp.training-client")

VERSION = 2


class Rows(Protocol):
    """Where a client's rows come from; they may have become more at every call."""

    def feed(self, messages: list[Message]) -> None:
        """Take in what was read of the topics that the rows come from."""

    def rows(self) -> tuple[Array, Array]:
        """X (n, d) and Y (n, Q) so far, in the station's units."""

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""


@final
class FixedRows:
    """Rows that are all there from the beginning."""

    def __init__(self, X: Array, Y: Array) -> None:
        self._rows = (X, Y if Y.ndim == 2 else Y[:, None])

    def feed(self, messages: list[Message]) -> None:
        """Nothing comes."""

    def rows(self) -> tuple[Array, Array]:
        return self._rows

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """They are there from the beginning."""


@final
class TrainingClient:
    """One station's part in a training, as a role.

    It learns what it must know (model, units, round) from the server's newest record alone, so it may join at any
    round, and answers each round once. Its own block and its last answer are saved before the answer leaves; after
    a kill it sends that same answer again. A record that is not finite or does not fit never replaces a good one.

    Parameters
    ----------
    read_first
        Answer nothing before the input has been read to where nothing more waits: all rows that there are count.

    Attributes
    ----------
    finished : whether the server said ``done``.
    ignored : how many records were not used, by reason.
    counts : the same, as health tells it.
    """

    def __init__(
        self,
        name: str,
        rows: Rows,
        *,
        prefix: str,
        clock: Clock,
        run: str = "default",
        store: Store | None = None,
        read_first: bool = False,
    ) -> None:
        self.name, self.rows, self.prefix, self.clock, self.run = name, rows, prefix, clock, run
        self.store = store or MemoryStore()
        saved = self.store.load()
        self.saved = saved if saved is not None and saved.run == run else None
        self.finished = False
        self.ignored: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._newest: GlobalState | None = None
        self._good: GlobalState | None = None  # the last that could be answered
        self._origin: Message | None = None
        self._answered: int | None = None
        self._seen, self._fresh_round = 0, 0
        self._made_for: MadeFor | None = None
        self._letters: list[Outgoing] = []
        self._ready = not read_first
        self._newest_ms = clock.now_ms()
        self._secret = os.urandom(32)

    def start(self, now_s: float) -> list[Outgoing]:
        return []

    def feed(self, messages: list[Message], now_s: float) -> None:
        """Take in global records of this run, the newest wins; anything else goes to the rows."""
        rest = []
        self._ready = self._ready or not messages
        for message in messages:
            self._newest_ms = max(self._newest_ms, int(message.timestamp_ms))
            if message.topic != f"{self.prefix}.globals":
                rest.append(message)
                continue
            if message.key != self.run:
                continue
            try:
                record = decode(message.value, GlobalState)
                believable(record)
                self._newest, self._origin = record, message
            except DecodeError as error:
                self._refuse(message, error.reason, error.field)
        if rest:
            self.rows.feed(rest)

    def drain(self, now_s: float) -> list[Outgoing]:
        """The answer to the newest record, if there is none yet."""
        out, self._letters = self._letters, []
        record = self._newest
        if record is None or not self._ready:
            return out
        self.finished = record.status == "done"
        if self.finished or self._answered == record.round:
            return out
        if self.saved is None or self.saved.round != record.round:
            try:
                self.saved = self._answer(record)
            except Exception as error:  # whatever a model raises, one record must not stop the station
                log.warning("%s: no answer to round %d: %s", self.name, record.round, error)
                if self._origin is not None:
                    self._refuse(self._origin, f"no answer: {type(error).__name__}", "arrays")
                self._newest, out = self._good, [*out, *self._letters]
                self._letters = []
                return out
            self.store.save(self.saved)
        self._good = record
        self._answered = record.round
        self.counts["answered"] += 1
        return [*out, Outgoing(f"{self.prefix}.updates", self.name, self.saved.update)]

    def _refuse(self, message: Message, reason: str, field: str) -> None:
        self.ignored["unreadable"] += 1
        self.counts["refused: unreadable"] += 1
        topic = f"{self.prefix}.{DEAD_LETTER}"
        self._letters.append(dead_letter(message, topic=topic, key=self.name, reason=reason, field=field))

    def wake_s(self, now_s: float) -> float | None:
        return None

    def ended(self) -> bool:
        """Whether the server said that there is nothing more to come."""
        return self.finished

    def full(self) -> frozenset[str]:
        return frozenset()

    def done(self) -> dict[Partition, int]:
        """Nothing: what it reads is read again from its beginning, and the newest record wins."""
        return {}

    def stop(self, now_s: float) -> list[Outgoing]:
        return []

    # -- the state

    def vitals(self) -> dict[str, float]:
        """What health tells of a client."""
        return {"held": 0.0} if self._newest is None else {"held": 0.0, "round": float(self._newest.round)}

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here: its rows and the secret of its noise are among it."""
        return {
            "v": VERSION,
            "run": self.run,
            "rows": self.rows.state(),
            "saved": saved_out(self.saved),
            "newest": [None if r is None else records_out([r])[0] for r in (self._newest, self._good)],
            "origin": None if self._origin is None else message_out(self._origin),
            "flow": [self.finished, self._answered, self._ready, self._newest_ms],
            "seen": [self._seen, self._fresh_round],
            "made_for": None if (m := self._made_for) is None else [m.count, m.low, m.high],
            "secret": self._secret,
            "counts": [dict(self.ignored), dict(self.counts)],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises
        ------
        CheckpointError
            If it is damaged or of another version.
        KeptSettingsError
            If it is of another run, or of other rows than the settings say.
        """
        with restoring(f"trainee {self.name}", state, VERSION):
            if state["run"] != self.run:
                raise KeptSettingsError(
                    f"training.run = {self.run} (the kept state is of run {state['run']}): {REMEDY}"
                )
            self.rows.restore(state["rows"])
            self.saved = saved_in(state["saved"])
            known = [None if value is None else records_in([value], GlobalState)[0] for value in state["newest"]]
            self._newest, self._good = known
            self._origin = None if state["origin"] is None else message_in(state["origin"])
            self.finished, self._answered, self._ready, self._newest_ms = state["flow"]
            self._seen, self._fresh_round = state["seen"]
            self._made_for = None if state["made_for"] is None else MadeFor(*state["made_for"])
            self._secret = state["secret"]
            self.ignored, self.counts = (Counter(counts) for counts in state["counts"])

    def posterior(self) -> tuple[ClientPosterior, TrainingSettings] | None:
        """What the station believes after the newest record, in working units; None before it has a block."""
        if self._newest is None or self.saved is None or not self.saved.own:
            return None
        settings, state = settings_of(self._newest), state_of(self._newest)
        plan = settings.plan()
        d = design(self._data(settings), state.block, self.saved.own, plan.layout)
        belief = client_posterior(
            d, state.q, shared=state.block, own=self.saved.own, layout=plan.layout, factors=plan.factors
        )
        return belief, settings

    def _data(self, settings: TrainingSettings) -> ClientData:
        X, Y = self.rows.rows()
        return client_data(units_from(settings).inputs(X), Y / settings.scale)

    def _answer(self, record: GlobalState) -> Saved:
        """Lines 4-6 of Algorithm 1 on the rows there are now."""
        settings, state = settings_of(record), state_of(record)
        plan, data = settings.plan(), self._data(settings)
        rows = _fingerprint(data)
        if rows != self._seen:
            self._seen, self._fresh_round = rows, record.round
        quiet = settings.rounds == 0 and record.round - self._fresh_round >= settings.quiet_rounds
        own = dict(self.saved.own) if self.saved is not None else {}
        noised = self.saved.noised if self.saved is not None else 0
        summary: dict[str, Array] = {}
        if data.count and not quiet:
            start = self._start(data, state, own, settings)
            result = client_step(
                state,
                data,
                start,
                layout=plan.layout,
                factors=plan.factors,
                iterations=settings.local_iterations,
            )
            own, summary = result.own, result.summary
            if (privacy := settings.privacy()) is not None:
                noise = noise_of(self._secret, summary, run=record.run, round_=record.round)
                summary = privatised(summary, privacy, noise)
                noised += 1
        arrays, shapes = flat(summary)
        update = Update(
            run=record.run,
            round=record.round,
            client=self.name,
            time_ms=self._newest_ms,
            arrays=arrays,
            shapes=shapes,
        )
        return Saved(record.run, record.round, own, encode(update), noised)

    def _start(
        self, data: ClientData, state: SharedState, own: dict[str, Array], settings: TrainingSettings
    ) -> dict[str, Array]:
        """The block to climb from: as it was left, made anew where the rows have outgrown it, or a first one."""
        plan, name, seed = settings.plan(), self.name, settings.seed
        if own and (self._made_for is None or not self._made_for.outgrown(data.X)):
            self._made_for = self._made_for or MadeFor.of(data.X)
            return own
        self._made_for = MadeFor.of(data.X)
        if not own:
            return client_start(name, data, state, plan, seed=seed)
        return client_again(name, data, state, own, plan, seed=seed, iterations=settings.local_iterations)


def _fingerprint(data: ClientData) -> int:
    """Other for other rows, also where the newest have taken the place of the oldest."""
    return crc32(data.Y.tobytes(), crc32(data.X.tobytes())) if data.count else 0
