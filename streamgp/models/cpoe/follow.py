"""Hyperparameters of a stream: a warm-up, then steps whose cost the stream pays off (A.3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.gaussian import Array
from streamgp.gp.hyperparameters import mean_square_of
from streamgp.models.cpoe.experts_data import Experts
from streamgp.models.cpoe.layout import metric
from streamgp.models.cpoe.learner import Learner
from streamgp.models.cpoe.options import Options
from streamgp.models.cpoe.prior import LogNormalPrior
from streamgp.models.cpoe.recipe import unit_offset
from streamgp.models.cpoe.scales import data_scaled, lengths_of, says_something
from streamgp.models.cpoe.training import (
    Adam,
    Evaluate,
    Hyper,
    bounds,
    exact_evidence,
    expert_evidence,
    graph_evidence,
    maximise,
)

#: rows after which the exact evidence of all rows so far is maximised, and iterations spent on it
WARM_UP = {32: 60, 128: 30}
#: closed experts after which the whole evidence is climbed, and iterations spent on it
CLOSINGS = {1: 30, 2: 10, 4: 6, 8: 4}
#: Adam's values are taken up when one of them has moved by this much, in logarithms
DRIFT = 0.1
RATE = 0.03


@dataclass(slots=True)
class Follower:
    """Decides when and how hyperparameters of a stream change; ``hyper`` are those in use."""

    options: Options
    hyper: Hyper
    adam: Adam | None = None
    next_adoption: int = 1
    closed: int = 0

    def after_row(self, learner: Learner, closed: bool) -> Hyper | None:
        """Called after every row; ``closed`` says that it opened an expert. New values, or None."""
        if self.options.optimizer is None or self.options.iterations == 0:
            return None
        if closed:
            self.closed += 1
        n = learner.n_learned
        if n in WARM_UP and n <= learner.capacity and not learner.forgotten:
            X, y = np.concatenate(learner.data.X), np.concatenate(learner.data.y)
            return self._climb(exact_evidence(X, y), X, y, WARM_UP[n])
        if closed and self.closed in CLOSINGS and learner.stream is not None:
            data = learner.data
            X, y = np.concatenate(data.X), np.concatenate(data.y)
            return self._climb(graph_evidence(data, learner.stream.cliques, True), X, y, CLOSINGS[self.closed])
        if closed and self.options.optimizer == "adam":
            return self._step(learner)
        return None

    def _climb(self, evaluate: Evaluate, X: Array, y: Array, iterations: int) -> Hyper | None:
        if not says_something(y):
            return None
        done = maximise(
            evaluate,
            self.hyper,
            log_bounds=bounds(self.hyper, y),
            max_iter=min(iterations, max(self.options.iterations, 1)),
            prior=weak_prior(self.options, X, y) or self.options.log_normal(self.hyper.kernel),
            offset=unit_offset(y, len(y)),
        )
        if done.failed:
            return None
        self.adam = None
        return done.hyper

    def _step(self, learner: Learner) -> Hyper | None:
        """One step up the factorised evidence of the expert that has just closed."""
        data, j = learner.data, len(learner.data.X) - 2
        closed = Experts([data.X[j]], [data.y[j]], [data.A[j]], data.exact)
        adam = Adam.at(self.hyper.vector) if self.adam is None else self.adam
        try:
            value, gradient = expert_evidence(
                self.hyper.at(adam.t), closed, [0], self.options.log_normal(self.hyper.kernel)
            )
        except NotPositiveDefiniteError:
            return None
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return None
        self.adam = adam.step(gradient, rate=RATE, log_bounds=bounds(self.hyper, data.y[j]))
        drifted = float(np.max(np.abs(self.adam.t - self.hyper.vector))) > DRIFT
        if not drifted or self.closed < self.next_adoption:
            return None
        most = self.options.max_experts
        self.next_adoption = 2 * self.closed if most is None else self.closed + most
        return self.hyper.at(self.adam.t)


def start_from_data(options: Options, hyper: Hyper, X: Array, y: Array) -> Hyper:
    """The default kernel at the data's own scales, once there are a few rows; a given kernel as it is."""
    if options.kernel is not None or options.optimizer is None:
        return hyper
    return data_scaled(hyper, X, y)


def weak_prior(options: Options, X: Array, y: Array) -> LogNormalPrior | None:
    """For the default kernel: smooth functions are likelier, all within a factor of a few of the data's scales.

    A hundred noisy rows leave room for the evidence to end at no signal at all, or in one column; a few hundred
    that say something overrule this.
    """
    if options.kernel is not None or options.prior is not None or not says_something(y):
        return None
    power = mean_square_of(y)
    lengths = np.log(4.0) + lengths_of(X)
    mode = np.concatenate([[np.log(power)], lengths, [np.log(0.3 * power)]])
    variance = np.concatenate([[1.5**2], np.full(len(lengths), 0.8**2), [1.5**2]])
    return LogNormalPrior(mode + variance, variance)  # the density of a log-normal is highest there, in its own unit


def scale_of(hyper: Hyper, d: int) -> Array:
    """Metric in which experts are near or far."""
    return metric(hyper.kernel, d)
