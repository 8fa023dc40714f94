"""Settings of a federated training of the hierarchical model."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Literal

import msgspec

from streamgp.errors import SettingsError
from streamgp.gp.hierarchy.factors import FACTORS, Factors

if TYPE_CHECKING:  # every process reads these settings, few train: those load what trains
    from streamgp.fusion.privacy import Privacy
    from streamgp.models.hgp.fit import Plan
    from streamgp.models.hgp.rounds import Rounds

#: ``inputs`` that stand for the rows that the stations' models learn
MODEL_ROWS = ("rows",)
RULES = ("sum", "trimmed", "coordinates")


#: sizes beyond which one answer would take for ever
LARGEST = 2_000
#: inducing values of a layer beyond which its precision does not fit a station's memory
LARGEST_LAYER = 4_000


class TrainingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is trained, and how rounds open and close. Clients take the model's part from the server's records."""

    run: str = "default"
    """Keeps trainings apart: what belongs to another run is ignored."""
    inputs: tuple[str, ...] = ("time",)
    """Columns of a row: ``time`` (days since 1970 UTC) or names in the observations' x. Or ``rows`` alone: what the
    stations' models learn, standardised, so that agents with ``model.kind = "hierarchical"`` forecast with what was
    trained."""
    max_rows: int = 10_000
    """Newest rows that a client works on."""
    low: tuple[float, ...] = (0.0,)
    high: tuple[float, ...] = (1.0,)
    """The box of the inputs, one number a column; nobody else tells the server where the rows are."""
    scale: float = 1.0
    """Typical size of the outputs (root mean square)."""
    n_outputs: int = 1
    """Length of y."""
    n_global: int = 25
    n_local: int = 25
    """Inducing inputs of the shared layers, and of each client's own."""
    rank_global: int = 2
    rank_deviation: int = 2
    rank_local: int = 2
    """Latent functions of the shared layer, of each client's deviation from it, and of its own."""
    factors: Factors = "structured"
    """How the layers' posteriors hang together (docs/hierarchical.md)."""
    rounds: int = 20
    """After so many the server says ``done``; 0: as long as observations come."""
    quiet_rounds: int = 20
    """In a training without end: a client that has seen nothing new for so many rounds has nothing to say."""
    patience: int = 3
    """After so many rounds in a row without an answer a client no longer counts as taking part, until it speaks."""
    rate: float = 0.2
    """Step of the shared hyperparameters in a round."""
    q_rate: float = 1.0
    """Step of the shared posterior, a natural gradient: 1 is the whole way."""
    local_iterations: int = 20
    """Steps of a client on its own part in a round."""
    seed: int = 0
    """Of whatever is drawn."""
    min_clients: int = 1
    """A round with fewer answers changes nothing."""
    expected: int | None = None
    """The first round closes when so many have answered; by default at its deadline."""
    round_s: float = 60.0
    """A round closes when every client of the last one has answered, or at this deadline."""
    wait_s: float = 600.0
    """The server gives up after so long with fewer than ``min_clients``."""
    rule: Literal["sum", "trimmed", "coordinates"] = "sum"
    """How updates are aggregated; the latter two stand the share ``beta`` of liars, and need three clients."""
    beta: float = 1 / 6
    """Share of clients that may lie, under these two rules."""
    clip: float | None = None
    noise: float | None = None
    delta: float = 1e-5
    """With ``clip`` and ``noise`` every client makes its updates differentially private."""

    def checked(self) -> TrainingSettings:
        """Itself; raises a SettingsError for what types alone cannot tell."""
        numbers = (*self.low, *self.high, self.scale, self.rate, self.round_s, self.wait_s, self.delta)
        wrong = [
            *self._sizes(),
            (not self.run, "run must not be empty"),
            (not all(map(isfinite, (*numbers, self.clip or 1.0, self.noise or 1.0))), "numbers must be finite"),
            (
                len(self.low) != len(self.high)
                or not self.low
                or any(a >= b for a, b in zip(self.low, self.high, strict=False)),
                "low and high must be as long as each other, one number at least, and low below high",
            ),
            (self.rule not in RULES, f"rule must be one of {RULES}"),
            (self.scale <= 0, "scale must be positive"),
            (self.seed < 0, "seed must not be negative"),
            (self.rounds < 0, "rounds must not be negative"),
            (not 0 < self.q_rate <= 1 or self.rate <= 0, "rate must be positive and q_rate in (0, 1]"),
            (
                min(self.min_clients, self.patience, self.quiet_rounds, self.max_rows, self.expected or 1) < 1
                or self.expected == 0,
                "counts must be at least 1",
            ),
            (self.round_s <= 0 or self.wait_s <= 0, "round_s and wait_s must be positive"),
            (not 0 <= self.beta < 0.5, "beta must be in [0, 1/2)"),
            ((self.clip is None) != (self.noise is None), "clip and noise go together"),
        ]
        for bad, reason in wrong:
            if bad:
                raise SettingsError(f"training: {reason}")
        self.privacy()
        return self

    def _sizes(self) -> list[tuple[bool, str]]:
        """What may be wrong with the model's sizes, and how it is told."""
        widest = max(self.rank_global, self.rank_deviation)
        return [
            (min(self.n_outputs, self.n_global, self.n_local, self.rank_global) < 1, "sizes must be at least 1"),
            (min(self.rank_deviation, self.rank_local, self.local_iterations) < 0, "ranks must not be negative"),
            (self.factors not in FACTORS, f"factors must be one of {FACTORS}"),
            (
                max(self.n_outputs, self.n_global, self.n_local, self.local_iterations) > LARGEST
                or max(self.rank_global, self.rank_deviation, self.rank_local) > LARGEST,
                f"sizes and iterations must be at most {LARGEST}",
            ),
            (
                max(self.n_global * widest, self.n_local * self.rank_local) > LARGEST_LAYER,
                f"a layer must have at most {LARGEST_LAYER} inducing values",
            ),
        ]

    def privacy(self) -> Privacy | None:
        """What clients do to their summaries, or None."""
        if self.clip is None or self.noise is None:
            return None
        from streamgp.fusion.privacy import Privacy

        return Privacy(self.clip, self.noise, self.delta)

    def plan(self) -> Plan:
        """The model; residual budgets are the clients' own affair, up to four times ``n_local``, or 128."""
        from streamgp.gp.hierarchy.blocks import Layout
        from streamgp.models.hgp.fit import Plan

        layout = Layout(self.n_outputs, self.rank_global, self.rank_deviation, self.rank_local)
        return Plan(
            layout=layout,
            factors=self.factors,
            n_global=self.n_global,
            n_local=self.n_local,
            most_local=max(4 * self.n_local, 128),
            n_starts=1,
            max_iter=0,
        )

    def schedule(self) -> Rounds:
        """How the shared block moves."""
        from streamgp.gp.hierarchy.shared_step import Ascent
        from streamgp.models.hgp.rounds import Rounds

        ascent = Ascent(rate=self.rate, q_rate=self.q_rate)
        return Rounds(rounds=self.rounds, ascent=ascent, local_iterations=self.local_iterations, seed=self.seed)


#: what of the settings a client must know, as the server's records carry it
TOLD = (
    "rounds",
    "quiet_rounds",
    "scale",
    "n_outputs",
    "n_global",
    "n_local",
    "rank_global",
    "rank_deviation",
    "rank_local",
    "factors",
    "local_iterations",
    "seed",
    "clip",
    "noise",
    "delta",
)


def told(settings: TrainingSettings) -> dict[str, str | float | int]:
    """The part of the settings that a server's record carries."""
    return {name: value for name in TOLD if (value := getattr(settings, name)) is not None}
