"""A cloud that starts behind: who has answered in time is not told as missing because the cloud reads slowly."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamgp.roles.cloud import CloudRole
from streamgp.roles.identity import make_gate
from streamgp.roles.kept import Kept, Place
from streamgp.roles.settings import CloudSettings, KeepSettings, NetworkSection, Settings
from streamgp.roles.wiring import subscriptions
from streamgp.wire.checkpoint import FolderStore
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Outgoing, Subscription
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Forecast, Prediction, Progress, Query, Record
from streamgp.wire.topics import topic_plan

AGENTS = tuple(f"S{i:02d}" for i in range(12))
HOUR = 3_600_000
DEADLINE_S = 20.0


def query_of(i: int) -> Query:
    station = AGENTS[i % len(AGENTS)]
    return Query(id=f"q{i:06d}", station=station, time_ms=i * HOUR, target_ms=(i + 1) * HOUR, points=((0.0,),))


def answer_of(i: int, agent: str) -> Prediction:
    belief = {"mean": (1.0,), "variance": (0.5,), "noise_variance": (0.1,)}
    return Prediction(query_id=f"q{i:06d}", agent=agent, time_ms=i * HOUR, learned=i, **belief)


class Behind:
    """A cloud, kept, over a log in which questions and answers wait; each of its steps takes ``step_s``."""

    def __init__(
        self,
        folder: Path,
        *,
        count: int,
        step_s: float,
        silent: frozenset[str] = frozenset(),
        agents: tuple[str, ...] = AGENTS,
        partitions: int = 3,
    ) -> None:
        self.settings = Settings(
            stations=agents,
            cloud=CloudSettings(deadline_s=DEADLINE_S, beta=0.0),
            network=NetworkSection(enabled=False),
            keep=KeepSettings(commit_interval_s=1.0, snapshot_every_s=1e6, snapshot_busy_s=1e6),
        )
        self.count, self._step_s, self._folder = count, step_s, folder
        self.clock = ManualClock(1_790_000_000_000)
        self.log = MemoryLog(clock=self.clock)
        self.log.create_topics(topic_plan(self.settings.prefix, partitions=partitions))
        self._writer = self.log.writer()
        for i in range(count):
            self.ask(i)
            for agent in agents:
                if agent not in silent:
                    self.answer(i, agent)
        self.kept = self.made()

    def made(self) -> Kept:
        place = Place("cloud", self.settings.prefix, tuple(subscriptions("cloud", self.settings)))
        kept = Kept(
            CloudRole(self.settings),
            place,
            log=self.log,
            store=lambda write: FolderStore(self._folder),
            clock=self.clock,
            settings=self.settings.keep,
            gate=make_gate(self.settings, "cloud", self.clock),
        )
        kept.recover()
        return kept

    def write(self, suffix: str, key: str, record: Record) -> None:
        self._writer.write([Outgoing(self.settings.topic(suffix), key, encode(record))])

    def ask(self, i: int) -> None:
        self.write("queries", f"q{i:06d}", query_of(i))

    def answer(self, i: int, agent: str) -> None:
        self.write("predictions", f"q{i:06d}", answer_of(i, agent))

    def step(self) -> bool:
        moved = self.kept.step(0.0)
        self.clock.advance(self._step_s)
        return moved

    def until_still(self) -> None:
        still = 0
        while still < 3:
            still = 0 if self.step() else still + 1

    def forecasts(self) -> list[Forecast]:
        self.kept.commit()
        reader = self.log.reader([Subscription(self.settings.topic("forecasts"))])
        found: list[Forecast] = []
        while messages := reader.poll(0.0, 10_000):
            found += [decode(m.value, Forecast) for m in messages]
        return found


def test_nobody_is_missing_whose_answer_was_there_when_the_cloud_began(tmp_path: Path) -> None:
    """Three partitions of answers to one of questions, read for minutes at a deadline of 20 s.

    ``tests/benchmarks/test_far_behind.py`` has 10,000 questions, and a broker.
    """
    behind = Behind(tmp_path, count=600, step_s=0.25 * DEADLINE_S)
    behind.until_still()
    answered_by_all(behind.forecasts(), 600)


def answered_by_all(told: list[Forecast], count: int) -> None:
    """One forecast a question, in event-time order, made of everybody's answer."""
    assert [f.query_id for f in told] == [f"q{i:06d}" for i in range(count)]
    assert {(f.missing, f.status, f.answers) for f in told} == {((), "ok", len(AGENTS))}


def test_who_is_silent_is_told_though_the_input_never_ends(tmp_path: Path) -> None:
    """A flood of promises with every step: the deadline is over once all that was there at its time is read."""
    behind = Behind(tmp_path, count=100, step_s=2.0, silent=frozenset({"S03"}))
    for i in range(60):
        for j in range(40):
            behind.write("progress", AGENTS[j % 12], Progress(station=AGENTS[j % 12], time_ms=i))
        behind.step()
    told = behind.forecasts()
    assert len(told) == 100
    assert {(f.missing, f.answers) for f in told} <= {(("S03",), 11), ((), 11)}
    assert told[0].missing == ("S03",)


def test_an_answer_that_comes_after_the_deadline_is_late_all_the_same(tmp_path: Path) -> None:
    behind = Behind(tmp_path, count=3, step_s=1.0, silent=frozenset({"S00"}))
    for _ in range(30):
        behind.step()
    behind.answer(0, "S00")
    behind.step()
    assert {f.missing for f in behind.forecasts()} == {("S00",)}
    role = behind.kept.role
    assert isinstance(role, CloudRole)
    assert role.windows.counts["late answer"] == 1


def test_a_successor_in_the_middle_of_a_backlog_tells_the_same(tmp_path: Path) -> None:
    """What the cloud knew to be read is in the journal: killed at any place, the forecasts are those of no kill."""
    whole = Behind(tmp_path / "whole", count=60, step_s=9.0, silent=frozenset({"S07"}))
    whole.until_still()
    killed = Behind(tmp_path / "killed", count=60, step_s=9.0, silent=frozenset({"S07"}))
    for _ in range(6):
        killed.step()
        killed.step()
        killed.kept.close()
        killed.kept = killed.made()
    killed.until_still()
    assert killed.kept.differs == 0
    assert killed.forecasts() == whole.forecasts()
    assert len(whole.forecasts()) == 60


def test_many_open_windows_let_answers_go_before_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far behind, not all questions are held open at a time; answers that are not there hold nothing up."""
    monkeypatch.setattr("streamgp.roles.cloud.MANY", 40)
    behind = Behind(tmp_path, count=1_000, step_s=1.0, agents=AGENTS[:6], partitions=1)
    role, most = behind.kept.role, 0
    assert isinstance(role, CloudRole)
    while behind.step():
        most = max(most, role.windows.filling)
    assert most <= 540  # what is open, and one batch more
    assert len(behind.forecasts()) == 1_000
    for i in range(1_000, 1_020):
        behind.ask(i)
    for _ in range(40):
        behind.step()
    assert len(behind.forecasts()) == 1_020


def test_answers_that_run_ahead_wait_for_their_questions_and_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve partitions of three agents' answers: four times as many are read as questions, and none is forgotten.

    Answers to questions that nobody has asked stop neither the others nor themselves.
    """
    monkeypatch.setattr("streamgp.roles.cloud.MANY", 40)
    behind = Behind(tmp_path, count=900, step_s=5.0, agents=AGENTS[:3], partitions=12)
    for i in range(5_000, 5_200):
        behind.answer(i, AGENTS[0])
    role, most = behind.kept.role, 0
    assert isinstance(role, CloudRole)
    while behind.step():
        most = max(most, role.windows.ahead)
    assert most < 40 + 500  # and one batch more
    assert role.windows.ahead == 0
    told = behind.forecasts()
    assert {(f.missing, f.answers) for f in told} == {((), 3)}
    assert len(told) == 900
    behind.ask(900)
    for agent in AGENTS[:3]:
        behind.answer(900, agent)
    behind.until_still()
    assert len(behind.forecasts()) == 901
