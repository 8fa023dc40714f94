"""The estimator's settings, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgp.errors import SettingsError
from streamgp.gp.gaussian import Array
from streamgp.gp.kernels import CompiledKernel, compile_kernel
from streamgp.gp.projections import Approximation
from streamgp.models.cpoe.layout import PREDECESSORS
from streamgp.models.cpoe.prior import LogNormalPrior
from streamgp.models.cpoe.scales import default_kernel

LBFGS_ITERATIONS = 100
ADAM_EPOCHS = 15


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that the constructor took, by the same names."""

    kernel: Any
    noise_variance: float
    n_experts: int | None
    expert_size: int
    correlation: int
    sparsity: float
    approximation: str
    predecessors: str
    n_predict_experts: int | None
    optimizer: str | None
    max_iter: int | None
    prior: Any
    random_state: Any
    max_experts: int | None
    alpha: float

    @classmethod
    def of(cls, source: Any) -> Options:
        """From an estimator's parameters.

        Raises
        ------
        SettingsError
            A ``ValueError`` that names the parameter and what it may be.
        """
        options = cls(**source.get_params(deep=False))
        options.check()
        return options

    def check(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("expert_size", "correlation"):
            _whole(name, getattr(self, name))
        for name in ("n_experts", "n_predict_experts", "max_experts"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name))
        if self.max_iter is not None:
            _whole("max_iter", self.max_iter, least=0)
        for name in ("sparsity", "noise_variance", "alpha"):
            _number(name, getattr(self, name))
        if self.prior is not None:
            self.log_normal_table()
        if not 0.0 < self.sparsity <= 1.0:
            raise SettingsError(f"sparsity must lie in (0, 1], got {self.sparsity}")
        if not (np.isfinite(self.noise_variance) and self.noise_variance > 0.0):
            raise SettingsError(f"noise_variance must be positive and finite, got {self.noise_variance}")
        if self.predecessors not in PREDECESSORS:
            raise SettingsError(f"predecessors must be one of {', '.join(PREDECESSORS)}, got {self.predecessors!r}")
        if self.optimizer not in (None, "lbfgs", "adam"):
            raise SettingsError(f"optimizer must be 'lbfgs', 'adam' or None, got {self.optimizer!r}")
        if self.max_experts is not None and self.max_experts < self.correlation:
            raise SettingsError(f"max_experts ({self.max_experts}) must be at least correlation ({self.correlation})")
        Approximation(self.approximation, self.alpha)

    @property
    def line(self) -> Approximation:
        """Line of Table 5."""
        return Approximation(self.approximation, self.alpha)

    @property
    def rule(self) -> str:
        """How predecessors are chosen: consecutively where the oldest are to be forgotten, else as asked for."""
        return self.predecessors if self.max_experts is None else "chain"

    @property
    def iterations(self) -> int:
        """Iterations or epochs of the optimiser."""
        if self.max_iter is not None:
            return self.max_iter
        return ADAM_EPOCHS if self.optimizer == "adam" else LBFGS_ITERATIONS

    def start_kernel(self, d: int) -> CompiledKernel:
        """The kernel given, or the default one at unit scales.

        Raises
        ------
        SettingsError
            If the kernel given is for another number of columns than d.
        """
        kernel = compile_kernel(default_kernel(d) if self.kernel is None else self.kernel)
        kernel.precision(d)
        return kernel

    def log_normal_table(self) -> Array:
        """Rows (nu, lambda^2) of the prior.

        Raises
        ------
        SettingsError
            If they are no table of numbers.
        """
        if isinstance(self.prior, LogNormalPrior):
            return np.column_stack([self.prior.nu, self.prior.variance])
        try:
            return np.asarray(self.prior, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"prior must be rows (nu, variance) of numbers, got {self.prior!r}") from error

    def log_normal(self, kernel: CompiledKernel) -> LogNormalPrior | None:
        """The prior on (theta, log noise)."""
        return None if self.prior is None else LogNormalPrior.of(self.prior, len(kernel.theta) + 1)


def _number(name: str, value: Any) -> None:
    if isinstance(value, (bool, np.bool_)) or np.ndim(value) != 0 or np.asarray(value).dtype.kind not in "iuf":
        raise SettingsError(f"{name} must be a number, got {value!r}")


def _whole(name: str, value: Any, *, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise SettingsError(f"{name} must be a whole number, at least {least}; got {value!r}")
