"""One frozen settings object a process, read once from TOML; an unknown key is an error that names it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from streamgp.errors import SettingsError
from streamgp.roles.door import DoorSettings
from streamgp.roles.sections import (
    AgentSettings,
    CloudSettings,
    HealthSettings,
    KeepSettings,
    ModelKind,
    ModelSettings,
    NetworkSection,
    RowSettings,
    ScorerSettings,
    Section,
    SigningSettings,
)
from streamgp.roles.training_settings import MODEL_ROWS, TrainingSettings
from streamgp.wire.topics import role_topic, station_topic

__all__ = [
    "AgentSettings",
    "CloudSettings",
    "HealthSettings",
    "KeepSettings",
    "ModelKind",
    "ModelSettings",
    "NetworkSection",
    "RowSettings",
    "ScorerSettings",
    "Settings",
    "SigningSettings",
    "check",
    "load_settings",
    "parse_settings",
]


class Settings(Section, frozen=True, kw_only=True):
    """All settings of a process. A role runs on ``Settings()`` alone."""

    broker: str | None = None
    """``HOST:PORT`` of the Kafka broker, several separated by commas."""
    prefix: str = "streamgp"
    """What the names of all topics begin with: networks with different ones do not meet."""
    stations: tuple[str, ...] = ()
    """Stations known beforehand; others are found when their agents speak, and until then the scorer refuses their
    readings as of a ``foreign station``. Empty: anybody's."""
    observation_topics: Literal["shared", "per-station"] = "shared"
    """``per-station``: the observations of each of ``stations`` have a topic of their own, so that the broker's
    access control can keep everybody else out of it (docs/acl.md)."""
    state_topics: Literal["shared", "per-role"] = "shared"
    """``per-role``: each role has a journal and a snapshots topic of its own, so that access control can keep everybody
    else from writing under its name, and from reading what its model was learned from (docs/acl.md)."""
    model: ModelSettings = ModelSettings()
    features: RowSettings = RowSettings()
    agent: AgentSettings = AgentSettings()
    cloud: CloudSettings = CloudSettings()
    network: NetworkSection = NetworkSection()
    scorer: ScorerSettings = ScorerSettings()
    keep: KeepSettings = KeepSettings()
    signing: SigningSettings = SigningSettings()
    health: HealthSettings = HealthSettings()
    training: TrainingSettings = TrainingSettings()
    """Of ``streamgp trainer`` and ``streamgp trainee``: the hierarchical model, federated."""
    door: dict[str, Any] = msgspec.field(default_factory=dict)
    """Checks on the way in (see :class:`streamgp.roles.door.DoorSettings` for the keys)."""
    kafka: dict[str, Any] = msgspec.field(default_factory=dict)
    """Any kafka-python setting; the tables ``consumer`` and ``producer`` in it go to that client alone."""

    def topic(self, suffix: str) -> str:
        """Full name of a topic, e.g. ``streamgp.queries``."""
        return f"{self.prefix}.{suffix}"

    def observations_topic(self, station: str) -> str:
        """Where a station's observations are."""
        if self.observation_topics == "shared":
            return self.topic("observations")
        return station_topic(self.prefix, station)

    def state_topic(self, suffix: str, role: str) -> str:
        """Where a role's ``journal`` or ``snapshots`` are."""
        return self.topic(suffix) if self.state_topics == "shared" else role_topic(self.prefix, suffix, role)

    def suffix(self, topic: str) -> str:
        """What a topic is about, without the prefix; all topics of observations are ``observations``."""
        rest = topic[len(self.prefix) + 1 :]
        return "observations" if rest.startswith("observations.") else rest

    def own_topics(self) -> tuple[str, ...]:
        """Stations that have a topic of their own for their observations."""
        return self.stations if self.observation_topics == "per-station" else ()

    def door_settings(self) -> DoorSettings:
        """The door's settings; the lateness of the agent is the door's as well, unless it names its own."""
        unknown = sorted(set(self.door) - {f.name for f in fields(DoorSettings)})
        if unknown:
            raise SettingsError(f"door: unknown key `{unknown[0]}`")
        given = {"max_late_s": self.agent.lateness_ms / 1000, **self.door}
        try:
            return msgspec.convert(given, DoorSettings)
        except msgspec.ValidationError as error:
            raise SettingsError(f"door: {error}") from error


def parse_settings(text: str, *, source: str = "settings") -> Settings:
    """Settings from TOML text.

    Raises
    ------
    SettingsError
        If the text is no TOML, a key is unknown, or a value is of the wrong type or out of range.
    """
    try:
        settings = msgspec.toml.decode(text, type=Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{source}: {error}") from error
    except msgspec.DecodeError as error:
        raise SettingsError(f"{source}: no TOML: {error}") from error
    settings = _on_model_rows(settings)
    check(settings, source=source)
    return settings


def _on_model_rows(settings: Settings) -> Settings:
    """A training on model rows with the box of their columns, unless the settings name one."""
    training, plain = settings.training, TrainingSettings()
    if training.inputs != MODEL_ROWS or (training.low, training.high) != (plain.low, plain.high):
        return settings
    if settings.features.calendar is None and settings.agent.step_ms is None:
        raise SettingsError("training on model rows needs features.calendar or agent.step_ms: they decide the columns")
    made = settings.features.made()
    if settings.agent.step_ms is not None:
        made = replace(made, cadence_ms=settings.agent.step_ms)
    low, high = made.box
    return msgspec.structs.replace(settings, training=msgspec.structs.replace(training, low=low, high=high))


def load_settings(path: Path | None, **overrides: Any) -> Settings:
    """Settings from a file (or the defaults), with those of ``overrides`` that are not None put over them."""
    if path is None:
        settings = Settings()
    else:
        try:
            settings = parse_settings(path.read_text(encoding="utf-8-sig"), source=str(path))
        except OSError as error:
            raise SettingsError(f"cannot read the settings file {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SettingsError(f"{path}: not UTF-8 at byte {error.start}") from error
    given = {name: value for name, value in overrides.items() if value is not None}
    settings = _on_model_rows(msgspec.structs.replace(settings, **given))
    check(settings)
    return settings


def check(settings: Settings, *, source: str = "settings") -> None:
    """Raise a SettingsError for what types alone cannot tell."""
    strange = next(_not_finite(settings), None)
    if strange is not None:
        raise SettingsError(f"{source}: {strange} must be a finite number")
    agent, cloud, model = settings.agent, settings.cloud, settings.model
    wrong = [
        (not settings.prefix, "prefix must not be empty"),
        (
            settings.observation_topics == "per-station" and not settings.stations,
            "observation_topics: per-station needs the names of all `stations`",
        ),
        (
            settings.state_topics == "per-role" and not settings.stations,
            "state_topics: per-role needs the names of all `stations`",
        ),
        (model.n_neighbors < 1, "model.n_neighbors must be at least 1"),
        (min(model.n_global, model.n_local) < 1, "model.n_global and model.n_local must be at least 1"),
        (
            model.kind == "hierarchical" and model.max_points is not None and model.max_points < 100,
            "model.max_points of a hierarchical model must be at least 100",
        ),
        (not 0 <= model.seed < 2**32, "model.seed must be between 0 and 2^32 - 1"),
        (model.warm_up < 2, "model.warm_up must be at least 2"),
        (
            model.max_points is not None and model.max_points < model.n_neighbors,
            "model.max_points must be at least model.n_neighbors",
        ),
        (min(model.expert_size, model.correlation) < 1, "model: expert_size and correlation must be at least 1"),
        (
            model.max_experts is not None and model.max_experts < model.correlation,
            "model.max_experts must be at least model.correlation",
        ),
        (any(h < 1 for h in agent.horizons), "agent.horizons must be positive"),
        (agent.step_ms is not None and agent.step_ms < 1, "agent.step_ms must be positive"),
        (
            min(agent.max_wait_s, agent.idle_wait_s, agent.settle_s, agent.forecast_wait_s, agent.lateness_ms) < 0,
            "agent: a wait must not be negative",
        ),
        (not 0 <= cloud.beta < 0.25, "cloud.beta must be in [0, 1/4)"),
        (
            cloud.beta_bounds is not None and not 0 <= cloud.beta_bounds[0] <= cloud.beta_bounds[1] < 0.25,
            "cloud.beta_bounds must be two numbers in [0, 1/4), the smaller first",
        ),
        (cloud.report_every < 1, "cloud.report_every must be at least 1"),
        (not cloud.half_life > 0, "cloud.half_life must be positive"),
        (cloud.deadline_s <= 0, "cloud.deadline_s must be positive"),
        (cloud.min_answers < 1, "cloud.min_answers must be at least 1"),
        (cloud.patience < 1, "cloud.patience must be at least 1"),
        (not 0 <= settings.network.most_stations <= 2**31, "network.most_stations must be between 0 and 2^31"),
        (not 0 < settings.scorer.band < 1, "scorer.band must be in (0, 1)"),
        (
            min(settings.health.stuck_s, settings.health.stalled_s, settings.health.starting_s) <= 0,
            "health: a time must be positive",
        ),
        (settings.signing.max_delay_s <= 0, "signing.max_delay_s must be positive"),
        (settings.keep.commit_interval_s < 0, "keep.commit_interval_s must not be negative"),
        (
            min(settings.keep.snapshot_every_s, settings.keep.snapshot_busy_s, settings.keep.end_within_s) <= 0,
            "keep: the time between snapshots, and the time to end, must be positive",
        ),
        (settings.scorer.keep < 2, "scorer.keep must be at least 2"),
    ]
    for bad, reason in wrong:
        if bad:
            raise SettingsError(f"{source}: {reason}")
    try:
        settings.network.learning()
        settings.network.checked_places()
    except (SettingsError, ValueError) as error:
        raise SettingsError(f"{source}: network: {error}") from error
    try:
        settings.health.address()
    except SettingsError as error:
        raise SettingsError(f"{source}: {error}") from error
    settings.features.made()
    training = settings.training.checked()
    if training.inputs != MODEL_ROWS and len(training.inputs) != len(training.low):
        raise SettingsError(f"training: low and high must have a number for each of the inputs {training.inputs}")
    settings.door_settings()


def _not_finite(section: msgspec.Struct, name: str = "") -> Iterator[str]:
    """Names of numbers that are NaN or infinite: they pass comparisons with a bound. Tables are checked elsewhere."""
    for field in section.__struct_fields__:
        value = getattr(section, field)
        if isinstance(value, msgspec.Struct):
            yield from _not_finite(value, f"{name}{field}.")
        elif any(
            isinstance(v, float) and not math.isfinite(v) for v in (value if isinstance(value, tuple) else [value])
        ):
            yield name + field
