"""Settings changed while a state is kept: taken, or told with both values, or refused; never ignored without a word."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from streamgp.errors import KeptSettingsError
from streamgp.roles.cloud import CloudRole
from streamgp.roles.door import Door
from streamgp.roles.model_rows import ModelRows
from streamgp.roles.scorer import ScorerRole
from streamgp.roles.settings import (
    AgentSettings,
    CloudSettings,
    ModelSettings,
    NetworkSection,
    RowSettings,
    Settings,
)
from streamgp.roles.trainer import TrainingServer
from streamgp.roles.training_rows import ObservationRows
from streamgp.roles.wiring import agent_role
from streamgp.wire.checkpoint import pack, unpack
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Message
from streamgp.wire.records import Forecast, Observation, Prediction, Query, Record
from tests.roles.training import Federation, changed

HOUR = 3_600_000
QUERY = Query(id="A:9:1", station="A", time_ms=9, target_ms=10, points=((0.0,),))
ROWS = RowSettings(lags=(1, 2), averages=(), calendar=())


def through_a_snapshot(state: dict[str, Any]) -> dict[str, Any]:
    return unpack(pack({"state": state}))["state"]  # type: ignore[no-any-return]  # what a role's state is


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


# -- the cloud


def asked(role: CloudRole, number: int) -> Forecast:
    """The forecast of five agents' answers to one more question."""
    query = Query(id=f"A:{number}:1", station="A", time_ms=number, target_ms=number + 1, points=((0.0,),))

    def message(suffix: str, record: Record, offset: int) -> Message:
        return Message(f"streamgp.{suffix}", 0, offset, "key", encode(record))

    role.feed([message("queries", query, number)], 0.0)
    for i, agent in enumerate("ABCDE"):
        answer = Prediction(
            query_id=query.id,
            agent=agent,
            time_ms=number,
            mean=(i / 8,),
            variance=(1.0,),
            noise_variance=(0.1,),
            learned=5,
        )
        role.feed([message("predictions", answer, 5 * number + i)], 0.0)
    return decode(role.drain(0.0)[0].value, Forecast)


def cloud(**changed: Any) -> CloudRole:
    return CloudRole(Settings(stations=tuple("ABCDE"), cloud=CloudSettings(**changed)))


def test_a_cloud_goes_on_by_the_settings_that_it_is_started_with() -> None:
    before = cloud(beta=0.21)
    assert asked(before, 0).status == "no_quorum"
    state = through_a_snapshot(before.state())

    after = cloud(beta=0.14, half_life=7.0, deadline_s=3.0)
    after.restore(state)
    forecast = asked(after, 1)
    assert (forecast.beta, forecast.status) == (0.14, "ok")
    assert through_a_snapshot(after.state())["fusing"]["ledger"]["half_life"] == 7.0
    after.feed([Message("streamgp.queries", 0, 9, "key", encode(QUERY))], 0.0)
    assert after.wake_s(1.0) == 2.0

    quorum = cloud(beta=0.14, min_answers=6)
    quorum.restore(state)
    assert asked(quorum, 1).status == "no_quorum"

    rule = cloud(beta=0.14, rule="calibrated_poe")
    rule.restore(state)
    assert asked(rule, 1).rule == "calibrated_poe"


def test_a_beta_that_follows_the_report_stays_where_it_was_within_its_bounds() -> None:
    before = cloud(beta=0.21)
    asked(before, 0)
    for bounds, expected in (((0.0, 0.24), 0.21), ((0.0, 0.1), 0.1), ((0.22, 0.24), 0.22)):
        after = cloud(beta_bounds=bounds)
        after.restore(through_a_snapshot(before.state()))
        assert asked(after, 1).beta == expected


def test_what_the_network_layer_has_learned_with_is_told_and_new_places_are_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unknown = (float("nan"), float("nan"))
    names = tuple("ABCDE")
    before = CloudRole(
        Settings(stations=names, network=NetworkSection(sources=4, places={"A": (53.0, -6.0), "B": unknown}))
    )
    asked(before, 0)
    state = through_a_snapshot(before.state())
    assert state["fusing"]["network"]["layer"]["stations"] == ["A"]

    same = CloudRole(Settings(network=NetworkSection(sources=4, places={"A": (53.0, -6.0), "B": unknown})))
    same.restore(state)
    assert told(caplog) == []

    for _ in range(2):  # told at every start, until it is set back
        other = NetworkSection(sources=8, places={"A": (54.0, -6.0), "C": (52.0, -7.0)})
        after = CloudRole(Settings(network=other))
        after.restore(state)
        assert told(caplog) == [
            "cloud: network.sources = 8 is not taken: the kept state has 4; --fresh begins anew with it",
            "cloud: network.places.A = (54.0, -6.0) is not taken: the kept state has (53.0, -6.0); "
            "--fresh begins anew with it",
        ]
        state = through_a_snapshot(after.state())
        assert state["fusing"]["network"]["layer"]["coordinates"] == {"A": [53.0, -6.0], "C": [52.0, -7.0]}
        caplog.clear()

    off = CloudRole(Settings(network=NetworkSection(enabled=False, sources=8)))
    off.restore(state)
    assert told(caplog) == []


# -- the agent


def station(*, readings: int, **changed: Any) -> tuple[Settings, dict[str, Any]]:
    """The settings, and the state after so many readings."""
    settings = Settings(
        **{"agent": AgentSettings(settle_s=0.0), "model": ModelSettings(warm_up=10), "features": ROWS, **changed}
    )
    role = agent_role(settings, "A")
    role.start(0.0)
    for i in range(readings):
        value = encode(Observation(station="A", time_ms=i * HOUR, y=float(i % 4), unit="C"))
        role.feed([Message("streamgp.observations", 0, i, "A", value, 2_000_000_000_000)], 0.0)
        role.feed([], 0.0)
        role.drain(0.0)
    assert role.counts["learned"] == readings
    return settings, through_a_snapshot(role.state())


NEAREST = {"n_neighbors": (5, 32), "max_points": (100, 20_000), "seed": (3, 0)}
CASES: list[tuple[dict[str, Any], dict[str, tuple[object, object]]]] = [
    ({"kind": "nearest"}, NEAREST),
    ({"kind": "cpoe"}, {"expert_size": (64, 128), "correlation": (3, 2), "max_experts": (9, 8), "seed": (3, 0)}),
    (
        {"kind": "hierarchical"},
        {"n_global": (20, 48), "n_local": (10, 32), "max_points": (500, 2000), "seed": (3, 0)},
    ),
    ({"kind": "constant"}, {}),
]


@pytest.mark.parametrize(("kind", "changed"), CASES, ids=[c[0]["kind"] for c in CASES])
def test_what_shaped_an_agents_model_is_told_with_both_values(
    kind: dict[str, Any], changed: dict[str, tuple[object, object]], caplog: pytest.LogCaptureFixture
) -> None:
    settings, state = station(readings=12, model=ModelSettings(warm_up=10, **kind))
    agent_role(settings, "A").restore(state)
    assert told(caplog) == []
    values: dict[str, Any] = {key: wanted for key, (wanted, _) in changed.items()}
    other = Settings(agent=settings.agent, features=ROWS, model=ModelSettings(warm_up=10, **kind, **values))
    agent_role(other, "A").restore(state)
    assert sorted(told(caplog)) == sorted(
        f"agent A: model.{key} = {wanted} is not taken: the kept state has {kept}; --fresh begins anew with it"
        for key, (wanted, kept) in changed.items()
    )


def test_during_the_warm_up_an_agents_model_is_made_of_the_settings_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings, state = station(readings=9)
    other = Settings(agent=settings.agent, features=ROWS, model=ModelSettings(warm_up=10, n_neighbors=5))
    role = agent_role(other, "A")
    role.restore(state)
    role.agent.model.observe(9 * HOUR, {}, 1.0)
    assert role.agent.model.state()["model"]["inner"]["n_neighbors"] == 5
    assert told(caplog) == []


def test_cadence_and_unit_of_what_was_learned_are_told(caplog: pytest.LogCaptureFixture) -> None:
    settings, state = station(readings=12)
    other = Settings(
        agent=AgentSettings(settle_s=0.0, step_ms=1000), features=ROWS, model=settings.model, door={"unit": "F"}
    )
    agent_role(other, "A").restore(state)
    assert told(caplog) == [
        "agent A: door.unit = F is not taken: the kept state has C; --fresh begins anew with it",
        f"agent A: agent.step_ms = 1000 is not taken: the kept state has {HOUR}; --fresh begins anew with it",
    ]


def test_a_scorer_tells_the_unit_of_the_truths_that_it_has_seen(caplog: pytest.LogCaptureFixture) -> None:
    role = ScorerRole(Settings())
    value = encode(Observation(station="A", time_ms=0, y=1.0, unit="C"))
    role.feed([Message("streamgp.observations", 0, 0, "A", value, 2_000_000_000_000)], 0.0)
    other = ScorerRole(Settings(door={"unit": "F"}))
    other.restore(through_a_snapshot(role.state()))
    assert told(caplog) == ["scorer: door.unit = F is not taken: the kept state has C; --fresh begins anew with it"]


def test_waits_and_the_bounds_of_the_door_are_taken(caplog: pytest.LogCaptureFixture) -> None:
    _, state = station(readings=12)
    other = Settings(
        agent=AgentSettings(settle_s=0.0, horizons=(1, 2)),
        model=ModelSettings(warm_up=10),
        features=ROWS,
        door={"y_range": (0.0, 5.0)},
    )
    role = agent_role(other, "A")
    role.restore(state)
    for offset, y in ((12, 9.0), (13, 1.0)):
        value = encode(Observation(station="A", time_ms=offset * HOUR, y=y))
        role.feed([Message("streamgp.observations", 0, offset, "A", value, 2_000_000_000_000)], 0.0)
    role.feed([], 0.0)
    out = role.drain(0.0)
    assert [dict(o.headers)["reason"].decode() for o in out if o.topic == "streamgp.dead-letter"] == ["out of range 9"]
    queries = [decode(o.value, Query) for o in out if o.topic == "streamgp.queries"]
    assert len(queries) == 2
    assert told(caplog) == []


REFUSED: dict[str, tuple[Callable[[], Settings], str]] = {
    "lags": (
        lambda: Settings(features=RowSettings(lags=(1, 3), averages=(), calendar=())),
        r"features.lags = \(1, 3\) \(the kept state has \(1, 2\)\).*set it back.*--fresh",
    ),
    "kind": (
        lambda: Settings(features=ROWS, model=ModelSettings(kind="cpoe")),
        "model.kind is cpoe, and the state is that of a model of kind nearest: set it back.*--fresh",
    ),
    "outputs": (
        lambda: Settings(features=ROWS, door={"outputs": 2}),
        r"door.outputs = 2 \(the kept state has 1\): set it back.*--fresh",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_with_which_a_state_is_of_no_use_are_refused_as_settings(name: str) -> None:
    _, state = station(readings=12)
    changed, says = REFUSED[name]
    with pytest.raises(KeptSettingsError, match=f"^{says}"):
        agent_role(changed(), "A").restore(state)


# -- a training


def test_the_state_of_another_training_is_refused_as_settings() -> None:
    federation = Federation()
    state = through_a_snapshot(federation.server().state())
    for other, says in (
        ({"run": "other"}, "training.run = other .*of run default"),
        ({"n_global": 7}, "training: .*other sizes"),
    ):
        server = TrainingServer(changed(**other), prefix="t", clock=federation.clock)
        with pytest.raises(KeptSettingsError, match=f"^{says}.*set it back.*--fresh"):
            server.restore(state)
    rows = ObservationRows("A", ("time",), n_outputs=2)
    value = encode(Observation(station="A", time_ms=0, y=(1.0, 2.0)))
    rows.feed([Message("streamgp.observations", 0, 0, "A", value, 0)])
    assert rows.rows()[0].shape == (1, 1)
    with pytest.raises(KeptSettingsError, match=r"^training\.inputs are 2 .*--fresh"):
        ObservationRows("A", ("time", "rain"), n_outputs=2).restore(rows.state())


def test_a_training_on_model_rows_keeps_as_many_as_the_settings_say_now() -> None:
    def made(max_rows: int) -> ModelRows:
        return ModelRows("A", ROWS.made(), door=Door(), warm_up=10, max_rows=max_rows)

    before, after = made(50), made(6)
    for i in range(20):
        value = encode(Observation(station="A", time_ms=i * HOUR, y=float(i % 4)))
        before.feed([Message("streamgp.observations", 0, i, "A", value, 2_000_000_000_000)])
    after.restore(through_a_snapshot(before.state()))
    assert len(before.rows()[0]) == 18
    assert after.rows()[0].tolist() == before.rows()[0][-6:].tolist()
