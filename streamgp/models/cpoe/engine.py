"""What stands behind the estimator: learning in a batch, and prediction."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from streamgp.gp.gaussian import Array
from streamgp.models.cpoe import predict as prediction
from streamgp.models.cpoe.aggregate import aggregate
from streamgp.models.cpoe.experts_data import Experts
from streamgp.models.cpoe.layout import Layout, arrange, metric
from streamgp.models.cpoe.options import Options
from streamgp.models.cpoe.posterior import Posterior
from streamgp.models.cpoe.recipe import learn_hyperparameters
from streamgp.models.cpoe.training import Hyper


def generator(random_state: Any) -> np.random.Generator:
    """A generator of our own from whatever scikit-learn takes as ``random_state``."""
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
        self.n_learned = 0
        self.n_iterations = 0

    def fit(self, X: Array, y: Array) -> None:
        """Learn a batch: hyperparameters, then partition and posterior."""
        options = self.options
        J = options.n_experts if options.n_experts is not None else -(-len(X) // options.expert_size)
        J = min(J, len(X))
        learned = learn_hyperparameters(options, self.hyper, X, y, n_experts=J, rng=self.rng)
        self.hyper, self.n_iterations = learned
        layout = arrange(
            X,
            metric(self.hyper.kernel, self.d),
            n_experts=J,
            correlation=options.correlation,
            sparsity=options.sparsity,
            predecessors=options.predecessors,
            rng=self.rng,
        )
        self.layout: Layout = layout
        self.data: Experts = layout.experts(X, y, exact=options.sparsity >= 1.0)
        self.n_learned = len(X)
        self.posterior = Posterior(self.hyper.model(X), self.data, layout.predecessors)

    # -- what is known

    @property
    def n_regions(self) -> int:
        """J2."""
        return len(self.posterior.regions)

    @property
    def observation_noise(self) -> float:
        """Variance of an observation about the function, white noise of the kernel included."""
        return self.posterior.model.noise

    def expert_rows(self) -> list[Any]:
        """Row numbers of every expert."""
        return [rows.copy() for rows in self.layout.rows]

    def inducing(self) -> list[Array]:
        """Inducing inputs of every expert."""
        return [A.copy() for A in self.data.A]

    def predecessors(self) -> list[list[int]]:
        """pi(j)."""
        return [list(pi) for pi in self.layout.predecessors]

    def log_evidence(self) -> float:
        """(8)."""
        return self.posterior.log_evidence

    # -- prediction

    @property
    def sharpness(self) -> float:
        """Z of Def. 10."""
        C = min(self.options.correlation, len(self.data.A))
        return prediction.sharpness(self.n_learned, C)

    def locator(self) -> prediction.Locator:
        """Where the regions lie."""
        first = len(self.posterior.regions[0].residual)
        return prediction.Locator(self.layout.centres, self.layout.scale, first)

    def predict(self, X: Array, *, count: int | None = None) -> tuple[Array, Array, Array]:
        """Latent mean (m, q) and variance (m,) at X, and the weights (W, m)."""
        p = self.posterior
        count = prediction.how_many(self.n_regions, count if count is not None else self.options.n_predict_experts)
        out = prediction.predict(
            p.model,
            self.data,
            p.regions,
            beliefs=p.belief,
            locator=self.locator(),
            X=X,
            count=count,
            Z=self.sharpness,
        )
        return out.mean, out.variance, out.weights

    def predict_regions(self, X: Array) -> tuple[Array, Array, Array]:
        """Local means (J2, m, q) and variances (J2, m) of all regions, and their weights (J2, m)."""
        p = self.posterior
        chosen: NDArray[np.int64] = np.tile(np.arange(self.n_regions), (len(X), 1))
        means, variances, prior = prediction.local_predictions(
            p.model, self.data, p.regions, beliefs=p.belief, X=X, chosen=chosen
        )
        weights = aggregate(means, variances, prior_variance=prior, sharpness=self.sharpness).weights
        return means, variances, weights

    def joint_covariance(self, X: Array) -> Array:
        """(m, m) latent covariance."""
        p = self.posterior
        return prediction.joint_covariance(p.model, self.data, p.regions, beliefs=p.belief, X=X, Z=self.sharpness)
