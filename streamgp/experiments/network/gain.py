"""``streamgp experiment network gain``: what the layer adds to the stations' own forecasts, and under attack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from streamgp.experiments.network import stations as data
from streamgp.experiments.network.autoregression import vector_autoregression
from streamgp.experiments.network.liars import attacked, n_liars, worst
from streamgp.experiments.network.local import Forecasts, forecasts
from streamgp.experiments.network.picture import draw, write_influences
from streamgp.experiments.network.rounds import Outcome, innovations, run_layer
from streamgp.experiments.network.scores import BURN_IN, METRICS, persistence, scorable, score
from streamgp.experiments.network.stations import SensorNetwork
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report, Row
from streamgp.fusion.network_settings import NetworkSettings

NAME = "gain"
_QUICK_STEPS = 2500


@dataclass(frozen=True, slots=True)
class Case:
    """A network of the study, how many steps ahead, how many draws of who lies (0: nobody), over how many steps."""

    load: Callable[[], SensorNetwork]
    steps: int = 1
    draws: int = 0
    lied: int | None = None


CASES = {
    "wind": Case(data.irish_wind, draws=3),
    "pm10": Case(data.german_pm10, draws=1),
    "pm2.5": Case(partial(data.beijing, "PM2.5"), draws=1, lied=6000),
    "temperature": Case(partial(data.beijing, "TEMP"), draws=1, lied=6000),
    "ozone": Case(partial(data.beijing, "O3"), draws=1, lied=6000),
    "solent": Case(data.solent, draws=2),
    "pm2.5-far": Case(partial(data.beijing, "PM2.5"), steps=3),
    "temperature-far": Case(partial(data.beijing, "TEMP"), steps=3),
    "ozone-far": Case(partial(data.beijing, "O3"), steps=3),
    "solent-far": Case(data.solent, steps=3),
}


def run(
    *, quick: bool, seed: int, out: Path, progress: Progress, networks: Sequence[str] = tuple(CASES), name: str = NAME
) -> Report:
    """Every network: all methods, then the layer again while stations lie; CSV, figure, who foretells whom.

    Parameters
    ----------
    quick
        The first network alone, its first 2,500 steps, one draw of the liars.
    seed
        Of the stations' models, of the liars' names and of their noise.
    out
        Gets ``NAME.png`` and ``NAME-influences.csv``.
    progress
        Shows the loops.
    networks
        Which of :data:`CASES`.
    name
        Of the files.
    """
    rows: list[Row] = []
    outcomes: dict[str, tuple[SensorNetwork, Outcome]] = {}
    for key in networks[:1] if quick else networks:
        case = CASES[key]
        network = case.load()
        if quick:
            network = network.until(_QUICK_STEPS)
        made = forecasts(network, (case.steps,), seed=seed, progress=progress)[case.steps]
        table, outcome = compare(network, made)
        rows += table
        outcomes[setting(network, case.steps)] = (network, outcome)
        if case.draws:
            rows += _lied(case, network, made, outcome, seed=seed, draws=1 if quick else case.draws, progress=progress)
    write_influences(out / f"{name}-influences.csv", outcomes)
    draw(out / f"{name}.png", rows, outcomes)
    return Report(rows, _notes())


def _notes() -> list[str]:
    return [
        f"prequential from a cold start, default local model; scores from step {BURN_IN} on, errors in units of each "
        "station's standard deviation; ratio = RMSE over that of the local forecast",
        "own = the layer without any source; var = VAR(4) on all raw readings, which no station gives away",
        "liars: one station in six, at least one, lies in its innovations; scores over the honest, means over "
        "the draws of who lies (the worst and the least are over all draws); kept = share of the undisturbed gain",
        "worst = the largest that RMSE over local, over all targets since the cold start, was at any step, the first "
        "included; worst station = the same for the one station where it was largest, from its 200th target on",
    ]


def _lied(
    case: Case,
    network: SensorNetwork,
    made: Forecasts,
    outcome: Outcome,
    *,
    seed: int,
    draws: int,
    progress: Progress,
) -> list[Row]:
    """The rows of the runs in which some lie, over the first ``case.lied`` steps."""
    T, n = case.lied or len(network.y), n_liars(network)
    short, clean = network.until(T), outcome.belief.until(T)
    lies = attacked(short, made.until(T), clean, seed=seed, draws=draws, progress=progress)
    who = f"{n} liar{'s' if n > 1 else ''} of {len(network.stations)}"
    when = f", first {T} steps" if len(network.y) > T else ""
    return [
        Row(NAME, f"{setting(network, made.steps)}{when}, {who}, {kind}", "network", metric, *found)
        for kind, metrics in lies.items()
        for metric, found in metrics.items()
    ]


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
    running = worst(network, made, outcome, columns=everyone)
    rows += [Row(NAME, setting(network, made.steps), "network", metric, value) for metric, value in running.items()]
    return rows, outcome
