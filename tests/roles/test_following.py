"""``model.kind = "hierarchical"``: a station forecasts with it, alone and on a training's global layer."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from streamgp.errors import SettingsError
from streamgp.models.hierarchical_model import HierarchicalModel
from streamgp.roles.cloud import CloudRole
from streamgp.roles.loop import together
from streamgp.roles.settings import AgentSettings, ModelSettings, RowSettings, Settings, parse_settings
from streamgp.roles.station import AgentRole
from streamgp.roles.trainer import TrainingServer
from streamgp.roles.training_client import TrainingClient
from streamgp.roles.training_records import flat
from streamgp.roles.training_settings import TrainingSettings
from streamgp.roles.wiring import agent_role, subscriptions, training_rows
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Outgoing, Subscription
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import GlobalState, Observation, StationForecast
from streamgp.wire.topics import topic_plan

HOUR = 3_600_000
STATIONS = ("A", "B", "C")
SETTINGS = Settings(
    stations=STATIONS,
    agent=AgentSettings(settle_s=0.0, step_ms=HOUR),
    model=ModelSettings(kind="hierarchical", warm_up=20, n_global=10, n_local=6),
    features=RowSettings(lags=(1, 2), averages=(), calendar=()),
    training=TrainingSettings(
        inputs=("rows",),
        low=(-4.0, -4.0),
        high=(4.0, 4.0),
        n_global=10,
        n_local=6,
        rank_global=1,
        rank_deviation=1,
        rank_local=1,
        rounds=3,
        expected=3,
        local_iterations=3,
    ),
)


def series(count: int) -> list[Observation]:
    """A wave that all stations share, each with its own level."""
    return [
        Observation(station=s, time_ms=t * HOUR, y=10.0 * i + math.sin(0.3 * t) + 0.1 * ((7 * t + 3 * i) % 5))
        for t in range(count)
        for i, s in enumerate(STATIONS)
    ]


class Pipeline:
    """Agents and a cloud on the embedded log, with a training beside them if wanted."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.settings, self.clock = settings, ManualClock(1_790_000_000_000)
        self.log = MemoryLog(clock=self.clock, max_record_bytes=10_000_000)
        self.log.create_topics(topic_plan(settings.prefix, partitions=2))

    def send(self, observations: list[Observation]) -> None:
        topic = self.settings.topic("observations")
        self.log.writer().write([Outgoing(topic, o.station, encode(o)) for o in observations])

    def train(self) -> TrainingServer:
        server = TrainingServer(self.settings.training, prefix=self.settings.prefix, clock=self.clock)
        pairs = [
            (server, self.log.reader([Subscription(self.settings.topic("updates"))], group="t"), self.log.writer())
        ]
        for station in STATIONS:
            client = TrainingClient(
                station, training_rows(self.settings, station), prefix=self.settings.prefix, clock=self.clock
            )
            topics = [Subscription(self.settings.topic(name)) for name in ("observations", "globals")]
            pairs.append((client, self.log.reader(topics), self.log.writer()))
        # rows first: a client answers with what it has read by then
        for client, reader, _ in pairs[1:]:
            while batch := reader.poll(0.0):
                client.feed(batch, 0.0)
        together(pairs, self.clock)
        return server

    def forecast(self) -> dict[str, AgentRole]:
        roles = {s: agent_role(self.settings, s) for s in STATIONS}
        pairs = [
            (role, self.log.reader(subscriptions("agent", self.settings, station=s)), self.log.writer())
            for s, role in roles.items()
        ]
        pairs.append(
            (CloudRole(self.settings), self.log.reader(subscriptions("cloud", self.settings)), self.log.writer())
        )
        together(pairs, self.clock)
        return roles

    def records(self, suffix: str) -> list[bytes]:
        reader, found = self.log.reader([Subscription(self.settings.topic(suffix))]), []
        while batch := reader.poll(0.0):
            found += [m.value for m in batch]
        return found


def error_of(pipeline: Pipeline, sent: list[Observation], *, after: int) -> float:
    """Root mean square error of the stations' own forecasts for times after so many steps."""
    truth = {(o.station, o.time_ms): o.y for o in sent}
    forecasts = [decode(v, StationForecast) for v in pipeline.records("station-forecasts")]
    errors = [
        f.local_mean[0] - truth[f.station, f.target_ms]
        for f in forecasts
        if f.target_ms > after * HOUR and (f.station, f.target_ms) in truth
    ]
    assert len(errors) > 3 * 20
    assert all(v > 0.0 for f in forecasts for v in f.local_variance)
    return float(np.sqrt(np.mean(np.square(errors))))


def test_stations_forecast_with_it_alone() -> None:
    pipeline, sent = Pipeline(), series(70)
    pipeline.send(sent)
    roles = pipeline.forecast()
    assert error_of(pipeline, sent, after=25) < 0.35
    for role in roles.values():
        assert role.counts["learned"] == 70
        assert isinstance(role.agent.model._current(), HierarchicalModel)
        assert role.agent.model._current().follows is None
    assert not pipeline.records("dead-letter")


def test_stations_forecast_with_the_global_layer_of_a_training() -> None:
    """R33: what was trained is what is forecast with, and the record says which round that is."""
    pipeline, sent = Pipeline(), series(70)
    pipeline.send(sent)
    server = pipeline.train()
    assert server.outcome == "done"
    assert set(server.last.used) == set(STATIONS)
    roles = pipeline.forecast()
    assert error_of(pipeline, sent, after=25) < 0.35
    for role in roles.values():
        model = role.agent.model._current()
        assert isinstance(model, HierarchicalModel)
        assert model.follows == ("default", 3)
        assert role.counts["global layers taken"] == 3
        np.testing.assert_array_equal(model._global.state.mean, server.shared.mean)
        # its state holds the layer and goes on with it
        twin = agent_role(SETTINGS, role.agent.station)
        twin.restore(role.state())
        assert twin.agent.model._current().follows == ("default", 3)


def test_a_second_version_is_used_and_a_broken_one_never() -> None:
    """R33, C38: the newer global model replaces the older; one with a NaN, or of other rows, changes nothing."""
    pipeline = Pipeline()
    pipeline.send(series(40))
    pipeline.train()
    topic = SETTINGS.topic("globals")
    record = [decode(v, GlobalState) for v in pipeline.records("globals")][-1]
    role = agent_role(SETTINGS, "A")
    reader = pipeline.log.reader([Subscription(SETTINGS.topic("observations"), key="A"), Subscription(topic)])
    role.start(0.0)
    role.feed(reader.poll(0.0), 0.0)
    assert role.agent.model._current().follows == ("default", 3)
    newer = msgspec.structs.replace(record, round=4, steps=record.steps + 1)
    wide = {**record.arrays, "q.precision": (1.0,), "q.mean": (0.0,)}
    indefinite, _ = flat({"q.precision": -np.eye(10)})
    writer = pipeline.log.writer()
    for value in (
        encode(newer),
        encode(msgspec.structs.replace(newer, round=5)).replace(b"[", b"[NaN,", 1),
        encode(msgspec.structs.replace(newer, round=6, arrays=wide)),
        encode(msgspec.structs.replace(newer, round=7, arrays={**record.arrays, **indefinite})),
        encode(msgspec.structs.replace(newer, round=8, settings={**record.settings, "n_outputs": 2})),
    ):
        writer.write([Outgoing(topic, "default", value)])
    writer.write([Outgoing(topic, "another", encode(msgspec.structs.replace(newer, round=9)))])
    role.feed(reader.poll(0.0), 0.0)
    assert role.agent.model._current().follows == ("default", 4)
    letters = [o for o in role.drain(0.0) if o.topic.endswith("dead-letter")]
    assert len(letters) >= 3


def test_the_box_of_model_rows_follows_the_features() -> None:
    text = '[features]\nlags = [1, 2]\naverages = [3]\ncalendar = ["day"]\n[training]\ninputs = ["rows"]\n'
    assert parse_settings(text).training.high == (4.0, 4.0, 4.0, 1.0, 1.0)
    assert parse_settings(text + "low = [-1.0]\nhigh = [2.0]\n").training.high == (2.0,)
    with pytest.raises(SettingsError, match="calendar"):
        parse_settings('[training]\ninputs = ["rows"]\n')
    with pytest.raises(SettingsError, match="max_points"):
        parse_settings('[model]\nkind = "hierarchical"\nmax_points = 50\n')
    assert [s.topic for s in subscriptions("agent", Settings(), station="A")].count("streamgp.globals") == 0
