"""``streamgp experiment network gain``: what the layer adds to the stations' own forecasts, and under attack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamgp.experiments.network import stations as data
from streamgp.experiments.network.autoregression import vector_autoregression
from streamgp.experiments.network.local import Belief, Forecasts, forecasts
from streamgp.experiments.network.picture import draw, write_influences
from streamgp.experiments.network.rounds import LIES, Outcome, innovations, lie, run_layer
from streamgp.experiments.network.scores import BURN_IN, METRICS, persistence, running_ratio, scorable, score
from streamgp.experiments.network.stations import SensorNetwork
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report, Row
from streamgp.fusion.network_settings import NetworkSettings

NAME = "gain"
N_LIARS = 2
FIRST_COUNTED = 1000  # forecasts before the running ratio of the attacked runs is looked at
_QUICK_STEPS = 2500


@dataclass(frozen=True, slots=True)
class Case:
    """A network of the study, the horizons it is forecast for, and whether some of its stations lie in turn."""

    load: Callable[[], SensorNetwork]
    horizons: tuple[int, ...]
    attacked: bool


CASES = (
    Case(data.irish_wind, (1,), True),
    Case(data.german_pm10, (1,), False),
    Case(lambda: data.beijing("PM2.5"), (1, 3), True),
    Case(lambda: data.beijing("TEMP"), (1, 3), True),
    Case(lambda: data.beijing("O3"), (1, 3), True),
    Case(data.solent, (1, 3), False),
)


def run(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """Every network: all methods, then the layer again while two stations lie; CSV, figure, who foretells whom.

    Parameters
    ----------
    quick
        Irish wind alone, its first 2,500 days, one draw of the liars.
    seed
        Of the stations' models, of the liars' names and of their noise.
    out
        Gets ``gain.png`` and ``gain-influences.csv``.
    progress
        Shows the loops.
    """
    rows: list[Row] = []
    notes = [
        f"prequential from a cold start, default local model; scores from step {BURN_IN} on, errors in units of each "
        "station's standard deviation; ratio = RMSE over that of the local forecast",
        "own = the layer without any source; var = VAR(4) on all raw readings, which no station gives away",
        f"attacked: {N_LIARS} stations lie in their innovations, scores over the honest ones; kept = share of the "
        "undisturbed gain; worst = largest running ratio to local, from the first thousand forecasts on",
    ]
    outcomes: dict[str, tuple[SensorNetwork, Outcome]] = {}
    for case in CASES[:1] if quick else CASES:
        network = case.load()
        if quick:
            network = network.until(_QUICK_STEPS)
        horizons = case.horizons[:1] if quick else case.horizons
        for steps, made in forecasts(network, horizons, seed=seed, progress=progress).items():
            table, outcome = compare(network, made)
            rows += table
            outcomes[setting(network, steps)] = (network, outcome)
            if case.attacked and steps == 1:
                draws = 1 if quick else 3
                rows += attacked(network, made, outcome, seed=seed, draws=draws, progress=progress)
    write_influences(out / f"{NAME}-influences.csv", outcomes)
    draw(out / f"{NAME}.png", rows, outcomes)
    return Report(rows, notes)


def setting(network: SensorNetwork, steps: int) -> str:
    """What the table calls a network at a horizon."""
    return f"{network.name}, {steps} step{'s' if steps > 1 else ''}"


def compare(network: SensorNetwork, made: Forecasts, *, burn_in: int = BURN_IN) -> tuple[list[Row], Outcome]:
    """All methods over the targets that every one of them forecast."""
    said = innovations(network, made)
    outcome = run_layer(network, made, said)
    alone = run_layer(network, made, said, settings=NetworkSettings(n_sources=0))
    beliefs = {
        "persistence": persistence(network, made),
        "local": made.local,
        "own": alone.belief,
        "network": outcome.belief,
        "var": vector_autoregression(network, made),
    }
    if np.isfinite(made.trimmed.mean).any():
        beliefs["trimmed"] = made.trimmed
    everyone = range(len(network.stations))
    scored = scorable(network, list(beliefs.values()), steps=made.steps, burn_in=burn_in)
    found = {name: score(network, b, scored, steps=made.steps, columns=everyone) for name, b in beliefs.items()}
    rows = []
    for name, scores in found.items():
        scores["ratio"] = scores["rmse"] / found["local"]["rmse"]
        rows += [Row(NAME, setting(network, made.steps), name, m, scores[m]) for m in ("ratio", *METRICS)]
    return rows, outcome


def attacked(
    network: SensorNetwork, made: Forecasts, clean: Outcome, *, seed: int, draws: int, progress: Progress
) -> list[Row]:
    """The layer while two stations lie, over several draws of who does."""
    e = innovations(network, made)
    rows = []
    for kind in progress(LIES, description=f"lies, {network.name}", total=len(LIES)):
        results: list[dict[str, float]] = []
        for d in range(draws):
            rng = np.random.default_rng([seed, d])
            liars = sorted(rng.choice(len(network.stations), N_LIARS, replace=False).tolist())
            outcome = run_layer(network, made, lie(kind, e, liars, rng=rng))
            results.append(under_attack(network, made, outcome, clean, liars=liars))
        rows += [
            Row(
                NAME,
                f"{setting(network, made.steps)}, {kind}",
                "network",
                metric,
                float(np.mean([r[metric] for r in results])),
                float(np.std([r[metric] for r in results])) if draws > 1 else None,
            )
            for metric in results[0]
        ]
    return rows


def under_attack(
    network: SensorNetwork,
    made: Forecasts,
    outcome: Outcome,
    clean: Outcome,
    *,
    liars: Sequence[int],
    burn_in: int = BURN_IN,
) -> dict[str, float]:
    """How the honest fare: ratio to local, share of the gain kept, worst running ratio, who was dropped."""
    honest = [i for i in range(len(network.stations)) if i not in liars]
    scored = scorable(network, [made.local, outcome.belief], steps=made.steps, burn_in=burn_in)

    def scores(belief: Belief) -> dict[str, float]:
        return score(network, belief, scored, steps=made.steps, columns=honest)

    local, ours, full = scores(made.local), scores(outcome.belief), scores(clean.belief)
    running = running_ratio(network, outcome.belief, made.local, steps=made.steps, columns=honest, first=FIRST_COUNTED)
    told = outcome.dropped[np.ix_(honest, liars)].sum()
    return {
        "ratio": ours["rmse"] / local["rmse"],
        "kept": (local["rmse"] - ours["rmse"]) / (local["rmse"] - full["rmse"]),
        "worst": float(running.max()),
        "nlpd": ours["nlpd"],
        "coverage": ours["coverage"],
        "drops of liars": float(told),
        "drops of honest": float(outcome.dropped[honest].sum() - told),
    }
