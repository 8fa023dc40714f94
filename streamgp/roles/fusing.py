"""From the answers of a closed window to its forecast, by the rule of the settings and the agents' records."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, final

import numpy as np
from msgspec import UNSET, structs

from streamgp.errors import NoQuorumError
from streamgp.fusion.calibrated import Calibration, calibrated_poe
from streamgp.fusion.fused import Fused, usable
from streamgp.fusion.suspects import is_degraded
from streamgp.fusion.trimmed import n_trim_for, trimmed_poe
from streamgp.fusion.trust import TrustLedger
from streamgp.fusion.trust_report import follow_beta
from streamgp.gp.gaussian import Array
from streamgp.roles.foretelling import Foretelling
from streamgp.roles.plain import restoring
from streamgp.roles.settings import CloudSettings, NetworkSection
from streamgp.roles.truths import Truths
from streamgp.roles.window import Closed
from streamgp.wire.records import Forecast, Prediction, Query, Row, Trust

log = logging.getLogger("streamgp.cloud")

VERSION = 2
_FIELDS = ("mean", "variance", "noise_variance")


@final
@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a window that can be used, one row an agent, and who was refused and why.

    Examples
    --------
    >>> one = Prediction(query_id="q", agent="A", time_ms=0, mean=(1.0,), variance=(0.5,), noise_variance=(0.1,),
    ...                  learned=3)
    >>> bad = structs.replace(one, agent="B", variance=(-1.0,))
    >>> answers = Answers.of({"A": one, "B": bad}, m=1)
    >>> answers.names, answers.refused
    (['A'], {'B': 'variance is not positive'})
    """

    names: list[str]
    means: Array
    variances: Array
    noises: Array
    refused: dict[str, str]

    @classmethod
    def of(cls, answers: Mapping[str, Prediction], *, m: int) -> Answers:
        """Check every answer before anything is sorted: its length, finite numbers, variances a model could give."""
        speaking = {name: p for name, p in answers.items() if p.abstained is UNSET}
        refused = {n: "wrong number of points" for n, p in speaking.items() if not _shaped(p, m)}
        names = [n for n in speaking if n not in refused]
        rows = [[getattr(speaking[n], field) for n in names] for field in _FIELDS]
        means, variances, noises = (np.array(r, dtype=np.float64).reshape(len(names), m) for r in rows)
        if names:
            sane = np.all(np.isfinite(noises) & (noises >= 0), axis=1).tolist()
            why = usable(means, variances).reasons
            why = tuple(w or ("" if ok else "noise variance is not usable") for w, ok in zip(why, sane, strict=True))
            refused |= {n: w for n, w in zip(names, why, strict=True) if w}
            good = [not w for w in why]
            names = [n for n in names if n not in refused]
            means, variances, noises = means[good], variances[good], noises[good]
        return cls(names, means, variances, noises, refused)


def _shaped(prediction: Prediction, m: int) -> bool:
    return all(len(getattr(prediction, field)) == m for field in _FIELDS)


def fuse(
    closed: Closed, answers: Answers, settings: CloudSettings, *, beta: float, calibration: Calibration | None = None
) -> Forecast:
    """The forecast of a window: Algorithm 3 of the federated paper, or the calibrated rule, over usable answers.

    Where fewer answers are left than the cut needs there is no quorum and no number. ``degraded`` says that more
    agents are seen to lie than the cut stands.
    """
    query = closed.query
    forecast = Forecast(
        query_id=query.id,
        station=query.station,
        time_ms=query.time_ms,
        target_ms=query.target_ms,
        mean=None,
        variance=None,
        noise_variance=None,
        kept=(0,) * len(query.points),
        trimmed=(),
        missing=closed.missing,
        refused=tuple(sorted(answers.refused)),
        status="no_quorum",
        rule=settings.rule,
        beta=beta,
        answers=len(answers.names),
    )
    means, variances = answers.means, answers.variances
    try:
        if len(answers.names) < settings.min_answers:
            raise NoQuorumError(f"{len(answers.names)} answers, {settings.min_answers} needed")
        n_trim = n_trim_for(beta, len(answers.names))
        if settings.rule == "calibrated_poe":
            fused = calibrated_poe(means, variances, n_trim, calibration=calibration)
        else:
            fused = trimmed_poe(means, variances, n_trim)
        plain = trimmed_poe(means, variances, 0)
    except NoQuorumError as error:
        _tell_no_quorum(closed, answers, settings, error)
        return forecast
    degraded = beta > 0 and is_degraded(means, variances, n_trim, calibration=calibration)
    return structs.replace(
        forecast,
        mean=_row(fused.mean),
        variance=_row(fused.variance),
        noise_variance=_row(np.median(answers.noises, axis=0)),
        kept=tuple(int(k) for k in fused.counts),
        trimmed=_cut_names(answers.names, fused),
        status="degraded" if degraded else "ok",
        n_trim=n_trim,
        untrimmed_mean=_row(plain.mean),
        untrimmed_variance=_row(plain.variance),
        untrimmed_noise_variance=_row(np.mean(answers.noises, axis=0)),
    )


def _tell_no_quorum(closed: Closed, answers: Answers, settings: CloudSettings, error: NoQuorumError) -> None:
    """To the operator only where a smaller cut is all that helps: everybody has answered with numbers, and enough."""
    n = len(answers.names)
    if closed.missing or n < max(1, settings.min_answers, len(closed.answers)):
        log.debug("%s: no quorum: %s", closed.query.id, error)
        return
    cure = f"at most {math.floor((n - 1) // 4 / n * 1000) / 1000:g}" if n > 4 else "0, which cuts nobody,"
    log.warning("no quorum though all %d agents answered: %s; with so many [cloud] beta must be %s", n, error, cure)


def _cut_names(names: list[str], fused: Fused) -> tuple[str, ...]:
    cut = np.asarray(~fused.kept.all(axis=1), dtype=np.bool_)
    return tuple(sorted(n for n, c in zip(names, cut, strict=True) if c))


def _row(values: Array) -> Row:
    return tuple(values.tolist())


@final
class Fusing:
    """The cloud's judgement: fuses windows in event-time order and keeps the agents' records by the truth.

    Truths are not sent to the cloud: what a station's last reading was follows from the error that its next query
    carries and from its own answer to the query before (:class:`streamgp.roles.truths.Truths`). The same errors
    foretell those of the other stations (:class:`streamgp.roles.foretelling.Foretelling`).
    """

    def __init__(self, settings: CloudSettings, *, network: NetworkSection | None = None) -> None:
        self._settings = settings
        self._ledger = TrustLedger(half_life=settings.half_life)
        self._truths = Truths()
        self._foretelling = Foretelling(network or NetworkSection())
        self._beta = settings.beta
        self._fused = 0

    def heard(self, query: Query) -> None:
        """A query was read: it may tell a truth."""
        self._truths.heard(query)
        self._foretelling.heard(query)

    def conclude(self, windows: Sequence[Closed]) -> list[tuple[Forecast, list[Trust]]]:
        """The forecasts of windows in event-time order, each with the reports that are due after it.

        The windows before them in event time are concluded already. How many are given at a time makes no difference.
        """
        told: list[tuple[Forecast, list[Trust]]] = []
        for (time_ms, outside), some in groupby(windows, key=lambda w: (w.query.time_ms, w.query.station is None)):
            together = list(some)
            if not outside:  # a question from outside may have any event time
                for query_id, y in self._truths.up_to(time_ms):
                    self._ledger.settle(query_id, y)
                self._foretelling.learn_up_to(time_ms)
            fused, reports = [], []
            for closed in together:
                fused.append(self._fuse(closed))
                reports.append(self._reports(time_ms))
            told += zip(self._foretelling.corrected(together, fused), reports, strict=True)
        return told

    def _fuse(self, closed: Closed) -> Forecast:
        query, asker = closed.query, closed.query.station
        answers = Answers.of(closed.answers, m=len(query.points))
        bounds = self._settings.beta_bounds
        if bounds is not None and self._fused % self._settings.report_every == 0:
            self._beta = follow_beta(self._ledger.report(), low=bounds[0], high=bounds[1])
        calibration = None
        if self._settings.rule == "calibrated_poe" and answers.names:
            calibration = self._ledger.calibration(answers.names, asker=asker)
        forecast = fuse(closed, answers, self._settings, beta=self._beta, calibration=calibration)
        self._ledger.note(
            query.id,
            answers.names,
            answers.means,
            answers.variances,
            answers.noises,
            n_trim=forecast.n_trim,
            asker=asker,
            missing=closed.missing,
            refused=answers.refused,
        )
        self._truths.answered(closed)
        self._fused += 1
        return forecast

    def _reports(self, time_ms: int) -> list[Trust]:
        """Every agent's record, when it is time for a report (every ``report_every`` windows)."""
        if self._fused % self._settings.report_every:
            return []
        dropped = self._foretelling.dropped()
        return [
            Trust(
                agent=a.agent,
                time_ms=time_ms,
                answered=a.answered,
                missing=a.missing,
                refused=dict(a.refused or {}),
                trimmed=a.trimmed,
                mean_low=a.mean_low,
                mean_high=a.mean_high,
                variance_low=a.variance_low,
                variance_high=a.variance_high,
                outlying=a.outlying,
                scored=a.scored,
                z2=a.z2,
                coverage=a.coverage,
                nlpd=a.nlpd,
                factor=a.factor,
                standing=a.standing,
                beta=self._beta,
                dropped_by=tuple(dropped.get(a.agent, ())),
            )
            for a in self._ledger.report()
        ]

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return {
            "v": VERSION,
            "ledger": self._ledger.state(),
            "truths": self._truths.state(),
            "network": self._foretelling.state(),
            "beta": self._beta,
            "fused": self._fused,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, by the rule of the settings; raises a CheckpointError if it is damaged or too new."""
        with restoring("fusing", state, VERSION):
            self._ledger = TrustLedger.from_state({**state["ledger"], "half_life": self._settings.half_life})
            self._truths.restore(state["truths"])
            self._foretelling.restore(state["network"])
            beta, self._fused = float(state["beta"]), int(state["fused"])
            low, high = self._settings.beta_bounds or (self._settings.beta, self._settings.beta)
            self._beta = min(max(beta, low), high)  # where it was, within bounds that may be others
