"""Nearest-neighbour Gaussian process regression, as a scikit-learn estimator that also learns row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from typing_extensions import Self

from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.contract import State
from streamgp.models.nearest_stream import NearestParameters, belief, checked_share
from streamgp.models.neighbour_model import NeighbourModel
from streamgp.models.rows import check_sizes, refuse_masks, warn_of_float32, within_reach
from streamgp.models.standing import StandingQueries


@final
class NearestNeighborGP(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Gaussian process regression that conditions each prediction on the nearest observations.

    With ``n_neighbors=1`` this is eq. (5) of the Byzantine-resilient federated paper; with as many neighbours as
    observations it is exact Gaussian process regression. The prior mean is zero and nothing is scaled; but where
    hyperparameters are fitted, to targets whose mean is more than ten times their spread, that mean is one of them.

    Observations at the very same row count as one neighbour: their mean, with the noise variance divided by their
    number, which is exact. Neighbours are nearest in the kernel's own scaling of the columns where it has one.

    Parameters
    ----------
    kernel
        A scikit-learn kernel; None is ``ConstantKernel() * Matern(nu=2.5)`` with a length-scale a column.
    noise_variance
        Variance of an observation about the function. 0 stays 0.
    n_neighbors
        Places that a prediction conditions on.
    max_points
        Observations kept. When one more comes, the oldest is forgotten, exactly as if it had never been. None
        keeps all.
    optimizer
        "lbfgs" fits kernel and noise to the evidence: ``fit`` on a sample of the batch, ``partial_fit`` after 32,
        128 and 512 observations, and then by steps of constant cost that follow the stream. None keeps both.
    random_state
        Seed of the samples that hyperparameters are fitted on. None is a fixed seed too: a stream that is
        replayed gives the same numbers.

    Attributes
    ----------
    kernel_, noise_variance_
        Hyperparameters now.
    tuning_status_ : str
        "converged", or why not; then the values before are kept.
    prior_mean_ : (n_outputs,)
        Zero, or the mean of targets far from it.
    n_features_in_ : int
    n_observations_ : int
        Observations learned, forgotten ones included.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = NearestNeighborGP(random_state=0).fit(X[::2], np.sin(X[::2, 0]))
    >>> mean, std = model.predict(X[1::2], return_std=True)
    >>> bool(np.abs(mean - np.sin(X[1::2, 0])).max() < 0.02)
    True
    """

    _merge = 0.0

    def __init__(
        self,
        kernel: Any = None,
        noise_variance: float = 0.1,
        n_neighbors: int = 32,
        max_points: int | None = None,
        optimizer: Literal["lbfgs"] | None = "lbfgs",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.n_neighbors = n_neighbors
        self.max_points = max_points
        self.optimizer = optimizer
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    # -- learning

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn X (n, d), y (n,) or (n, Q), forgetting what was learned before."""
        Z, targets = self._checked(X, y, reset=True)
        self._start(Z.shape[1], targets).learn_all(Z, targets)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Go on with X, y, in their order; on a fresh estimator this starts it. Equal to learning row by row."""
        fresh = not hasattr(self, "model_")
        Z, targets = self._checked(X, y, reset=fresh)
        if not fresh and targets.shape[1] != self.model_.places.q:
            raise ValueError(f"y has {targets.shape[1]} outputs, the model learned {self.model_.places.q}")
        model = self._start(Z.shape[1], targets) if fresh else self.model_
        model.learn(Z, targets)
        return self

    def _checked(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[Array, Array]:
        warn_of_float32(X)
        refuse_masks(X, y)
        with np.errstate(over="ignore", invalid="ignore"):  # in sums that scikit-learn takes before it looks closer
            Z, targets = validate_data(
                self, X, y, reset=reset, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=1
            )
        targets = np.asarray(targets, dtype=np.float64)
        check_sizes(Z, targets)
        if reset:
            self._flat_y = targets.ndim == 1
        return Z, targets.reshape(len(Z), -1)

    def _parameters(self) -> NearestParameters:
        """As they are now; a random state that is no number is left out, for none can be written down."""
        whole = isinstance(self.random_state, (int, np.integer))
        return NearestParameters(
            kernel=self.kernel,
            noise_variance=self.noise_variance,
            n_neighbors=self.n_neighbors,
            max_points=self.max_points,
            optimizer=self.optimizer,
            random_state=int(self.random_state) if whole else None,
            merge=self._merge,
        )

    def _start(self, d: int, targets: Array) -> NeighbourModel:
        """A model without observations, for rows of d columns and targets (n, q)."""
        parameters = self._parameters().checked()
        seed = 0 if self.optimizer is None else self._seed()
        self.model_ = parameters.model(d, targets.shape[1], seed=seed)
        return self.model_

    def _seed(self) -> int:
        """A seed from whatever scikit-learn takes as ``random_state``, or a generator; None is 0."""
        if isinstance(self.random_state, np.random.Generator):
            return int(self.random_state.integers(2**31))
        return int(check_random_state(0 if self.random_state is None else self.random_state).randint(2**31))

    def merge_rows(self, share: float) -> Self:
        """From now on learn close rows as one, where that costs at most this share of the noise variance.

        An approximation for long noisy streams, off by default; only ``partial_fit`` with an optimizer and more
        than one neighbour merges. 0 switches it off again: then only equal rows are one place. Not a parameter:
        ``clone`` leaves it behind, ``state`` keeps it.
        """
        self._merge = checked_share(share)
        if hasattr(self, "model_"):
            self.model_.merge, self.model_.cell = share, None
        return self

    # -- what was learned

    @property
    def kernel_(self) -> Any:
        return self.model_.kernel.kernel

    @property
    def noise_variance_(self) -> float:
        return self.model_.noise_variance

    @property
    def tuning_status_(self) -> str:
        return "kept as given" if self.model_.tuner is None else self.model_.tuner.status

    @property
    def prior_mean_(self) -> Array:
        return self.model_.offset.copy()

    @property
    def n_observations_(self) -> int:
        return self.model_.places.learned

    # -- predicting

    def predict(self, X: ArrayLike, return_std: bool = False, latent: bool = False) -> Any:
        """Predictive mean, and standard deviation on request, at X (m, d).

        Parameters
        ----------
        X : (m, d)
        return_std
            Also return the standard deviation.
        latent
            False: of an observation y, noise included. True: of the function f.

        Returns
        -------
        mean : (m,) or (m, Q), as y was
        std : the same shape
        """
        check_is_fitted(self, "model_")
        warn_of_float32(X)
        Z = self._points(X)
        mean, variance = self.model_.believe(Z)
        return self._shaped(Z, mean, variance, return_std=return_std, latent=latent)

    def _shaped(self, Z: Array, mean: Array, variance: Array, *, return_std: bool, latent: bool) -> Any:
        shaped = mean[:, 0] if self._flat_y else mean
        if not return_std:
            return shaped
        std = np.sqrt(variance if latent else variance + self._noise(Z))
        return shaped, std if self._flat_y else np.repeat(std[:, None], mean.shape[1], axis=1)

    def _noise(self, Z: Array) -> Array:
        model = self.model_
        return model.noise_variance + model.kernel.nugget(Z)

    def standing(self, X: ArrayLike) -> StandingQueries:
        """Queries at fixed X (m, d) whose neighbours are kept up to date at constant cost an observation.

        Whoever holds the returned object keeps it alive; the model only follows it.
        """
        check_is_fitted(self, "model_")
        return StandingQueries(self.model_, self._points(X), self._shaped)

    def _points(self, X: ArrayLike) -> Array:
        refuse_masks(X)
        with np.errstate(over="ignore", invalid="ignore"):
            Z: Array = validate_data(self, X, reset=False, dtype=np.float64)
        return within_reach(self.model_.kernel, Z)

    # -- the fast door: float64 arrays of the right shape, finite; used by EstimatorModel

    def learn_rows(self, Z: Array, y: Array) -> None:
        """``partial_fit`` for finite float64 Z (n, d), y (n,), without scikit-learn's checks."""
        if not hasattr(self, "model_"):
            self.partial_fit(Z, y)
        else:
            self.model_.learn(Z, y[:, None])

    def belief(self, Z: Array) -> Gaussian:
        """Belief about a single output at rows Z (m, d); before any data the prior."""
        return belief(self._parameters(), getattr(self, "model_", None), Z)

    # -- state

    def state(self) -> State:
        """Parameters and everything learned: numbers, strings and arrays."""
        model = getattr(self, "model_", None)
        return self._parameters().state(model, flat_y=model is None or self._flat_y)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The estimator that ``state`` describes: it predicts and learns the same, to the bit.

        Raises
        ------
        CheckpointError
            If the state is of another version, or damaged.
        """
        p, model, flat_y = NearestParameters.from_state(state)
        new = cls(p.kernel, p.noise_variance, p.n_neighbors, p.max_points, p.optimizer, p.random_state)
        new.merge_rows(p.merge)
        if model is not None:
            new._flat_y = flat_y
            new.n_features_in_ = model.places.d
            new.model_ = model
        return new
