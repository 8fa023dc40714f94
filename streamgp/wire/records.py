"""The records that cross the network, as frozen values; docs/design.md has the table that other languages read."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

SCHEMA_VERSION = 1

Status: TypeAlias = Literal["ok", "no_quorum", "degraded"]
Source: TypeAlias = Literal["cloud", "local"]
Row: TypeAlias = tuple[float, ...]
#: a station, a query: names are keys of Kafka records too, so they are never empty and never endless
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
#: ms since 1970 UTC, within what every JSON reader holds exactly
TimeMs: TypeAlias = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Values: TypeAlias = Annotated[tuple[float | None, ...], Meta(min_length=1)]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all records: ``v`` is the schema version, unknown fields are ignored."""

    v: int = SCHEMA_VERSION


class Scale(msgspec.Struct, frozen=True):
    """The asker's units: a standardised value s stands for ``mean + std * s``."""

    mean: float
    std: float


class Observation(Record, frozen=True, kw_only=True):
    """What a station measured at ``time_ms`` (event time, ms since 1970 UTC), in physical units.

    ``unit`` names the unit of y where the station tells it; it is left out of the JSON otherwise.
    """

    station: Name
    time_ms: TimeMs
    x: dict[str, float | None] = {}
    y: float | Values
    unit: str | msgspec.UnsetType = msgspec.UNSET


class Query(Record, frozen=True, kw_only=True):
    """A question to every agent: the model rows ``points`` (m, d), as of event time ``time_ms``.

    ``target_ms`` is the time that the answer is about. ``scale`` gives the asker's units; without it every
    agent answers in its own. ``station`` is null when the question comes from outside.
    ``innovation`` is the standardised error of the asker's own last forecast as many steps ahead, null where unknown.
    """

    id: Name
    station: Name | None = None
    time_ms: TimeMs
    target_ms: TimeMs
    points: tuple[Row, ...]
    scale: Scale | None = None
    innovation: float | None = None


class Progress(Record, frozen=True, kw_only=True):
    """A station's promise to the event-time merge: no query of its own before ``time_ms`` is still to come.

    ``queries`` are the ids of the last queries it sent (a reader waits for those before it believes the
    promise). ``state`` is ``busy`` while more input is at hand, ``idle`` when all of it is read, ``gone`` when
    the station leaves.
    """

    station: Name
    time_ms: TimeMs | None
    queries: tuple[Name, ...] = ()
    state: Literal["busy", "idle", "gone"] = "busy"


class Prediction(Record, frozen=True, kw_only=True):
    """One agent's answer, in the units of the query's scale; ``variance`` is the latent one.

    ``time_ms`` is the time of the last observation behind it, ``learned`` how many there are. An agent that is
    there and has nothing to say answers with empty arrays and says why in ``abstained``. ``asked`` is the last
    query that it asked itself before it answered: whoever reads both topics knows what came first.
    """

    query_id: Name
    agent: Name
    time_ms: TimeMs
    mean: Row
    variance: Row
    noise_variance: Row
    learned: Count
    abstained: str | msgspec.UnsetType = msgspec.UNSET
    asked: str | msgspec.UnsetType = msgspec.UNSET


class Forecast(Record, frozen=True, kw_only=True):
    """The cloud's fusion of the answers to one query, (m,) arrays in physical units.

    ``mean``, ``variance`` and ``noise_variance`` are null when there was no quorum. ``kept`` counts the agents
    used per point; ``trimmed`` names those that were cut at some point, ``missing`` those that did not answer,
    ``refused`` those whose answer was not usable. ``untrimmed_*`` is the product of all usable answers.
    ``network_*`` is the asker's own answer, corrected by what the stations' last errors say of its next one; null where
    that is not known. Of its sources ``network_silent`` had not spoken, and ``network_dropped`` had made things worse.
    """

    query_id: Name
    station: Name | None
    time_ms: TimeMs
    target_ms: TimeMs
    mean: Row | None
    variance: Row | None
    noise_variance: Row | None
    kept: tuple[Count, ...]
    trimmed: tuple[Name, ...]
    missing: tuple[Name, ...]
    refused: tuple[Name, ...] = ()
    status: Status
    rule: str = "trimmed_poe"
    beta: float = 0.0
    n_trim: Count = 0
    answers: Count = 0
    untrimmed_mean: Row | None = None
    untrimmed_variance: Row | None = None
    untrimmed_noise_variance: Row | None = None
    network_mean: Row | None = None
    network_variance: Row | None = None
    network_noise_variance: Row | None = None
    network_silent: tuple[Name, ...] = ()
    network_dropped: tuple[Name, ...] = ()


class StationForecast(Record, frozen=True, kw_only=True):
    """What the asking station believes in the end: per point the cloud's answer or its own.

    ``choice`` is the rule that picked ``source``: (8) or (9) of the paper, or ``network``, which says that the cloud's
    ``network_*`` was taken. ``learned_ms`` is the time of the last observation behind it.
    """

    query_id: Name
    station: Name
    time_ms: TimeMs
    target_ms: TimeMs
    mean: Row
    variance: Row
    noise_variance: Row
    kept: tuple[Count, ...]
    trimmed: tuple[Name, ...]
    missing: tuple[Name, ...]
    status: Status
    source: tuple[Source, ...]
    choice: str = "eq8"
    local_mean: Row = ()
    local_variance: Row = ()
    local_noise_variance: Row = ()
    learned_ms: TimeMs | None = None


class Score(Record, frozen=True, kw_only=True):
    """One forecast held against the truth, in physical units.

    ``error`` is mean - y, ``nlpd`` and ``crps`` are of y (noise included), ``covered``: y lies in the central
    90% band. ``scale`` is the asker's standard deviation of y: divide by it to compare stations.
    """

    station: Name
    query_id: Name
    target_ms: TimeMs
    method: str
    y: float
    mean: float
    variance: float
    noise_variance: float
    error: float
    nlpd: float
    crps: float
    covered: bool
    scale: float | None = None


class Trust(Record, frozen=True, kw_only=True):
    """What the cloud's records say of an agent (see :class:`streamgp.fusion.trust_report.AgentTrust`).

    ``beta`` is the share that the cloud cuts now. Being trimmed is no proof; ``standing`` is. ``dropped_by`` are the
    stations whose network forecast leaves this one's innovations out at present: they had made it worse.
    """

    agent: Name
    time_ms: TimeMs
    answered: Count
    missing: Count
    refused: dict[str, int]
    trimmed: float
    mean_low: float
    mean_high: float
    variance_low: float
    variance_high: float
    outlying: float
    scored: float
    z2: float
    coverage: float
    nlpd: float
    factor: float
    standing: str
    beta: float
    dropped_by: tuple[Name, ...] = ()


class Update(Record, frozen=True, kw_only=True):
    """A client's summary of the shared block in one round of the hierarchical model, (23); never a row of data.

    ``arrays`` holds derivatives by name, flattened row by row (of a symmetric one the lower triangle), ``shapes``
    their shapes. A client that has nothing to say sends none.
    """

    run: Name
    round: Count
    client: Name
    time_ms: TimeMs
    arrays: dict[str, tuple[float, ...]]
    shapes: dict[str, tuple[Count, ...]]


class GlobalState(Record, frozen=True, kw_only=True):
    """The shared block after ``round`` rounds, from the server to every client: all that either needs to go on.

    ``status`` says how the last round ended: ``ok``, ``empty``, ``failed``; ``waiting`` while clients are too few;
    ``done`` after the last. ``clients`` were used in it, ``refused`` were not, and why. ``present`` of ``needed``
    clients have answered this round. ``epsilon`` and ``delta`` are the privacy spent by those who took part in all
    rounds, if any.
    """

    run: Name
    round: Count
    time_ms: TimeMs
    status: Literal["ok", "empty", "failed", "waiting", "done"]
    clients: tuple[Name, ...] = ()
    refused: dict[str, str] = {}
    present: Count = 0
    needed: Count = 1
    steps: Count = 0
    settings: dict[str, str | float | int] = {}
    arrays: dict[str, tuple[float, ...]]
    shapes: dict[str, tuple[Count, ...]]
    epsilon: float | None = None
    delta: float | None = None


#: topic suffix -> record type; a topic's full name is ``{prefix}.{suffix}``
TOPICS: dict[str, type[Record]] = {
    "observations": Observation,
    "queries": Query,
    "progress": Progress,
    "predictions": Prediction,
    "forecasts": Forecast,
    "station-forecasts": StationForecast,
    "updates": Update,
    "globals": GlobalState,
    "scores": Score,
    "trust": Trust,
}
DEAD_LETTER = "dead-letter"
