"""Correlated Product of Experts as a scikit-learn estimator, in batches and row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from typing_extensions import Self

from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.contract import State
from streamgp.models.cpoe.engine import Engine
from streamgp.models.cpoe.options import Options
from streamgp.models.cpoe.snapshot import (
    engine_from_state,
    engine_state,
    fresh_state,
    shape_from_state,
    shape_state,
)
from streamgp.models.rows import refuse_masks


@final
class CPoERegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Gaussian process regression by correlated local experts, linear in the number of rows.

    Schürch, Azzimonti, Benavoli & Zaffalon, *Correlated Product of Experts for Sparse Gaussian Process
    Regression*:
    rows are split into J experts; each has inducing points that are correlated with those of C - 1 earlier
    experts;
    predictions of the correlated regions are joined by a weighted product. C = J with sparsity 1 is the full GP,
    C = 1 independent experts. The prior mean is zero and nothing is scaled: targets far from zero lose digits (noise
    is at least 1e-4 of their size), so subtract their mean first, for instance by scikit-learn's
    ``TransformedTargetRegressor`` (means alone: scikit-learn's hands no ``return_std`` on).

    Parameters
    ----------
    kernel
        Any scikit-learn kernel; None is ``ConstantKernel() * RBF`` with a length-scale a column, started from the
        data's own spread where hyperparameters are learned. White noise in it counts as observation noise.
    noise_variance
        Variance of an observation about the function, positive.
    n_experts
        J; None is as many as experts of ``expert_size`` rows take.
    expert_size
        B, rows an expert; with ``partial_fit`` an expert is closed at this size.
    correlation
        C, how many experts are correlated as one region.
    sparsity
        gamma in (0, 1]: share of an expert's rows that are inducing points.
    approximation
        Line of Table 5: "fitc", "vfe", "dtc", "pitc", "pep" or "pep_block".
    predecessors
        "clique": C - 1 members of one earlier region, so that inference is two passes over a tree and nothing
        fills
        in; "nearest": the paper's C - 1 nearest earlier experts, by block-sparse Cholesky; "completed": the
        nearest
        graph with its fill used as correlation.
    n_predict_experts
        W, how many regions nearest to a query predict it. None: all of up to 12, the 4 nearest of more.
    optimizer
        "lbfgs": evidence (8) with its gradient, started on subsets; "adam": stochastic over experts (A.3.2),
        which in
        a stream also follows it; None keeps kernel and noise.
    max_iter
        Iterations of L-BFGS-B (default 100, fewer of many rows), or epochs of Adam (default 15).
    prior
        Log-normal priors on hyperparameters (3.6.2): a row (nu, lambda^2) for every entry of ``kernel.theta``, and
        one for the noise variance. None is plain evidence.
    random_state
        Seed of the order's start, of inducing points and of subsets.
    max_experts
        With ``partial_fit``: experts kept; the oldest is marginalised exactly, for which every expert's predecessors
        are the C - 1 experts just before it. None keeps all.
    alpha
        alpha in (0, 1] of the two "pep" lines.

    Attributes
    ----------
    experts_ : list of int arrays
        Rows of every expert, in expert order; with ``partial_fit`` rows count from the first one learned.
    inducing_ : list of (L, d)
    predecessors_ : list of lists
        pi(j), 0-based.
    kernel_, noise_variance_
        Hyperparameters now.
    log_marginal_likelihood_value_ : float
        Evidence (8) at them, with the correction of Table 5.
    n_iter_ : int
        Iterations that the optimiser took, over all its stages (1 where there was none).
    n_features_in_ : int
    n_observations_ : int
        Rows learned, forgotten ones included.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = CPoERegressor(expert_size=25, random_state=0).fit(X[::2], np.sin(X[::2, 0]))
    >>> mean, std = model.predict(X[1::2], return_std=True)
    >>> bool(np.abs(mean - np.sin(X[1::2, 0])).max() < 0.01)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        noise_variance: float = 0.1,
        n_experts: int | None = None,
        expert_size: int = 256,
        correlation: int = 2,
        sparsity: float = 1.0,
        approximation: str = "fitc",
        predecessors: str = "clique",
        n_predict_experts: int | None = None,
        optimizer: Literal["lbfgs", "adam"] | None = "lbfgs",
        max_iter: int | None = None,
        prior: Any = None,
        random_state: Any = None,
        max_experts: int | None = None,
        alpha: float = 0.5,
    ) -> None:
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.n_experts = n_experts
        self.expert_size = expert_size
        self.correlation = correlation
        self.sparsity = sparsity
        self.approximation = approximation
        self.predecessors = predecessors
        self.n_predict_experts = n_predict_experts
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.prior = prior
        self.random_state = random_state
        self.max_experts = max_experts
        self.alpha = alpha

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    # -- learning

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn X (n, d), y (n,) or (n, Q), forgetting what was learned before."""
        rows, targets = self._checked(X, y, reset=True)
        self.engine_ = Engine(Options.of(self), rows.shape[1], targets.shape[1])
        self.engine_.fit(rows, targets)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Go on with X, y in their order; on a fresh estimator this starts it. Equal to learning row by row.

        Rows join the newest expert until it is full; then a new expert opens. A step's cost does not grow with the
        experts that are closed where the stream is ordered.
        """
        fresh = not hasattr(self, "engine_")
        rows, targets = (None if fresh else self._ready(X, y)) or self._checked(X, y, reset=fresh)
        if fresh:
            self.engine_ = Engine(Options.of(self), rows.shape[1], targets.shape[1])
        elif targets.shape[1] != self.engine_.q:
            raise ValueError(f"y has {targets.shape[1]} outputs, the model learned {self.engine_.q}")
        self.engine_.learn(rows, targets)
        return self

    def _ready(self, X: Any, y: Any) -> tuple[Array, Array] | None:
        """X and y if they are plain and sound arrays already: scikit-learn's checks cost as much as a step."""
        points = self._plain(X)
        if points is None or type(y) is not np.ndarray or y.dtype != np.float64 or len(y) != len(points):
            return None
        if y.ndim != (1 if self._flat_y else 2) or not np.isfinite(y).all():
            return None
        return points.copy(), y.reshape(len(y), -1).copy()

    def _plain(self, X: Any) -> Array | None:
        if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2 or len(X) == 0:
            return None
        if X.shape[1] != self.n_features_in_ or hasattr(self, "feature_names_in_") or not np.isfinite(X).all():
            return None
        return X

    def _checked(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[Array, Array]:
        refuse_masks(X, y)
        rows, targets = validate_data(
            self, X, y, reset=reset, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=1
        )
        targets = np.asarray(targets, dtype=np.float64)
        if reset:
            self._flat_y = targets.ndim == 1
        return np.array(rows), np.array(targets.reshape(len(rows), -1))

    # -- prediction

    def predict(self, X: ArrayLike, return_std: bool = False, latent: bool = False, return_cov: bool = False) -> Any:
        """Mean of y at X (m, d); of the latent function with ``latent``.

        Parameters
        ----------
        X : (m, d)
        return_std
            Also the standard deviation: of y (noise included), or of the latent function with ``latent``.
        latent
            Speak of the function instead of an observation.
        return_cov
            Also the joint covariance (m, m) instead; all regions take part in it, and its diagonal is the variance
            of Prop. 8.

        Returns
        -------
        mean : (m,) or (m, Q)
        std : of the mean's shape, with ``return_std``
        cov : (m, m), with ``return_cov``; the same for every output
        """
        check_is_fitted(self, "engine_")
        if return_std and return_cov:
            raise ValueError("return_std and return_cov exclude each other")
        points = self._plain(X)
        if points is None:
            refuse_masks(X)
            points = validate_data(self, X, reset=False, dtype=np.float64)
        engine = self.engine_
        noise = 0.0 if latent else engine.observation_noise
        if return_cov:
            mean, _, _ = engine.predict(points, count=engine.n_regions)
            cov = engine.joint_covariance(points)
            cov.flat[:: len(cov) + 1] += noise
            return self._shaped(mean), cov
        mean, variance, _ = engine.predict(points)
        if not return_std:
            return self._shaped(mean)
        std = np.sqrt(variance + noise)
        return self._shaped(mean), std if self._flat_y else np.repeat(std[:, None], engine.q, axis=1)

    def predict_regions(self, X: ArrayLike) -> tuple[Array, Array, Array]:
        """Local predictions (Prop. 9) of every region: means (J2, m, Q), variances (J2, m), weights (J2, m)."""
        check_is_fitted(self, "engine_")
        points = validate_data(self, X, reset=False, dtype=np.float64)
        return self.engine_.predict_regions(points)

    def _shaped(self, mean: Array) -> Array:
        return np.ascontiguousarray(mean[:, 0]) if self._flat_y else mean

    # -- as the local model of a station

    def learn_rows(self, Z: Array, y: Array) -> None:
        """``partial_fit`` for finite float64 Z (n, d), y (n,), without scikit-learn's checks."""
        if hasattr(self, "engine_"):
            self.engine_.learn(Z, y[:, None])
        else:
            self.partial_fit(Z, y)

    def belief(self, Z: Array) -> Gaussian:
        """Belief about a single output at rows Z (m, d); before any data the prior."""
        if not hasattr(self, "engine_"):
            kernel = Options.of(self).start_kernel(Z.shape[1])
            noise = kernel.nugget(Z) + float(self.noise_variance)
            return Gaussian(np.zeros(len(Z)), kernel.variance(Z), noise)
        mean, variance, _ = self.engine_.predict(Z)
        return Gaussian(mean[:, 0], variance, np.full(len(Z), self.engine_.observation_noise))

    # -- what was learned

    @property
    def experts_(self) -> list[Array]:
        return self._engine.expert_rows()

    @property
    def inducing_(self) -> list[Array]:
        return self._engine.inducing()

    @property
    def predecessors_(self) -> list[list[int]]:
        return self._engine.predecessors()

    @property
    def kernel_(self) -> Any:
        return self._engine.hyper.kernel.kernel

    @property
    def noise_variance_(self) -> float:
        return self._engine.hyper.noise_variance

    @property
    def log_marginal_likelihood_value_(self) -> float:
        return self._engine.log_evidence()

    @property
    def n_iter_(self) -> int:
        return max(1, self._engine.n_iterations)

    @property
    def n_observations_(self) -> int:
        return self._engine.n_learned

    @property
    def _engine(self) -> Engine:
        if "engine_" not in self.__dict__:
            raise AttributeError("not fitted yet: call fit or partial_fit first")
        engine: Engine = self.engine_
        return engine

    # -- snapshot

    def state(self) -> State:
        """All that a twin needs to go on from here, without pickle."""
        if not hasattr(self, "engine_"):
            return fresh_state(Options.of(self))
        return {**engine_state(self._engine), **shape_state(self._flat_y, getattr(self, "feature_names_in_", None))}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The estimator that ``state`` describes: it predicts and learns the same, to the bit."""
        engine, arguments = engine_from_state(state)
        model = cls(**arguments)
        if engine is None:
            return model
        model.engine_ = engine
        model.n_features_in_ = engine.d
        model._flat_y, names = shape_from_state(state, engine.d)
        if names is not None:
            model.feature_names_in_ = names
        return model
