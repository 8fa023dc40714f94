"""The value that models, fusion and wire share: independent Gaussian marginals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Marginals of a latent function at m points, and the noise of an observation there.

    Parameters
    ----------
    mean : (m,)
        Predictive mean, in the units of y.
    variance : (m,)
        Variance of the latent function, in squared units of y.
    noise_variance : (m,)
        Variance that an observation adds to it; an interval for y uses ``variance + noise_variance``.

    Examples
    --------
    >>> import numpy as np
    >>> g = Gaussian(np.zeros(2), np.ones(2), np.full(2, 0.25))
    >>> g.total
    array([1.25, 1.25])
    """

    mean: Array
    variance: Array
    noise_variance: Array

    @property
    def total(self) -> Array:
        """(m,) variance of an observation."""
        return self.variance + self.noise_variance

    def rescaled(self, *, shift: float, scale: float) -> Gaussian:
        """The same belief about ``shift + scale * y``."""
        s2 = scale * scale
        return Gaussian(self.mean * scale + shift, self.variance * s2, self.noise_variance * s2)
