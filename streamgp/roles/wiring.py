"""From settings to the processes of a network: which role is made of what, and which topics it reads."""

from __future__ import annotations

from typing import Literal, TypeAlias

from streamgp.fusion.attacks import make_attack
from streamgp.models.constant import ConstantModel
from streamgp.models.contract import LocalModel, State
from streamgp.models.local import EstimatorModel
from streamgp.models.nearest import NearestNeighborGP
from streamgp.models.station import StationModel
from streamgp.roles.agent import Agent
from streamgp.roles.door import Door
from streamgp.roles.liar import Liar
from streamgp.roles.settings import Settings
from streamgp.roles.station import AgentRole
from streamgp.wire.log import Subscription

Kind: TypeAlias = Literal["agent", "cloud", "scorer", "watch", "trust", "tally"]

_READS: dict[str, tuple[str, ...]] = {
    "agent": ("observations", "queries", "progress", "forecasts"),
    "cloud": ("queries", "progress", "predictions"),
    "scorer": ("observations", "queries", "forecasts", "station-forecasts"),
    "watch": ("station-forecasts", "scores"),
    "trust": ("trust",),
    "tally": ("observations", "forecasts", "station-forecasts", "scores"),
}


def subscriptions(
    kind: Kind, settings: Settings, *, station: str | None = None, also: tuple[str, ...] = ()
) -> list[Subscription]:
    """The topics that a role reads, and those of ``also``; an agent reads its own partition of the observations."""
    return [
        Subscription(settings.topic(suffix), key=station if kind == "agent" and suffix == "observations" else None)
        for suffix in (*_READS[kind], *also)
    ]


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
    return EstimatorModel(
        NearestNeighborGP(
            n_neighbors=m.n_neighbors,
            max_points=m.max_points,
            optimizer="lbfgs" if fit else None,
            random_state=m.seed,
        )
    )


def _load(settings: Settings, state: State) -> LocalModel:
    return ConstantModel.from_state(state) if settings.model.kind == "constant" else EstimatorModel.from_state(state)
