"""The layer while some stations lie in their innovations: how the honest fare, over several draws of who lies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np

from streamgp.experiments.network.local import Belief, Forecasts
from streamgp.experiments.network.rounds import LIES, Outcome, innovations, lie, run_layer
from streamgp.experiments.network.scores import BURN_IN, running_ratio, scorable, score
from streamgp.experiments.network.stations import SensorNetwork
from streamgp.experiments.registry import Progress

SHARE = 6  # one station in six lies: two of twelve
FIRST_OF_A_STATION = 200  # targets of one station before its own running ratio is looked at


def n_liars(network: SensorNetwork) -> int:
    """As many as the sixth part of the stations, at least one."""
    return max(1, len(network.stations) // SHARE)


def drawn(network: SensorNetwork, draws: int, *, seed: int) -> list[tuple[int, ...]]:
    """Distinct sets of liars (columns), in the order of the draw; all there are if ``draws`` are not to be had."""
    N, n = len(network.stations), n_liars(network)
    if draws >= comb(N, n):
        return list(combinations(range(N), n))
    found: dict[tuple[int, ...], None] = {}
    rng = np.random.default_rng(seed)
    while len(found) < draws:
        found[tuple(sorted(rng.choice(N, n, replace=False).tolist()))] = None
    return list(found)


Scores = dict[str, tuple[float, float | None]]


def attacked(
    network: SensorNetwork,
    made: Forecasts,
    clean: Belief,
    *,
    seed: int,
    draws: int,
    progress: Progress,
    burn_in: int = BURN_IN,
) -> dict[str, Scores]:
    """What :func:`summary` says of the honest under each lie; ``clean``: what the layer says while nobody lies."""
    e, found = innovations(network, made), {}
    sets = drawn(network, draws, seed=seed)
    for kind in progress(LIES, description=f"lies, {network.name}", total=len(LIES)):
        results = []
        for d, liars in enumerate(sets):
            outcome = run_layer(network, made, lie(kind, e, liars, rng=np.random.default_rng([seed, d])))
            results.append(under_attack(network, made, outcome, clean, liars=liars, burn_in=burn_in))
        found[kind] = summary(results)
    return found


def summary(results: Sequence[dict[str, float]]) -> Scores:
    """Metric to (value, spread over the draws): means, but for the worst and the least of all draws."""
    several = {metric: np.array([r[metric] for r in results]) for metric in results[0]}
    table: Scores = {m: (float(np.mean(v)), float(np.std(v)) if len(v) > 1 else None) for m, v in several.items()}
    table["kept, least"] = (float(np.min(several["kept"])), None)
    for metric in ("worst", "worst station"):
        table[metric] = (float(np.max(several[metric])), None)
    return table


def under_attack(
    network: SensorNetwork,
    made: Forecasts,
    outcome: Outcome,
    clean: Belief,
    *,
    liars: Sequence[int],
    burn_in: int = BURN_IN,
) -> dict[str, float]:
    """How the honest fare: ratio to local, share of the gain kept, worst running ratios, who was dropped."""
    honest = [i for i in range(len(network.stations)) if i not in liars]
    scored = scorable(network, [made.local, outcome.belief], steps=made.steps, burn_in=burn_in)

    def scores(belief: Belief) -> dict[str, float]:
        return score(network, belief, scored, steps=made.steps, columns=honest)

    local, ours, full = scores(made.local), scores(outcome.belief), scores(clean)
    gain = local["rmse"] - full["rmse"]
    told = outcome.dropped[np.ix_(honest, liars)].sum()
    return {
        "ratio": ours["rmse"] / local["rmse"],
        "kept": (local["rmse"] - ours["rmse"]) / gain if gain > 0.0 else float("nan"),
        **worst(network, made, outcome, columns=honest),
        "nlpd": ours["nlpd"],
        "nlpd local": local["nlpd"],
        "coverage": ours["coverage"],
        "drops of liars": float(told),
        "drops of honest": float(outcome.dropped[honest].sum() - told),
    }


def worst(network: SensorNetwork, made: Forecasts, outcome: Outcome, *, columns: Sequence[int]) -> dict[str, float]:
    """The largest that the ratio over all targets since the start ever was.

    ``worst`` is that of all columns together, at every step from the first forecast on; ``worst station`` that of the
    station which fared worst, from its two hundredth on: before, one error more or less decides it.
    """

    def largest(some: Sequence[int], first: int) -> float:
        running = running_ratio(network, outcome.belief, made.local, steps=made.steps, columns=some, first=first)
        return float(np.max(running, initial=0.0))

    return {
        "worst": largest(columns, 1),
        "worst station": max(largest([i], FIRST_OF_A_STATION) for i in columns),
    }
