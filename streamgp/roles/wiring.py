"""From settings to the processes of a network: which role is made of what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamgp.fusion.attacks import make_attack
from streamgp.models.station import StationModel
from streamgp.roles.agent import Agent
from streamgp.roles.door import Door
from streamgp.roles.kinds import Kind, role_name, subscriptions, written_topics
from streamgp.roles.liar import Liar
from streamgp.roles.local_models import load_model, make_model
from streamgp.roles.settings import Settings
from streamgp.roles.station import AgentRole
from streamgp.roles.training_settings import MODEL_ROWS

if TYPE_CHECKING:  # what trains is loaded by who trains
    from streamgp.roles.training_client import Rows

__all__ = [
    "Kind",
    "agent_role",
    "make_liar",
    "role_name",
    "station_model",
    "subscriptions",
    "training_rows",
    "written_topics",
]


def station_model(settings: Settings) -> StationModel:
    """What a fresh station believes."""
    return StationModel(
        settings.features.made(),
        make=lambda fit: make_model(settings.model, fit=fit),
        load=lambda state: load_model(settings.model.kind, state),
        warm_up=settings.model.warm_up,
        step_ms=settings.agent.step_ms,
    )


def agent_role(settings: Settings, station: str, *, liar: Liar | None = None) -> AgentRole:
    """The process of one station."""
    agent = Agent(station, station_model(settings), settings.agent)
    return AgentRole(agent, settings, Door(settings.door_settings()), liar=liar)


def training_rows(settings: Settings, station: str) -> Rows:
    """What a station learns in a training: its model's rows, or columns of its observations."""
    from streamgp.roles.model_rows import ModelRows
    from streamgp.roles.training_rows import ObservationRows

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
