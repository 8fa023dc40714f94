"""Log-normal priors on hyperparameters (3.6.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from streamgp.errors import SettingsError
from streamgp.gp.gaussian import Array


@final
@dataclass(frozen=True, slots=True)
class LogNormalPrior:
    """``log theta_j ~ N(nu_j, lambda_j^2)``, in the order of ``kernel.theta`` with the noise variance last.

    Parameters
    ----------
    nu : (p + 1,)
    variance : (p + 1,)
        ``lambda_j^2``; infinity leaves hyperparameter j without a prior.

    Examples
    --------
    >>> prior = LogNormalPrior.of([(0.0, 1.0), (-2.0, 0.5)], 2)
    >>> value, gradient = prior.log_density(np.array([0.0, -2.0]))
    >>> gradient.tolist()  # at the median the density of theta still falls, by -1 per log unit
    [-1.0, -1.0]
    """

    nu: Array
    variance: Array

    @classmethod
    def of(cls, table: ArrayLike | LogNormalPrior, size: int) -> LogNormalPrior:
        """From rows (nu, lambda^2).

        Raises
        ------
        SettingsError
            If there are not ``size`` rows of two numbers, or a variance is not positive.
        """
        if isinstance(table, LogNormalPrior):
            table = np.column_stack([table.nu, table.variance])
        rows = np.asarray(table, dtype=np.float64)
        if rows.shape != (size, 2):
            raise SettingsError(
                f"prior must have {size} rows (nu, variance), kernel.theta first and the noise variance last;"
                f" got shape {rows.shape}"
            )
        if not np.all(rows[:, 1] > 0) or not np.isfinite(rows[:, 0]).all():
            raise SettingsError("every prior variance must be positive and every nu finite")
        return cls(rows[:, 0], rows[:, 1])

    def log_density(self, t: Array) -> tuple[float, Array]:
        """Log density of theta = exp(t), and its gradient with respect to t."""
        known = np.isfinite(self.variance)
        variance = np.where(known, self.variance, 1.0)
        z = (t - self.nu) / variance
        terms = -0.5 * z * (t - self.nu) - t - 0.5 * np.log(2 * np.pi * variance)
        return float(np.sum(terms[known])), np.where(known, -z - 1.0, 0.0)
