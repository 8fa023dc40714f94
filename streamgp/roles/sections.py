"""The sections of the settings: frozen values with their defaults, a docstring a key."""

from __future__ import annotations

import math
import re
from typing import Literal, TypeAlias

import msgspec

from streamgp.errors import SettingsError
from streamgp.fusion.asked import known_places
from streamgp.fusion.network_settings import NetworkSettings
from streamgp.models.features import FeatureSettings
from streamgp.roles.places import Region, check_location

_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[\w.-]+)):(?P<port>[0-9]{1,5})")


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections."""


ModelKind: TypeAlias = Literal["nearest", "cpoe", "hierarchical", "constant"]


class ModelSettings(Section, frozen=True, kw_only=True):
    """What a station believes: ``kind`` picks the model, the rest are its parameters."""

    kind: ModelKind = "nearest"
    """``nearest``: a GP on each question's nearest neighbours; ``cpoe``: correlated product of experts;
    ``hierarchical``: the federated model (docs/hierarchical.md); ``constant``: mean and variance, for tests."""
    n_neighbors: int = 32
    """Of ``nearest``: observations that one answer is made from."""
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
    """Of whatever a model draws."""


class RowSettings(Section, frozen=True, kw_only=True):
    """The columns of a model row (see :class:`streamgp.models.features.FeatureSettings`)."""

    lags: tuple[int, ...] = (1, 2, 3)
    """How many steps back from the target each lag looks; 1 is the last value before it."""
    averages: tuple[int, ...] = (10,)
    """Numbers of last values whose mean is a column."""
    calendar: tuple[Literal["year", "week", "day"], ...] | None = None
    """Periods whose phase at the target is a pair of columns, sine and cosine; none chooses by cadence: the year from
    a day up, day and year below."""
    x: tuple[str, ...] = ()
    """Names of the observations' own columns."""
    max_gap: int = 3
    """Steps over which a missing reading is bridged by the last one before it; a longer gap empties the lags."""

    def made(self) -> FeatureSettings:
        """As the models take it; raises a SettingsError for what cannot be."""
        return FeatureSettings(**msgspec.structs.asdict(self))


class AgentSettings(Section, frozen=True, kw_only=True):
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
    """After this, and once all that was written by then is read, the station forecasts alone, and says so."""
    lateness_ms: int = 0
    """Observations are put in order within this span; what is older than that is late."""


class CloudSettings(Section, frozen=True, kw_only=True):
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
    """With fewer usable answers there is no quorum."""
    deadline_s: float = 20.0
    """A window closes when every known agent has answered, or this long after the query was read."""
    patience: int = 3
    """After so many windows in a row without an answer an agent is no longer waited for, until it speaks."""


class NetworkSection(Section, frozen=True, kw_only=True):
    """What the cloud makes of everybody's last errors (see :class:`streamgp.fusion.network.NetworkLayer`)."""

    enabled: bool = True
    """Whether it does."""
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


class ScorerSettings(Section, frozen=True, kw_only=True):
    """What is scored and how long an unscored forecast is kept."""

    band: float = 0.9
    """Probability of the central interval that ``covered`` speaks of."""
    keep: int = 4096
    """Observations, and forecasts without truth, remembered per station."""


class KeepSettings(Section, frozen=True, kw_only=True):
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


class SigningSettings(Section, frozen=True, kw_only=True):
    """Who may speak (see :mod:`streamgp.wire.signing`)."""

    enabled: bool | None = None
    """Default: off on the embedded log and where every broker is on this machine, on everywhere else."""
    keys: str = "keys"
    """Folder of ``allowed.toml`` and of this role's private key, as ``streamgp keys make`` writes them."""
    max_delay_s: float = 600.0
    """Longest time between signing and writing; what is older is stale."""


class HealthSettings(Section, frozen=True, kw_only=True):
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

    def address(self) -> tuple[str, int] | None:
        """Host, without brackets, and port of ``listen``; a SettingsError if that has not their form.

        Examples
        --------
        >>> HealthSettings(listen="[::1]:9464").address()
        ('::1', 9464)
        """
        if self.listen is None:
            return None
        found = _ADDRESS.fullmatch(self.listen)
        if found is None:
            raise SettingsError(f"health.listen must be HOST:PORT, not {self.listen!r}")
        if int(found["port"]) > 65_535:
            raise SettingsError(f"health.listen {self.listen!r}: a port is at most 65535")
        return found["host"] or found["ipv6"], int(found["port"])
