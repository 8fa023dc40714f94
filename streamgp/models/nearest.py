"""Nearest-neighbour Gaussian process regression, as a scikit-learn estimator that also learns row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from typing_extensions import Self

from streamgp.errors import CheckpointError
from streamgp.gp.gaussian import Array, Gaussian
from streamgp.gp.kernel_text import kernel_from_text, kernel_to_text
from streamgp.gp.kernels import CompiledKernel, check_width, compile_kernel
from streamgp.models.contract import State
from streamgp.models.neighbour_model import NeighbourModel
from streamgp.models.places import Places
from streamgp.models.rows import check_sizes, refuse_masks, warn_of_float32, within_reach
from streamgp.models.standing import StandingQueries
from streamgp.models.tuning import Tuner

VERSION = 1


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

    def _check_parameters(self) -> None:
        if isinstance(self.n_neighbors, bool) or not isinstance(self.n_neighbors, (int, np.integer)):
            raise ValueError(f"n_neighbors must be a whole number, got {self.n_neighbors!r}")
        if self.n_neighbors < 1:
            raise ValueError(f"n_neighbors must be at least 1, got {self.n_neighbors}")
        whole = isinstance(self.max_points, (int, np.integer)) and not isinstance(self.max_points, bool)
        if self.max_points is not None and not (whole and self.max_points >= 1):
            raise ValueError(f"max_points must be a whole number of at least 1, or None, got {self.max_points!r}")
        number = isinstance(self.noise_variance, (int, float, np.integer, np.floating))
        if not (number and np.isfinite(self.noise_variance) and self.noise_variance >= 0):
            raise ValueError(f"noise_variance must be a finite number, not negative, got {self.noise_variance!r}")
        if self.optimizer not in (None, "lbfgs"):
            raise ValueError(f"optimizer must be 'lbfgs' or None, got {self.optimizer!r}")

    def _start(self, d: int, targets: Array) -> NeighbourModel:
        """A model without observations, for rows of d columns and targets (n, q)."""
        self._check_parameters()
        kernel = self._compiled(d)
        tuner = None
        if self.optimizer is not None:
            tuner = Tuner(kernel.bounds, self._seed())
        self.model_ = NeighbourModel(
            kernel,
            float(self.noise_variance),
            Places(d, targets.shape[1], self.max_points),
            n_neighbors=int(self.n_neighbors),
            tuner=tuner,
            merge=self._merge,
        )
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
        if not 0.0 <= share < 1.0:
            raise ValueError(f"share must be in [0, 1), got {share}")
        self._merge = share
        if hasattr(self, "model_"):
            self.model_.merge, self.model_.cell = share, None
        return self

    def _compiled(self, d: int) -> CompiledKernel:
        if self.kernel is not None:
            kernel = compile_kernel(self.kernel)
            check_width(kernel, d)
            return kernel
        long = (1e-50, 1e150)  # squares of X / length-scale stay numbers
        return compile_kernel(ConstantKernel(1.0, (1e-200, 1e200)) * Matern(np.ones(d), long, nu=2.5))

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
        if not hasattr(self, "model_"):
            kernel = self._compiled(Z.shape[1])
            Z = within_reach(kernel, Z)
            return Gaussian(np.zeros(len(Z)), kernel.variance(Z), kernel.nugget(Z) + float(self.noise_variance))
        Z = within_reach(self.model_.kernel, Z)
        mean, variance = self.model_.believe(Z)
        return Gaussian(mean[:, 0], variance, self._noise(Z))

    # -- state

    def state(self) -> State:
        """Parameters and everything learned: numbers, strings and arrays."""
        seed = self.random_state if isinstance(self.random_state, (int, np.integer)) else None
        state: State = {
            "version": VERSION,
            "kernel": None if self.kernel is None else kernel_to_text(self.kernel),
            "noise_variance": float(self.noise_variance),
            "n_neighbors": int(self.n_neighbors),
            "max_points": None if self.max_points is None else int(self.max_points),
            "optimizer": self.optimizer,
            "random_state": None if seed is None else int(seed),
            "merge": self._merge,
        }
        if hasattr(self, "model_"):
            state["flat_y"] = self._flat_y
            state.update({f"model_{k}": v for k, v in self.model_.state().items()})
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The estimator that ``state`` describes: it predicts and learns the same, to the bit.

        Raises
        ------
        CheckpointError
            If the state is of another version, or damaged.
        """
        version = state.get("version")
        if version != VERSION:
            age = "newer" if isinstance(version, int) and version > VERSION else "unknown"
            raise CheckpointError(f"NearestNeighborGP: {age} version {version!r}, this release reads {VERSION}")
        try:
            kernel = None if state["kernel"] is None else kernel_from_text(state["kernel"])
            new = cls(
                kernel=kernel,
                noise_variance=float(state["noise_variance"]),
                n_neighbors=int(state["n_neighbors"]),
                max_points=None if state["max_points"] is None else int(state["max_points"]),
                optimizer=state["optimizer"],
                random_state=state["random_state"],
            )
            new.merge_rows(float(state["merge"]))
            if "flat_y" in state:
                new._restore({k[6:]: v for k, v in state.items() if k.startswith("model_")}, bool(state["flat_y"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"NearestNeighborGP: damaged state ({error})") from error
        return new

    def _restore(self, learned: Mapping[str, Any], flat_y: bool) -> None:
        d = int(np.asarray(learned["places_rows"]).shape[1])
        self._flat_y = flat_y
        self.n_features_in_ = d
        self.model_ = NeighbourModel.from_state(
            learned, self._compiled(d), n_neighbors=self.n_neighbors, max_points=self.max_points
        )
