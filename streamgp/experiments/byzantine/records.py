"""Ours: the paper's cut against the rule that goes by records, on real stations and the toy, with and without liars."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from streamgp.experiments.byzantine.liars import lie
from streamgp.experiments.byzantine.network import DEFAULT_NEIGHBORS, Ints
from streamgp.experiments.byzantine.stations import Stream, german_pm10, irish_wind, station_stream, toy_stream
from streamgp.experiments.byzantine.trials import Panel, Trials, draw
from streamgp.experiments.registry import Progress
from streamgp.experiments.results import Report
from streamgp.fusion import AgentTrust, TrustLedger, calibrated_poe, n_trim_for, product_of_experts, trimmed_poe

BETA = 1 / 6
ATTACKS = ("none", "same-value", "tiny-variance", "sleeper", "bit-flip", "collusion", "per-query", "mimic")
QUICK_ATTACKS = ATTACKS[:4]
METHODS = ("product", "trimmed", "calibrated")
_Z90 = 1.6448536269514722


def run(*, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
    """A sixth of the agents lies (a tenth on the toy); errors are those of the honest askers, standardised."""
    trials, notes = Trials("records"), []
    attacks = QUICK_ATTACKS if quick else ATTACKS
    for k in (1, DEFAULT_NEIGHBORS):
        for stream in _streams(k, quick, seed, progress):
            n_trim = n_trim_for(BETA, stream.agents)
            liars = np.sort(np.random.default_rng([seed, 65]).permutation(stream.agents)[:n_trim])
            for kind in progress(attacks, description=f"{stream.name} k={k}", total=len(attacks)):
                setting = f"{stream.name} {kind} k={k}"
                report = _play(trials, setting, stream, kind, liars if kind != "none" else liars[:0], n_trim, seed)
                if kind in ("none", "sleeper"):
                    notes.append(f"{setting}: {_in_words(report)}")
    _draw(trials, attacks, out / "records.png")
    return Report(trials.rows(), notes)


def _streams(k: int, quick: bool, seed: int, progress: Progress) -> Iterator[Stream]:
    days = 60 if quick else 400
    yield station_stream("irish-wind", irish_wind(), days=days, n_neighbors=k, seed=seed, progress=progress)
    yield station_stream("de-pm10", german_pm10(), days=days // 2, n_neighbors=k, seed=seed, progress=progress)
    yield toy_stream(rounds=10 * days, n_neighbors=k, seed=seed)


def _play(
    trials: Trials, setting: str, stream: Stream, kind: str, liars: Ints, n_trim: int, seed: int
) -> tuple[AgentTrust, ...]:
    """One attack on one stream: each rule's errors at the honest askers' queries, and the report in the end."""
    names = [f"{i:02d}" for i in range(stream.agents)]
    ledger = TrustLedger(half_life=100.0)
    honest = np.setdiff1d(np.arange(stream.agents), liars)
    found: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
    kept: dict[str, list[float]] = {method: [] for method in METHODS}
    wake = int(stream.learned.max()) // 2
    for q in range(len(stream.truth)):
        if stream.asker[q] in liars:
            continue
        asker = None if stream.asker[q] < 0 else names[stream.asker[q]]
        M, V = stream.means[q][:, None], stream.variances[q][:, None]
        if len(liars):
            settings = {"after": wake} if kind == "sleeper" else {}
            M, V = lie(
                M,
                V,
                liars,
                kind,
                query_id=str(q),
                seed=seed,
                noise_variance=float(stream.noise.mean()),
                learned=int(stream.learned[q]),
                n_trim=n_trim,
                **settings,
            )
        noise = stream.noise[stream.asker[q]] if asker else float(stream.noise.mean())
        for method, fused in (
            ("product", product_of_experts(M, V)),
            ("trimmed", trimmed_poe(M, V, n_trim)),
            ("calibrated", calibrated_poe(M, V, n_trim, calibration=ledger.calibration(names, asker=asker))),
        ):
            found[method].append((float(fused.mean[0] - stream.truth[q]), float(fused.variance[0] + noise)))
            kept[method].append(float(fused.kept[honest].mean()))
        ledger.note(str(q), names, M, V, np.broadcast_to(stream.noise[:, None], M.shape), n_trim=n_trim, asker=asker)
        ledger.settle(str(q), stream.truth[q : q + 1])
    for method in METHODS:
        _judge(trials, setting, method, np.array(found[method]), float(np.mean(kept[method])))
    return ledger.report()


def _judge(trials: Trials, setting: str, method: str, found: np.ndarray, kept: float) -> None:
    error, variance = found.T
    trials.add(setting, method, float(np.sqrt(np.mean(error**2))), metric="rmse")
    nlpd = 0.5 * (np.log(2.0 * math.pi * variance) + error**2 / variance)
    trials.add(setting, method, float(nlpd.mean()), metric="nlpd")
    trials.add(setting, method, float(np.mean(np.abs(error) <= _Z90 * np.sqrt(variance))), metric="coverage")
    trials.add(setting, method, kept, metric="honest answers kept")


def _in_words(report: tuple[AgentTrust, ...]) -> str:
    """Who is always cut and sound all the same, and who is barred."""
    always = [f"{a.agent} ({a.trimmed:.0%}, z2 {a.z2:.2f})" for a in report if a.trimmed > 0.95 and not a.proof]
    barred = [a.agent for a in report if a.standing == "barred"]
    cut, out = ", ".join(always) or "nobody", ", ".join(barred) or "nobody"
    return f"cut by (6) nearly always without proof: {cut}; barred: {out}"


def _draw(trials: Trials, attacks: tuple[str, ...], path: Path) -> None:
    panels: list[Panel] = []
    for name in ("irish-wind", "de-pm10", "toy"):
        settings = [f"{name} {kind} k={DEFAULT_NEIGHBORS}" for kind in attacks]
        curves = {m: trials.curve(settings, m, metric="rmse") for m in METHODS}
        panels.append((name, "attack, in the order of the table", list(range(len(attacks))), curves))
    draw(path, panels, ylabel="rmse")
