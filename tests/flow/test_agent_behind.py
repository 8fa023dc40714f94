"""An agent that is behind: it does not forecast alone where the cloud's forecast is at the broker, not yet read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from streamgp.roles.identity import make_gate
from streamgp.roles.kept import Kept, Place
from streamgp.roles.station import AgentRole
from streamgp.roles.wiring import agent_role, subscriptions
from streamgp.wire.checkpoint import FolderStore
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Outgoing, Subscription
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Forecast, Observation, Progress, Query, Record, StationForecast
from streamgp.wire.topics import topic_plan
from tests.flow.network import HOUR, settings_of

R = TypeVar("R", bound=Record)
WAIT_S = 60.0
STEP_S = 25.0


class Behind:
    """The agent of A, kept, alone at its broker; each of its steps takes ``STEP_S`` from the second on."""

    def __init__(self, folder: Path) -> None:
        made = settings_of(snapshot_every_s=1e6, snapshot_busy_s=1e6)
        self.settings = replace(made, stations=("A",), agent=replace(made.agent, forecast_wait_s=WAIT_S))
        self._folder = folder
        self.clock = ManualClock(1_790_000_000_000)
        self.log = MemoryLog(clock=self.clock)
        self.log.create_topics(topic_plan(self.settings.prefix, partitions=1))
        self._writer = self.log.writer()
        self.kept = self.made()
        for t in range(6):
            self.write("observations", "A", Observation(station="A", time_ms=t * HOUR, y=float(t % 3)))
        while not self.read("queries", Query) or self.role.counts["learned"] < 6:
            self.kept.step(0.0)
            self.clock.advance(0.01)

    @property
    def role(self) -> AgentRole:
        assert isinstance(self.kept.role, AgentRole)
        return self.kept.role

    def made(self) -> Kept:
        kept = Kept(
            agent_role(self.settings, "A"),
            Place("agent.A", self.settings.prefix, tuple(subscriptions("agent", self.settings, station="A"))),
            log=self.log,
            store=lambda write: FolderStore(self._folder),
            clock=self.clock,
            settings=self.settings.keep,
            gate=make_gate(self.settings, "agent.A", self.clock),
        )
        kept.recover()
        return kept

    def killed(self) -> None:
        self.kept.close()
        self.kept = self.made()

    def write(self, suffix: str, key: str, *records: Record) -> None:
        self._writer.write([Outgoing(self.settings.topic(suffix), key, encode(record)) for record in records])

    def read(self, suffix: str, kind: type[R]) -> list[R]:
        self.kept.commit()
        reader = self.log.reader([Subscription(self.settings.topic(suffix))])
        found: list[R] = []
        while messages := reader.poll(0.0, 10_000):
            found += [decode(m.value, kind) for m in messages]
        return found

    def flood(self, count: int) -> None:
        """Promises of a station that comes no further."""
        self.write("progress", "B", *[Progress(station="B", time_ms=0, queries=(f"B:{i}",)) for i in range(count)])

    def answer_all(self) -> None:
        """The cloud's forecasts, behind what else is to be read."""
        nothing = {"kept": (3,), "trimmed": (), "missing": (), "status": "ok"}
        for asked in self.read("queries", Query):
            others = replace(asked, station="Z")
            for query in [*[others] * 400, asked]:
                numbers = {"mean": (7.0,), "variance": (1e-6,), "noise_variance": (0.1,)}
                whose = {"query_id": query.id, "station": query.station, "time_ms": query.time_ms}
                forecast = Forecast(**whose, target_ms=query.target_ms, **numbers, **nothing)
                self.write("forecasts", query.id, forecast)

    def step(self) -> None:
        self.kept.step(0.0)
        self.clock.advance(STEP_S)


def test_a_forecast_that_was_there_is_taken_however_late_it_is_read(tmp_path: Path) -> None:
    behind = Behind(tmp_path)
    asked = {q.id for q in behind.read("queries", Query)}
    behind.flood(2_000)
    behind.answer_all()
    begun_s = behind.clock.monotonic_s()
    while not behind.role.resting:
        behind.step()
    assert behind.clock.monotonic_s() - begun_s > 3 * WAIT_S
    assert behind.role.counts["forecast alone"] == 0
    told = behind.read("station-forecasts", StationForecast)
    assert {f.query_id for f in told} == asked
    assert {f.status for f in told} == {"ok"}


def test_who_is_answered_by_nobody_forecasts_alone_though_its_input_never_ends(tmp_path: Path) -> None:
    """What counts is what was there when the wait was over: no flood moves that."""
    behind = Behind(tmp_path)
    asked = {q.id for q in behind.read("queries", Query)}
    steps = 0
    while not behind.role.resting:
        behind.flood(600)  # more than one step reads
        behind.step()
        assert (steps := steps + 1) < 20
    assert (steps - 1) * STEP_S >= WAIT_S
    assert behind.role.counts["forecast alone"] == len(asked)
    told = behind.read("station-forecasts", StationForecast)
    assert {(f.query_id, f.status, f.source) for f in told} == {(q, "no_quorum", ("local",)) for q in asked}


def test_a_successor_gives_up_what_its_predecessor_gave_up_and_nothing_else(tmp_path: Path) -> None:
    """That all was read is in the journal: killed while it reads on, and when it has, it says the same, each once."""
    told = []
    for kills in (False, True):
        behind = Behind(tmp_path / str(kills))
        behind.flood(2_500)
        for i in range(1, 22):
            behind.flood(400)
            behind.step()
            if kills and i % 7 == 0:
                behind.killed()
                assert behind.kept.differs == 0
        assert behind.role.resting
        told.append(behind.read("station-forecasts", StationForecast))
    assert told[0] == told[1]
    assert [f.query_id for f in told[0]] == [q.id for q in behind.read("queries", Query)]
