"""What stands behind the estimator: learning in a batch or row by row, and prediction."""

from __future__ import annotations

import warnings
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.gaussian import Array
from streamgp.models.cpoe import predict as prediction
from streamgp.models.cpoe.aggregate import Aggregate, aggregate
from streamgp.models.cpoe.calibration import calibrated
from streamgp.models.cpoe.experts_data import Model
from streamgp.models.cpoe.follow import Follower, scale_of, start_from_data
from streamgp.models.cpoe.graph import Clique, parts_of
from streamgp.models.cpoe.layout import arrange, metric
from streamgp.models.cpoe.learner import Learner
from streamgp.models.cpoe.options import Options
from streamgp.models.cpoe.posterior import Posterior
from streamgp.models.cpoe.recipe import is_calibrated, learn_hyperparameters, without_copies
from streamgp.models.cpoe.training import Hyper
from streamgp.models.rows import check_sizes, within_reach

#: rows after which the default kernel is brought to the data's scales in a stream
FIRST_ROWS = 8
#: a prediction from more regions than this makes one pass over all of them
MANY_REGIONS = 24


def generator(random_state: Any) -> np.random.Generator:
    """A generator of our own from whatever scikit-learn takes as ``random_state``, or a generator."""
    if isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state.integers(2**31, size=4))
    return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))


@final
class Engine:
    """A fitted model.

    Parameters
    ----------
    options
        The estimator's settings.
    d, q
        Columns of X and of y.
    """

    def __init__(self, options: Options, d: int, q: int) -> None:
        self.options = options
        self.d = d
        self.q = q
        self.rng = generator(options.random_state)
        self.hyper = Hyper(options.start_kernel(d), options.noise_variance, options.line)
        self.n_iterations = 0
        #: hyperparameters before variances were calibrated, and the factor that did it
        self.climbed, self.spread = self.hyper, 1.0
        self.before: Model | None = None  # the model at ``climbed``, where the factor is not 1
        self.learner: Learner | None = None
        self.posterior: Posterior | None = None
        self.follower = Follower(options, self.hyper)
        self._centres = np.zeros((0, d))
        self._centres_of: tuple[int, int, int] = (0, 0, 0)

    def fit(self, X: Array, y: Array) -> None:
        """Learn a batch: hyperparameters, then partition and posterior."""
        check_sizes(X, y)
        options = self.options
        J = options.n_experts if options.n_experts is not None else -(-len(X) // options.expert_size)
        J = min(J, len(X))
        rows, targets = (X, y) if options.optimizer is None else without_copies(X, y)
        some = max(1, J * len(rows) // len(X))
        learned = learn_hyperparameters(options, self.hyper, rows, targets, n_experts=some, rng=self.rng)
        self.hyper, self.n_iterations = learned
        layout = arrange(
            X,
            metric(self.hyper.kernel, self.d),
            n_experts=J,
            correlation=options.correlation,
            sparsity=options.sparsity,
            predecessors=options.rule,
            rng=self.rng,
        )
        data = layout.experts(X, y, exact=options.sparsity >= 1.0)
        self.posterior = Posterior(self.hyper.model(X), data, *parts_of(layout.predecessors))
        self.climbed, self.spread = self.hyper, 1.0
        if is_calibrated(options, targets) and len(rows) == len(X):  # a copy left out is no surprise
            self.hyper, self.spread = calibrated(self.hyper, self.posterior, self.rng)
        model = self.hyper.model(X)
        if self.spread != 1.0:
            self.before = self.climbed.model(X)
            self.posterior.spread(model, self.spread)
        self.learner = Learner.after(options, model, layout, data, len(X))
        self.follower = Follower(options, self.hyper, closed=J)

    def learn(self, X: Array, y: Array) -> None:
        """Go on with rows, in their order."""
        check_sizes(X, y)
        for i in range(len(X)):
            self._learn_row(X[i : i + 1], y[i : i + 1])

    def _learn_row(self, x: Array, y: Array) -> None:
        self.posterior = None
        if self.learner is None:
            scale = scale_of(self.hyper, self.d)
            self.learner = Learner.start(self.options, self.hyper.model(x), scale, x, y)
            self.follower = Follower(self.options, self.hyper)
            return
        opened = self.learner.learn(x, y)
        if self.n_learned == FIRST_ROWS and not self.learner.forgotten:
            data = self.learner.data
            start = start_from_data(self.options, self.hyper, np.concatenate(data.X), np.concatenate(data.y))
            if start is not self.hyper:
                self._adopt(start)
        new = self.follower.after_row(self.learner, opened)
        if new is not None:
            self._adopt(new)

    def _adopt(self, hyper: Hyper) -> None:
        assert self.learner is not None
        try:
            self.learner.tune(hyper.model(self.learner.data.X[-1]), scale_of(hyper, self.d))
        except NotPositiveDefiniteError as error:
            warnings.warn(f"hyperparameters kept as they were: {error}", ConvergenceWarning, stacklevel=4)
            return
        self.hyper = hyper
        self.follower.hyper = hyper

    # -- what is known

    @property
    def _known(self) -> Learner:
        assert self.learner is not None
        return self.learner

    @property
    def n_learned(self) -> int:
        """Rows learned, forgotten ones included."""
        return 0 if self.learner is None else self.learner.n_learned

    @property
    def n_regions(self) -> int:
        """J2."""
        stream = self._known.stream
        return len(stream.cliques) if stream is not None else len(parts_of(self._known.pi)[0])

    @property
    def observation_noise(self) -> float:
        """Variance of an observation about the function, white noise of the kernel included."""
        return self._known.model.noise

    def expert_rows(self) -> list[Any]:
        """Row numbers of every expert."""
        return [np.array(rows, dtype=np.int64) for rows in self._known.rows]

    def inducing(self) -> list[Array]:
        """Inducing inputs of every expert."""
        return [A.copy() for A in self._known.data.A]

    def predecessors(self) -> list[list[int]]:
        """pi(j)."""
        return [list(pi) for pi in self._known.pi]

    def log_evidence(self) -> float:
        """(8)."""
        stream = self._known.stream
        if self.posterior is None and stream is not None and self._known.data.exact:
            return stream.log_evidence
        return self._whole().log_evidence

    # -- prediction

    @property
    def sharpness(self) -> float:
        """Z of Def. 10."""
        return prediction.sharpness(self.n_learned, min(self.options.correlation, len(self._known.pi)))

    def locator(self) -> prediction.Locator:
        """Where the regions lie."""
        known = self._known
        J = len(known.pi)
        if len(self._centres) < J or self._centres_of != (known.forgotten, J, id(known.scale)):
            self._centres = np.zeros((J, self.d))
            if J > 1:
                self._centres[:-1] = known.centres
            self._centres_of = (known.forgotten, J, id(known.scale))
        self._centres[-1] = known.centre()
        return prediction.Locator(self._centres, known.scale, J - self.n_regions + 1)

    def _whole(self) -> Posterior:
        """The posterior of all regions at once."""
        if self.posterior is None:
            known = self._known
            if known.stream is not None:
                self.posterior = Posterior(known.model, known.data, known.stream.cliques, True)
            else:
                self.posterior = Posterior(known.model, known.data, *parts_of(known.pi))
        return self.posterior

    def _beliefs(self, needed: int) -> tuple[prediction.Beliefs, list[Clique]]:
        """Beliefs by region: from the stream for a few regions, from a pass over all of them for many."""
        stream = self._known.stream
        if self.posterior is None and stream is not None and needed <= MANY_REGIONS:
            return stream.belief, stream.cliques
        whole = self._whole()
        return whole.belief, whole.regions

    def predict(self, X: Array, *, count: int | None = None) -> tuple[Array, Array, Array]:
        """Latent mean (m, q) and variance (m,) at X, and the weights (W, m)."""
        known = self._known
        X = within_reach(known.model.kernel, X)
        asked = count if count is not None else self.options.n_predict_experts
        count = prediction.how_many(self.n_regions, asked)
        try:
            out = self._predict(X, count, *self._beliefs(min(self.n_regions, count * len(X))))
        except NotPositiveDefiniteError:
            if self.posterior is not None or known.stream is None:
                raise
            whole = self._whole()  # changes have eaten the digits: everything from the rows
            out = self._predict(X, count, whole.belief, whole.regions)
        return out.mean, out.variance, out.weights

    def _predict(self, X: Array, count: int, beliefs: prediction.Beliefs, parts: list[Clique]) -> Aggregate:
        known = self._known
        return prediction.predict(
            known.model,
            known.data,
            parts,
            beliefs=beliefs,
            locator=self.locator(),
            X=X,
            count=count,
            Z=self.sharpness,
        )

    def predict_regions(self, X: Array) -> tuple[Array, Array, Array]:
        """Local means (J2, m, q) and variances (J2, m) of all regions, and their weights (J2, m)."""
        known = self._known
        X = within_reach(known.model.kernel, X)
        beliefs, parts = self._beliefs(self.n_regions)
        chosen: NDArray[np.int64] = np.tile(np.arange(self.n_regions), (len(X), 1))
        means, variances, prior = prediction.local_predictions(
            known.model, known.data, parts, beliefs=beliefs, X=X, chosen=chosen
        )
        weights = aggregate(means, variances, prior_variance=prior, sharpness=self.sharpness).weights
        return means, variances, weights

    def joint_covariance(self, X: Array) -> Array:
        """(m, m) latent covariance."""
        known = self._known
        X = within_reach(known.model.kernel, X)
        beliefs, parts = self._beliefs(self.n_regions)
        return prediction.joint_covariance(known.model, known.data, parts, beliefs=beliefs, X=X, Z=self.sharpness)
