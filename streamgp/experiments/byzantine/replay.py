"""A stream of queries played to the rules: the paper's cut, and the one that goes by the records made on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from streamgp.experiments.byzantine.liars import lie
from streamgp.experiments.byzantine.network import Ints
from streamgp.experiments.byzantine.stations import Stream
from streamgp.experiments.byzantine.trials import Trials
from streamgp.fusion import AgentTrust, Fused, TrustLedger, calibrated_poe, product_of_experts, trimmed_poe
from streamgp.gp.gaussian import Array

METHODS = ("product", "trimmed", "calibrated")
HIDDEN_Z = 2.0  # honest standard deviations that liars hide in, under the attack "hidden"
_Z90 = 1.6448536269514722
_HALF_LIFE = 100.0  # answers
_JITTER = 0.05  # of a standard deviation: no hidden liar is a copy of another


@final
@dataclass(frozen=True, slots=True)
class Sent:
    """The answers that reached the cloud, at the queries of honest askers.

    Parameters
    ----------
    means, variances : (n, queries)
        Of every agent.
    queries
        Which queries of the stream.

    Examples
    --------
    >>> Sent(np.zeros((3, 2)), np.ones((3, 2)), np.arange(2)).means.shape
    (3, 2)
    """

    means: Array
    variances: Array
    queries: Ints


def send(stream: Stream, kind: str, liars: Ints, n_trim: int, seed: int) -> Sent:
    """What is sent when ``liars`` lie in one way; they ask nothing. For ``hidden`` see the study breaking."""
    queries = np.flatnonzero(~np.isin(stream.asker, liars))
    M, V = stream.means[queries].T.copy(), stream.variances[queries].T.copy()
    if not len(liars):
        return Sent(M, V, queries)
    own: dict[str, float] = {}
    if kind == "sleeper":
        own = {"after": int(stream.learned.max()) // 2}
    if kind == "same-value low":
        kind, own = "same-value", {"magnitude": -100.0}
    if kind == "hidden":
        kind, own = "alie", {"z": HIDDEN_Z}
    noise = float(stream.noise.mean())
    for column, q in enumerate(queries):
        at = slice(column, column + 1)
        M[:, at], V[:, at] = lie(
            M[:, at],
            V[:, at],
            liars,
            kind,
            query_id=str(q),
            seed=seed,
            noise_variance=noise,
            learned=int(stream.learned[q]),
            n_trim=n_trim,
            **own,
        )
    if "z" in own:
        dice = np.random.default_rng([seed, 66])
        M[liars] += _JITTER * np.sqrt(V[liars]) * dice.standard_normal((len(liars), len(queries)))
    return Sent(M, V, queries)


def play(trials: Trials, setting: str, stream: Stream, sent: Sent, liars: Ints, n_trim: int) -> tuple[AgentTrust, ...]:
    """Each rule's errors at the queries, as rows of ``trials``, and the trust report in the end."""
    truth, askers = stream.truth[sent.queries], stream.asker[sent.queries]
    noise = np.where(askers < 0, stream.noise.mean(), stream.noise[askers])
    honest = np.setdiff1d(np.arange(stream.agents), liars)
    by_record, report = _with_records(stream, sent, n_trim)
    for method, fused in (
        ("product", product_of_experts(sent.means, sent.variances)),
        ("trimmed", trimmed_poe(sent.means, sent.variances, n_trim)),
        ("calibrated", by_record),
    ):
        error, variance = fused.mean - truth, fused.variance + noise
        trials.add(setting, method, float(np.sqrt(np.mean(error**2))), metric="rmse")
        nlpd = 0.5 * (np.log(2.0 * math.pi * variance) + error**2 / variance)
        trials.add(setting, method, float(nlpd.mean()), metric="nlpd")
        trials.add(setting, method, float(np.mean(np.abs(error) <= _Z90 * np.sqrt(variance))), metric="coverage")
        trials.add(setting, method, float(fused.kept[honest].mean()), metric="honest answers kept")
    return report


def _with_records(stream: Stream, sent: Sent, n_trim: int) -> tuple[Fused, tuple[AgentTrust, ...]]:
    """The rule that goes by records, each query fused by the records of those before it."""
    ledger, names = TrustLedger(half_life=_HALF_LIFE), stream.names
    mean, variance = np.empty(len(sent.queries)), np.empty(len(sent.queries))
    kept = np.zeros(sent.means.shape, dtype=np.bool_)
    noise = stream.noise[:, None]
    for column, q in enumerate(sent.queries):
        at = slice(column, column + 1)
        M, V = sent.means[:, at], sent.variances[:, at]
        asker = None if stream.asker[q] < 0 else names[stream.asker[q]]
        fused = calibrated_poe(M, V, n_trim, calibration=ledger.calibration(names, asker=asker))
        mean[column], variance[column], kept[:, at] = fused.mean[0], fused.variance[0], fused.kept
        ledger.note(str(q), names, M, V, noise, n_trim=n_trim, asker=asker)
        ledger.settle(str(q), stream.truth[q : q + 1])
    return Fused(mean, variance, kept), ledger.report()
