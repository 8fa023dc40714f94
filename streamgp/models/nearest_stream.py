"""The nearest-neighbour Gaussian process that a station learns with: the estimator's numbers without scikit-learn.

:class:`streamgp.models.nearest.NearestNeighborGP` is the door for people: validation, tags and clones of scikit-learn.
What computes, and what a snapshot holds, is here, so that an agent, whose rows are checked already, starts without
the second of processor time that importing scikit-learn takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np
from typing_extensions import Self

from streamgp.errors import CheckpointError
from streamgp.gp.compiled import CompiledKernel, check_width, default_kernel
from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.contract import State
from streamgp.models.neighbour_model import NeighbourModel
from streamgp.models.places import Places
from streamgp.models.rows import within_reach
from streamgp.models.tuning import Tuner

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestParameters:
    """The parameters of :class:`streamgp.models.nearest.NearestNeighborGP`, by the same names.

    ``random_state`` is a whole number or None; ``merge`` is the share of ``merge_rows``.
    """

    kernel: Any = None
    noise_variance: float = 0.1
    n_neighbors: int = 32
    max_points: int | None = None
    optimizer: Literal["lbfgs"] | None = "lbfgs"
    random_state: int | None = None
    merge: float = 0.0

    def checked(self) -> Self:
        """Itself; raises a ValueError that names what cannot be."""
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
        return self

    def compiled(self, d: int) -> CompiledKernel:
        """The kernel for rows of d columns."""
        if self.kernel is None:
            return default_kernel(d)
        from streamgp.gp.kernels import compile_kernel  # who chose a scikit-learn kernel has imported it

        kernel = compile_kernel(self.kernel)
        check_width(kernel, d)
        return kernel

    def model(self, d: int, q: int, *, seed: int | None = None) -> NeighbourModel:
        """A model without observations, for rows of d columns and q outputs; ``seed`` is that of the tuner."""
        self.checked()
        kernel = self.compiled(d)
        tuner = None
        if self.optimizer is not None:
            tuner = Tuner(kernel.bounds, self.seed() if seed is None else seed)
        return NeighbourModel(
            kernel,
            float(self.noise_variance),
            Places(d, q, self.max_points),
            n_neighbors=int(self.n_neighbors),
            tuner=tuner,
            merge=self.merge,
        )

    def seed(self) -> int:
        """What scikit-learn's ``check_random_state`` would draw a seed with."""
        return int(np.random.RandomState(self.random_state or 0).randint(2**31))

    def state(self, model: NeighbourModel | None, *, flat_y: bool = True) -> State:
        """Parameters and everything learned: numbers, strings and arrays."""
        state: State = {
            "version": VERSION,
            "kernel": None if self.kernel is None else _text_of(self.kernel),
            "noise_variance": float(self.noise_variance),
            "n_neighbors": int(self.n_neighbors),
            "max_points": None if self.max_points is None else int(self.max_points),
            "optimizer": self.optimizer,
            "random_state": None if self.random_state is None else int(self.random_state),
            "merge": self.merge,
        }
        if model is not None:
            state["flat_y"] = flat_y
            state.update({f"model_{k}": v for k, v in model.state().items()})
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> tuple[Self, NeighbourModel | None, bool]:
        """The parameters, the model (None before it learned anything) and whether targets were flat.

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
            new = cls(
                kernel=None if state["kernel"] is None else _kernel_of(state["kernel"]),
                noise_variance=float(state["noise_variance"]),
                n_neighbors=int(state["n_neighbors"]),
                max_points=None if state["max_points"] is None else int(state["max_points"]),
                optimizer=state["optimizer"],
                random_state=state["random_state"],
                merge=checked_share(float(state["merge"])),
            )
            if "flat_y" not in state:
                return new, None, True
            learned = {k[6:]: v for k, v in state.items() if k.startswith("model_")}
            kernel = new.compiled(int(np.asarray(learned["places_rows"]).shape[1]))
            model = NeighbourModel.from_state(learned, kernel, n_neighbors=new.n_neighbors, max_points=new.max_points)
            return new, model, bool(state["flat_y"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"NearestNeighborGP: damaged state ({error})") from error


@final
class NearestStream:
    """A :class:`streamgp.models.local.StreamEstimator`: learns finite float64 rows, answers, and keeps its state.

    The numbers, and the state, are those of ``NearestNeighborGP`` with the same parameters, to the bit.

    Examples
    --------
    >>> import numpy as np
    >>> model = NearestStream(NearestParameters(noise_variance=0.01, optimizer=None))
    >>> model.learn_rows(np.zeros((1, 2)), np.array([5.0]))
    >>> model.belief(np.zeros((1, 2))).mean.round(3)
    array([4.95])
    """

    def __init__(self, parameters: NearestParameters) -> None:
        self.parameters = parameters
        self.model_: NeighbourModel | None = None

    def merge_rows(self, share: float) -> Self:
        """As the estimator's."""
        self.parameters = replace(self.parameters, merge=checked_share(share))
        if self.model_ is not None:
            self.model_.merge, self.model_.cell = share, None
        return self

    def learn_rows(self, Z: Array, y: Array) -> None:
        """Go on with rows Z (n, d), targets y (n,), in their order."""
        if self.model_ is None:
            self.model_ = self.parameters.model(Z.shape[1], 1)
        self.model_.learn(Z, y[:, None])

    def belief(self, Z: Array) -> Gaussian:
        """Belief about y at rows Z (m, d); before any data the prior."""
        return belief(self.parameters, self.model_, Z)

    def state(self) -> State:
        """Parameters and everything learned."""
        return self.parameters.state(self.model_)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The twin that ``state`` describes; raises a CheckpointError if there is none."""
        parameters, model, _ = NearestParameters.from_state(state)
        new = cls(parameters)
        new.model_ = model
        return new


def belief(parameters: NearestParameters, model: NeighbourModel | None, Z: Array) -> Gaussian:
    """Belief about a single output at rows Z (m, d); the prior where there is no model yet."""
    if model is None:
        kernel = parameters.compiled(Z.shape[1])
        Z = within_reach(kernel, Z)
        noise = kernel.nugget(Z) + float(parameters.noise_variance)
        return Gaussian(np.zeros(len(Z)), kernel.variance(Z), noise)
    Z = within_reach(model.kernel, Z)
    mean, variance = model.believe(Z)
    return Gaussian(mean[:, 0], variance, model.noise_variance + model.kernel.nugget(Z))


def checked_share(share: float) -> float:
    """A share of the noise variance; raises a ValueError unless it is in [0, 1)."""
    if not 0.0 <= share < 1.0:
        raise ValueError(f"share must be in [0, 1), got {share}")
    return share


def _text_of(kernel: Any) -> str:
    from streamgp.gp.kernel_text import kernel_to_text  # as above

    return kernel_to_text(kernel)


def _kernel_of(text: str) -> Any:
    from streamgp.gp.kernel_text import kernel_from_text  # as above

    return kernel_from_text(text)
