"""From settings to the processes of a network: which role is made of what, and which topics it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from streamgp.fusion.attacks import make_attack
from streamgp.models.constant import ConstantModel
from streamgp.models.contract import LocalModel, State
from streamgp.models.experts import CPoERegressor
from streamgp.models.hierarchical_model import HierarchicalModel
from streamgp.models.local import EstimatorModel
from streamgp.models.nearest import NearestNeighborGP
from streamgp.models.station import StationModel
from streamgp.roles.agent import Agent
from streamgp.roles.door import Door
from streamgp.roles.liar import Liar
from streamgp.roles.model_rows import ModelRows
from streamgp.roles.settings import Settings
from streamgp.roles.station import AgentRole
from streamgp.roles.training_client import Rows
from streamgp.roles.training_rows import ObservationRows
from streamgp.roles.training_settings import MODEL_ROWS
from streamgp.wire.log import Subscription

Kind: TypeAlias = Literal["agent", "cloud", "scorer", "trainer", "trainee", "watch", "trust", "tally"]

#: most rows that a hierarchical model keeps
HIERARCHICAL_POINTS = 2000

_READS: dict[str, tuple[str, ...]] = {
    "agent": ("observations", "queries", "progress", "forecasts"),
    "cloud": ("queries", "progress", "predictions"),
    "scorer": ("observations", "queries", "forecasts", "station-forecasts"),
    "trainer": ("updates",),
    "trainee": ("globals", "observations"),
    "watch": ("station-forecasts", "scores"),
    "trust": ("trust",),
    "tally": ("observations", "forecasts", "station-forecasts", "scores"),
}


_WRITES: dict[str, tuple[str, ...]] = {
    "agent": ("queries", "progress", "predictions", "station-forecasts"),
    "cloud": ("forecasts", "trust"),
    "scorer": ("scores",),
    "trainer": ("globals",),
    "trainee": ("updates",),
}


def role_name(kind: Kind, settings: Settings, station: str | None = None) -> str:
    """What a role is called: its folder, its group and its transactional id are named after it.

    Examples
    --------
    >>> role_name("agent", Settings(), "Dublin"), role_name("trainer", Settings())
    ('agent.Dublin', 'trainer.default')
    """
    run = settings.training.run if kind == "trainer" or settings.training.run != "default" else None
    return ".".join(filter(None, (kind, station, run if kind in ("trainer", "trainee") else None)))


def written_topics(kind: Kind, settings: Settings) -> list[str]:
    """The topics that a role writes to, its journal and snapshots among them."""
    return [settings.topic(suffix) for suffix in (*_WRITES.get(kind, ()), "dead-letter", "journal", "snapshots")]


def subscriptions(
    kind: Kind, settings: Settings, *, station: str | None = None, also: tuple[str, ...] = ()
) -> list[Subscription]:
    """The topics that a role reads, and those of ``also``; a station reads its own partition of the observations."""
    reads: list[Subscription] = []
    for suffix in (*_READS[kind], *also, *_of_model(kind, settings)):
        if suffix != "observations":
            reads.append(Subscription(settings.topic(suffix)))
        elif kind in ("agent", "trainee") and station is not None:
            reads.append(Subscription(settings.observations_topic(station), key=station))
        else:
            topics = dict.fromkeys(map(settings.observations_topic, settings.stations or ("",)))
            reads += [Subscription(topic) for topic in topics]
    return reads


def _of_model(kind: Kind, settings: Settings) -> tuple[str, ...]:
    """What an agent reads beside, for the kind of its model: the global layer of a training."""
    return ("globals",) if kind == "agent" and settings.model.kind == "hierarchical" else ()


def station_model(settings: Settings) -> StationModel:
    """What a fresh station believes."""
    return StationModel(
        settings.features.made(),
        make=lambda fit: _local(settings, fit),
        load=lambda state: _load(settings, state),
        warm_up=settings.model.warm_up,
        step_ms=settings.agent.step_ms,
    )


def agent_role(settings: Settings, station: str, *, liar: Liar | None = None) -> AgentRole:
    """The process of one station."""
    agent = Agent(station, station_model(settings), settings.agent)
    return AgentRole(agent, settings, Door(settings.door_settings()), liar=liar)


def training_rows(settings: Settings, station: str) -> Rows:
    """What a station learns in a training: its model's rows, or columns of its observations."""
    t = settings.training
    if t.inputs != MODEL_ROWS:
        return ObservationRows(station, t.inputs, n_outputs=t.n_outputs, max_rows=t.max_rows)
    return ModelRows(
        station,
        settings.features.made(),
        door=Door(settings.door_settings()),
        warm_up=settings.model.warm_up,
        step_ms=settings.agent.step_ms,
        max_rows=t.max_rows,
    )


def make_liar(
    kind: str, station: str, *, seed: int = 0, from_ms: int | None = None, accomplices: tuple[str, ...] = ()
) -> Liar:
    """What makes an agent a hostile one.

    Raises
    ------
    SettingsError
        If there is no attack of that kind.
    """
    return Liar(make_attack(kind, seed=seed, agent=station), from_ms=from_ms, accomplices=accomplices)


def _local(settings: Settings, fit: bool) -> LocalModel:
    m = settings.model
    if m.kind == "constant":
        return ConstantModel()
    if m.kind == "cpoe":
        return EstimatorModel(
            CPoERegressor(
                expert_size=m.expert_size,
                correlation=m.correlation,
                max_experts=m.max_experts,
                n_predict_experts=3,  # all regions of a series are no better, and cost more
                optimizer="lbfgs" if fit else None,
                random_state=m.seed,
            )
        )
    if m.kind == "hierarchical":
        return HierarchicalModel(
            n_global=m.n_global,
            n_local=m.n_local,
            max_points=min(m.max_points or HIERARCHICAL_POINTS, HIERARCHICAL_POINTS),
            fit=fit,
            seed=m.seed,
        )
    return EstimatorModel(
        NearestNeighborGP(
            n_neighbors=m.n_neighbors,
            max_points=m.max_points,
            optimizer="lbfgs" if fit else None,
            random_state=m.seed,
        )
    )


def _load(settings: Settings, state: State) -> LocalModel:
    loads: dict[str, Callable[[State], LocalModel]] = {
        "constant": ConstantModel.from_state,
        "hierarchical": HierarchicalModel.from_state,
    }
    return loads.get(settings.model.kind, EstimatorModel.from_state)(state)
