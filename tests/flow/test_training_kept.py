"""A federated training whose processes are killed anywhere: every round counts once, and the numbers are the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from streamgp.cli import main
from streamgp.errors import CheckpointError, FencedError
from streamgp.gp.hierarchy.data import client_data
from streamgp.models.hgp.rounds import run_rounds, server_start
from streamgp.roles.identity import make_gate
from streamgp.roles.kept import Kept, Place
from streamgp.roles.settings import KeepSettings, ModelSettings, Settings, SigningSettings
from streamgp.roles.trainer import TrainingServer
from streamgp.roles.training_client import FixedRows, TrainingClient
from streamgp.roles.training_records import units_from
from streamgp.roles.training_rows import ObservationRows, Until, newest_state
from streamgp.roles.training_settings import MODEL_ROWS
from streamgp.roles.wiring import subscriptions, training_rows
from streamgp.wire.checkpoint import FolderStore, pack, unpack
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Message, Outgoing, Subscription
from streamgp.wire.memory import MemoryLog, SimulatedCrash
from streamgp.wire.records import GlobalState, Observation, Update
from streamgp.wire.topics import topic_plan
from tests.flow.network import Crashing, Killer
from tests.roles.training import SETTINGS, rows_of

DAY_MS = 86_400_000
NOW_MS = 1_790_000_000_000
DATA = rows_of(3)
TRAINING = msgspec.structs.replace(SETTINGS, expected=3, min_clients=3, rounds=4, round_s=1e6, wait_s=1e6)
BASE = Settings(
    prefix="t", stations=tuple(DATA), training=TRAINING, keep=KeepSettings(commit_interval_s=0.05, snapshot_every_s=0.3)
)


class Training:
    """A trainer and its trainees, kept, over one log; stepped in turn, and killed at any place."""

    def __init__(self, folder: Path, settings: Settings = BASE) -> None:
        self.folder, self.settings = folder, settings
        self.clock = ManualClock(1_790_000_000_000)
        self.log = MemoryLog(clock=self.clock, max_record_bytes=10_000_000)
        self.log.create_topics(topic_plan("t", partitions=2))
        self.logs = {name: Crashing(self.log) for name in self.names()}
        self.roles: dict[str, Any] = {}
        self.kept: dict[str, Kept] = {}
        self.stores: dict[str, FolderStore] = {}
        self.ended: set[str] = set()
        writer = self.log.writer()
        for station, (X, Y) in DATA.items():
            times = [int(t * DAY_MS) for t in X[:, 0]]
            rows = [Observation(station=station, time_ms=t, y=tuple(y)) for t, y in zip(times, Y.tolist(), strict=True)]
            writer.write([Outgoing("t.observations", station, encode(o)) for o in rows])

    def names(self) -> list[str]:
        return ["trainer.default", *(f"trainee.{s}" for s in DATA)]

    def make(self, name: str) -> Any:
        kind, _, station = name.partition(".")
        if kind == "trainer":
            return TrainingServer(self.settings.training, prefix="t", clock=self.clock)
        rows = ObservationRows(station, ("time",), n_outputs=2)
        return TrainingClient(station, rows, prefix="t", clock=self.clock, read_first=True)

    def start(self, name: str) -> None:
        kind, _, station = name.partition(".")
        role = self.roles[name] = self.make(name)
        reads = subscriptions(kind, self.settings, station=station)  # type: ignore[arg-type]  # one of its kinds

        def store(_write: object) -> FolderStore:
            self.stores[name] = FolderStore(self.folder / name)
            return self.stores[name]

        self.kept[name] = Kept(
            role,
            Place(name, "t", tuple(reads)),
            log=self.logs[name],  # type: ignore[arg-type]  # it passes everything on
            store=store,
            clock=self.clock,
            settings=self.settings.keep,
            gate=make_gate(self.settings, "cloud" if kind == "trainer" else f"agent.{station}", self.clock),
            stop=Until(role),
        )
        self.kept[name].recover()

    def kill(self, name: str) -> None:
        self.stores[name].close()
        self.ended.discard(name)
        del self.kept[name]

    def step(self, name: str) -> None:
        """One step, or the end of one that has come to its end; a process that crashed starts again."""
        try:
            if name not in self.kept:
                self.start(name)
            if not self.roles[name].ended():
                self.kept[name].step(0.0)
            elif name not in self.ended:
                self.kept[name].finish()
                self.ended.add(name)
        except SimulatedCrash:
            self.kill(name)

    def run(self, disturb: Callable[[int], None] = lambda round_: None) -> None:
        for round_ in range(2_000):
            disturb(round_)
            for name in self.names():
                self.step(name)
            self.clock.advance(0.005)
            if len(self.ended) == len(self.names()):
                return
        raise AssertionError("it did not end")

    def read(self, suffix: str) -> list[Message]:
        return self.log.reader([Subscription(f"t.{suffix}")]).poll(0.0, 10_000)

    def block(self) -> bytes:
        shared = self.roles["trainer.default"].shared
        return pack({**shared.block, "mean": shared.mean, "precision": shared.precision})

    def own(self) -> list[bytes]:
        return [pack(self.roles[f"trainee.{s}"].saved.own) for s in DATA]

    def check(self) -> None:
        """Every client's every round once; every round published as closed once."""
        updates = Counter((u.client, u.round) for u in (decode(m.value, Update) for m in self.read("updates")))
        assert updates == Counter({(s, r): 1 for s in DATA for r in range(4)})
        closed = [s.round for s in (decode(m.value, GlobalState) for m in self.read("globals")) if s.status == "ok"]
        assert closed == [1, 2, 3]
        assert not self.read("dead-letter")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Training:
    training = Training(tmp_path_factory.mktemp("undisturbed"))
    training.run()
    training.check()
    return training


def test_kept_processes_give_the_numbers_of_one(undisturbed: Training) -> None:
    """All rows are read before the first answer, whichever topic comes first."""
    plan, units, schedule = TRAINING.plan(), units_from(TRAINING), TRAINING.schedule()
    ready = {}
    for name, (X, Y) in DATA.items():
        times = np.array([[int(t * DAY_MS) / DAY_MS] for t in X[:, 0]])
        ready[name] = client_data(units.inputs(times), Y)
    begin = server_start(plan, schedule, low=np.array([-5.0]), high=np.array([5.0]))
    state, _ = run_rounds(ready, begin, plan, schedule)
    for name, a in state.block.items():
        np.testing.assert_allclose(undisturbed.roles["trainer.default"].shared.block[name], a, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(2))
def test_kills_at_random_change_no_bit_of_a_training(seed: int, tmp_path: Path, undisturbed: Training) -> None:
    """R66, C17: own layers and shared block, between steps, within a transaction, and after it."""
    rng = random.Random(seed)
    training = Training(tmp_path)
    killer = Killer(training, rng, share=0.5)
    training.run(killer)
    assert killer.kills >= 15
    training.check()
    assert training.block() == undisturbed.block()
    assert training.own() == undisturbed.own()
    assert not any(kept.differs for kept in training.kept.values())


def test_a_training_believes_only_signatures(tmp_path: Path, undisturbed: Training) -> None:
    """C41, R63: an update of a stranger, one in another's name, a false shared block: refused, counted, no use."""
    words = [word for s in DATA for word in ("--station", s)]
    made = ["keys", "make", *words, "--role", "cloud", "--keys", str(tmp_path / "keys")]
    assert CliRunner().invoke(main, made).exit_code == 0
    signing = SigningSettings(enabled=True, keys=str(tmp_path / "keys"))
    settings = msgspec.structs.replace(BASE, signing=signing)
    training = Training(tmp_path, settings)
    first = next(iter(DATA))
    false = Update(run="default", round=0, client=first, time_ms=0, arrays={}, shapes={})
    liar = make_gate(settings, f"agent.{list(DATA)[1]}", training.clock)
    lie = Outgoing("t.updates", first, encode(false))
    foreign = decode(undisturbed.read("globals")[-1].value, GlobalState)  # "done"
    unsigned = Outgoing("t.globals", "default", encode(foreign))
    training.log.writer().write([lie, *liar.signed([lie]), unsigned])
    training.run()
    assert training.block() == undisturbed.block()
    reasons = Counter(dict(m.headers)["reason"].decode() for m in training.read("dead-letter"))
    assert reasons == {"refused: unsigned": 4, "refused: foreign": 1}
    gate = make_gate(settings, "cloud", training.clock)
    reader = training.log.reader([Subscription("t.globals")])
    newest = newest_state(reader, "default", believe=lambda m: gate.check(m) is None)
    assert newest is not None
    assert newest.time_ms != foreign.time_ms or newest.round == 4


def test_a_second_trainee_of_a_station_fences_the_first(tmp_path: Path) -> None:
    """C41: two processes in one station's name."""
    training = Training(tmp_path)
    for name in training.names():
        training.step(name)
    name = training.names()[1]
    first = training.kept.pop(name)
    training.stores[name].close()
    training.start(name)
    training.clock.advance(1.0)
    training.log.writer().write([Outgoing("t.observations", name.partition(".")[2], b"x")])
    with pytest.raises(FencedError, match="must stop"):
        first.step(0.0)
    first.close()


def test_the_state_of_another_run_or_of_another_size_is_refused(tmp_path: Path, undisturbed: Training) -> None:
    server, client = (undisturbed.roles[n] for n in undisturbed.names()[:2])
    other = msgspec.structs.replace(TRAINING, run="other")
    larger = msgspec.structs.replace(TRAINING, n_global=7)
    for settings, reason in ((other, "of run"), (larger, "other sizes")):
        with pytest.raises(CheckpointError, match=reason):
            TrainingServer(settings, prefix="t", clock=ManualClock()).restore(server.state())
    rows = ObservationRows("station-0", ("time", "depth"), n_outputs=2)
    with pytest.raises(CheckpointError, match="rows of"):
        TrainingClient("station-0", rows, prefix="t", clock=ManualClock()).restore(client.state())


def test_an_answer_computed_again_gets_the_same_noise_and_another_answer_other_noise() -> None:
    """Two noisy copies of one answer would tell more than one; the secret never leaves the station."""
    settings = msgspec.structs.replace(TRAINING, clip=1.0, noise=0.5)
    (X, Y), clock = DATA["station-0"], ManualClock()
    server = TrainingServer(settings, prefix="t", clock=clock)
    opening = Message("t.globals", 0, 0, "default", server.start(0.0)[0].value, 0)

    def answered(client: TrainingClient) -> bytes:
        client.feed([opening], 0.0)
        (out,) = client.drain(0.0)
        return out.value or b""

    def client_of(count: int) -> TrainingClient:
        return TrainingClient("station-0", FixedRows(X[:count], Y[:count]), prefix="t", clock=clock)

    one, twin, more, other = client_of(12), client_of(12), client_of(11), client_of(12)
    fresh = one.state()
    twin.restore(fresh)
    more.restore(fresh)
    a, again, fewer, elsewhere = (answered(c) for c in (one, twin, more, other))
    assert a == again
    assert len({a, fewer, elsewhere}) == 3
    noises = [np.array(decode(v, Update).arrays["mean"]) for v in (a, fewer)]
    assert np.abs(noises[0] - noises[1]).max() > 1e-3  # one row less, and yet no difference that tells of it


@pytest.mark.parametrize("count", [6, 40])
def test_the_model_rows_of_a_station_come_back_to_the_bit(count: int) -> None:
    """R66: within the warm-up and after it; what is learned later is the same."""
    training = msgspec.structs.replace(TRAINING, inputs=MODEL_ROWS)
    settings = msgspec.structs.replace(BASE, training=training, model=ModelSettings(warm_up=30))
    one, twin = training_rows(settings, "A"), training_rows(settings, "A")
    sent = [
        Message(
            "t.observations", 0, i, "A", encode(Observation(station="A", time_ms=i * DAY_MS, y=float(i % 7))), NOW_MS
        )
        for i in range(count + 150)
    ]
    one.feed(sent[:count])
    twin.restore(unpack(pack(one.state())))
    for rows in (one, twin):
        rows.feed(sent[count:])
    assert [a.tobytes() for a in one.rows()] == [a.tobytes() for a in twin.rows()]
    assert len(one.rows()[0]) > 50
    assert pack(one.state()) == pack(twin.state())
