"""One frozen settings object a process, read once from TOML; an unknown key is an error that names it."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from streamgp.errors import SettingsError
from streamgp.fusion.asked import known_places
from streamgp.fusion.network_settings import NetworkSettings
from streamgp.models.features import FeatureSettings
from streamgp.roles.door import DoorSettings
from streamgp.roles.places import Region, check_location
from streamgp.roles.training_settings import MODEL_ROWS, TrainingSettings
from streamgp.wire.topics import station_topic


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections."""


ModelKind: TypeAlias = Literal["nearest", "cpoe", "hierarchical", "constant"]


class ModelSettings(_Section, frozen=True, kw_only=True):
    """What a station believes: ``kind`` picks the model, the rest are its parameters."""

    kind: ModelKind = "nearest"
    n_neighbors: int = 32
    """Of ``nearest``."""
    max_points: int | None = 20_000
    """Of ``nearest``, and of ``hierarchical``: there at most 2,000, whose sums are made anew now and then."""
    expert_size: int = 128
    """Of ``cpoe``: observations an expert."""
    correlation: int = 2
    """Of ``cpoe``: experts that one region correlates."""
    max_experts: int | None = 8
    """Of ``cpoe``: experts kept; an older one is marginalised. Without a limit, memory grows with the stream."""
    n_global: int = 48
    n_local: int = 32
    """Of ``hierarchical``: inducing inputs of its smooth and its rough layer while no training says its own."""
    warm_up: int = 200
    """Observations before scale and hyperparameters are fitted; until then other stations get no answer."""
    seed: int = 0


class RowSettings(_Section, frozen=True, kw_only=True):
    """The columns of a model row (see :class:`streamgp.models.features.FeatureSettings`)."""

    lags: tuple[int, ...] = (1, 2, 3)
    averages: tuple[int, ...] = (10,)
    calendar: tuple[Literal["year", "week", "day"], ...] | None = None
    x: tuple[str, ...] = ()
    max_gap: int = 3

    def made(self) -> FeatureSettings:
        """As the models take it; raises a SettingsError for what cannot be."""
        return FeatureSettings(**msgspec.structs.asdict(self))


class AgentSettings(_Section, frozen=True, kw_only=True):
    """How a station asks, answers, waits and chooses."""

    horizons: tuple[int, ...] = (1,)
    """Steps ahead of the questions asked after each observation; empty: the station never asks."""
    step_ms: int | None = None
    """The station's cadence; by default the most common difference of its first observations."""
    choice: Literal["network", "eq8", "eq9", "local", "cloud"] = "network"
    """Equation (8) or (9) of the paper between the station's own answer and the trimmed product; ``network``: the
    network's forecast where by this station's own record it has been no worse than what (8) picks, (8) elsewhere."""
    max_wait_s: float = 30.0
    """How long a busy peer that says nothing may hold an observation back."""
    idle_wait_s: float = 2.0
    """The same for a peer that had read all of its input, and for a query waiting for our own next reading."""
    settle_s: float = 5.0
    """After the start: how long no new peer must appear before the first observation is learned."""
    forecast_wait_s: float = 60.0
    """After this the station forecasts alone, and says so."""
    lateness_ms: int = 0
    """Observations are put in order within this span; what is older than that is late."""


class CloudSettings(_Section, frozen=True, kw_only=True):
    """How a window closes and what it does with the answers."""

    beta: float = 1 / 6
    """Share cut at each end, (6); 4 * ceil(beta * n) must stay below n or there is no quorum."""
    beta_bounds: tuple[float, float] | None = None
    """With bounds, beta follows the trust report between them instead."""
    rule: Literal["trimmed_poe", "calibrated_poe"] = "trimmed_poe"
    """The paper's (6) and (7), or the rule that goes by the agents' records of calibration."""
    half_life: float = 100.0
    """Answers of an agent after which its record counts half."""
    report_every: int = 240
    """Windows between two trust reports."""
    min_answers: int = 1
    deadline_s: float = 20.0
    """A window closes when every known agent has answered, or this long after the query was read."""
    patience: int = 3
    """After so many windows in a row without an answer an agent is no longer waited for, until it speaks."""


class NetworkSection(_Section, frozen=True, kw_only=True):
    """What the cloud makes of everybody's last errors (see :class:`streamgp.fusion.network.NetworkLayer`)."""

    enabled: bool = True
    sources: int = 16
    """Stations that one station's forecast listens to."""
    candidates: int = 64
    """Stations among which those are looked for at a time."""
    places: dict[str, tuple[float, float]] = {}
    """Latitude and longitude of stations, in degrees, where known: near ones are tried first. A place that cannot be is
    a wrong setting: (0, 0), latitude and longitude swapped, outside of the region."""
    region: tuple[float, float, float, float] | None = None
    """Least and greatest latitude, least and greatest longitude of the network: no place may lie outside."""
    most_stations: int = 10_000
    """Names taken in; a station beyond these gets no such forecast."""

    def checked_places(self) -> None:
        """Raise a ValueError that names the first station whose place cannot be, and why; NaN stands for unknown."""
        region = None if self.region is None else Region(*self.region)
        for name, (lat, lon) in self.places.items():
            reason = None if math.isnan(lat) or math.isnan(lon) else check_location(lat, lon, region)
            if reason is not None:
                raise ValueError(f"the place of {name!r}, ({lat:g}, {lon:g}): {reason}")
        known_places(self.places)

    def learning(self) -> NetworkSettings:
        """How the layer learns; raises a SettingsError if it cannot."""
        return NetworkSettings(n_sources=self.sources, n_candidates=self.candidates)


class ScorerSettings(_Section, frozen=True, kw_only=True):
    """What is scored and how long an unscored forecast is kept."""

    band: float = 0.9
    """Probability of the central interval that ``covered`` speaks of."""
    keep: int = 4096
    """Observations, and forecasts without truth, remembered per station."""


class KeepSettings(_Section, frozen=True, kw_only=True):
    """How often work is made final, and where the state is kept."""

    state: str | None = None
    """A folder, or ``topic``: the compacted snapshots topic. Default: a folder of its own in the user's state home."""
    commit_interval_s: float = 0.5
    """Outputs wait no longer than this for their transaction, and a tenth of it where the last one is that long ago.
    One takes 15 to 30 ms, and a hundred records cost no more than one: a longer interval costs delay and spares the
    broker work."""
    snapshot_every_s: float = 60.0
    """Seconds between snapshots while anything changes."""
    snapshot_busy_s: float = 5.0
    """Or after so many seconds of work: about what a restart after a crash has to do again."""
    end_within_s: float = 4.5
    """Who is told to stop and has not ended after so long is cut off (exit code 9): the successor does again what was
    not committed. Raise it where the machine is busy and the supervisor patient."""


class SigningSettings(_Section, frozen=True, kw_only=True):
    """Who may speak (see :mod:`streamgp.wire.signing`)."""

    enabled: bool | None = None
    """Default: off on the embedded log and where every broker is on this machine, on everywhere else."""
    keys: str = "keys"
    """Folder of ``allowed.toml`` and of this role's private key, as ``streamgp keys make`` writes them."""
    max_delay_s: float = 600.0
    """Longest time between signing and writing; what is older is stale."""


class HealthSettings(_Section, frozen=True, kw_only=True):
    """Where health and metrics are served, when a role counts as ill, and how log lines look."""

    listen: str | None = None
    """``HOST:PORT`` of /healthz and /metrics; default: not served."""
    stuck_s: float = 30.0
    """A loop that has not turned, or a broker that has not been there, for so long is unhealthy."""
    stalled_s: float = 120.0
    """So is a role that has work waiting and has done none of it for so long."""
    starting_s: float = 300.0
    """How long the restoring of a state may take."""
    behind: int = 1_000
    """Messages waiting from which on the status is ``behind``; it is healthy, and it says so."""
    log: Literal["text", "json"] = "text"
    """Form of the log lines."""


class Settings(_Section, frozen=True, kw_only=True):
    """All settings of a process. A role runs on ``Settings()`` alone."""

    broker: str | None = None
    prefix: str = "streamgp"
    stations: tuple[str, ...] = ()
    """Stations known beforehand; others are found when they speak."""
    observation_topics: Literal["shared", "per-station"] = "shared"
    """``per-station``: the observations of each of ``stations`` have a topic of their own, so that the broker's
    access control can keep everybody else out of it (docs/acl.md)."""
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
    door: dict[str, Any] = {}
    """Checks on the way in (see :class:`streamgp.roles.door.DoorSettings` for the keys)."""
    kafka: dict[str, Any] = {}
    """Any kafka-python setting; the tables ``consumer`` and ``producer`` in it go to that client alone."""

    def topic(self, suffix: str) -> str:
        """Full name of a topic, e.g. ``streamgp.queries``."""
        return f"{self.prefix}.{suffix}"

    def observations_topic(self, station: str) -> str:
        """Where a station's observations are."""
        if self.observation_topics == "shared":
            return self.topic("observations")
        return station_topic(self.prefix, station)

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
    agent, cloud, model = settings.agent, settings.cloud, settings.model
    wrong = [
        (not settings.prefix, "prefix must not be empty"),
        (
            settings.observation_topics == "per-station" and not settings.stations,
            "observation_topics: per-station needs the names of all `stations`",
        ),
        (model.n_neighbors < 1, "model.n_neighbors must be at least 1"),
        (min(model.n_global, model.n_local) < 1, "model.n_global and model.n_local must be at least 1"),
        (
            model.kind == "hierarchical" and model.max_points is not None and model.max_points < 100,
            "model.max_points of a hierarchical model must be at least 100",
        ),
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
    settings.features.made()
    settings.training.checked()
    settings.door_settings()
