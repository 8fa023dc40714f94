"""Faults told by the evidence of every channel, weighted by what it was worth for training cycles that were left out.

Each class is a federation with a client a cycle (as :func:`~streamgp.experiments.hierarchical.faults.by_cycle`). Three
things are done about what spoils the plain evidence of a whole cycle:

- Cycles of a class differ in size by factors of a hundred, so that one Gaussian is the law of none of them. A new cycle
  is like one of the class's cycles, any of them: N(m + rho (y_i - m), (1 - rho^2) s_i^2 S), with m and S of the class's
  newcomer, s_i the size of y_i - m in units of S, and rho anywhere in :data:`LIKENESS`: a mixture with the class's own
  mean and, but for the sizes, its covariance.
- Readings are far from independent given the class, so that log evidences differ by tens where odds should not. What a
  channel's log evidence counts, and what a class has beside it, maximise the likelihood of the labels of the training
  cycles, each scored by its own class as if it had not been there.
- Forces are compressed, for the baseline as well.

No test cycle is looked at for any of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax

from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import safe_cholesky, solve_lower

#: what share of its distance from the class's mean a new cycle has in common with the one that it is like
LIKENESS = (0.0, 0.3, 0.5)
#: a cycle's size is at least this share of the class's spread, so that one at the mean makes no point mass
SMALLEST = 0.1


@dataclass(frozen=True, slots=True)
class Law:
    """A class's newcomer, mean (T, Q) and covariance (T Q, T Q), and the class's cycles (n, T, Q)."""

    mean: Array
    cov: Array
    cycles: Array

    def log_evidence(self, cycles: Array) -> Array:
        """(S, Q) of new cycles (S, T, Q), each channel by itself."""
        T, Q = self.mean.shape
        return np.stack([self._channel(cycles[:, :, q], q, np.arange(T) * Q + q) for q in range(Q)], axis=1)

    def _channel(self, cycles: Array, q: int, at: NDArray[np.intp]) -> Array:
        factor = safe_cholesky(self.cov[np.ix_(at, at)])
        new, known = (solve_lower(factor.L, (c - self.mean[:, q]).T).T for c in (cycles, self.cycles[:, :, q]))
        sizes = np.maximum(np.square(known).mean(axis=1), SMALLEST**2)
        n, found = len(at), []
        for rho in LIKENESS:
            variances = (1.0 - rho**2) * sizes
            apart = np.square(new[:, None] - rho * known).sum(axis=2) / variances
            found.append(-0.5 * (apart + n * np.log(2.0 * np.pi * variances) + factor.log_det()))
        each = np.concatenate(found, axis=1)
        return np.asarray(logsumexp(each, axis=1) - np.log(each.shape[1]))


@dataclass(frozen=True, slots=True)
class Weights:
    """What a channel's log evidence counts (Q,), and what a class has beside it (K,)."""

    channels: Array
    classes: Array

    def odds(self, evidence: Array) -> Array:
        """(S, K) log odds up to a constant a row, from log evidences (K, S, Q)."""
        return np.asarray((evidence @ self.channels).T + self.classes)


def weighed(evidence: Array, truth: NDArray[np.intp]) -> Weights:
    """The weights that make labels ``truth`` (S,) likeliest given log evidences (K, S, Q).

    Their priors: classes' own terms standard normal, log weights a standard deviation of one about their mean.
    """
    K, S, Q = evidence.shape
    rows = np.arange(S)

    def negative(vector: Array) -> tuple[float, Array]:
        logs, classes = vector[:Q], vector[Q:]
        w, centred = np.exp(logs), logs - logs.mean()
        odds = Weights(w, classes).odds(evidence)
        wrong = softmax(odds, axis=1)
        wrong[rows, truth] -= 1.0
        loss = -float(log_softmax(odds, axis=1)[rows, truth].sum()) + 0.5 * float(centred @ centred + classes @ classes)
        return loss, np.concatenate(
            [np.einsum("sk,ksq->q", wrong, evidence) * w + centred, wrong.sum(axis=0) + classes]
        )

    starts = (np.concatenate([np.full(Q, at), np.zeros(K)]) for at in (-3.0, -1.0))
    ends = [minimize(negative, start, jac=True, method="L-BFGS-B") for start in starts]
    best = min(ends, key=lambda end: float(end.fun)).x
    return Weights(np.exp(best[:Q]), np.asarray(best[Q:]))


def told_by_channels(
    classes: list[Array], test: Array, law: Callable[[Array], tuple[Law, list[Law]]]
) -> NDArray[np.intp]:
    """(S,) the class, by its number, of each test cycle (S, T, Q).

    Parameters
    ----------
    classes
        Training cycles (n, T, Q) of each class.
    law
        From a class's cycles to its law, and its laws without each of them in turn.
    """
    cycles = np.concatenate(classes)
    truth = np.repeat(np.arange(len(classes)), [len(own) for own in classes])
    left_out = np.zeros((len(classes), len(cycles), cycles.shape[2]))
    scores = []
    for k, own in enumerate(classes):
        whole, without = law(own)
        left_out[k] = whole.log_evidence(cycles)
        for at, alone in zip(np.flatnonzero(truth == k), without, strict=True):
            left_out[k, at] = alone.log_evidence(cycles[at : at + 1])[0]
        scores.append(whole.log_evidence(test))
    return np.asarray(np.argmax(weighed(left_out, truth).odds(np.stack(scores)), axis=1))
