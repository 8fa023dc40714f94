"""How wide the intervals are, by leaving one row out (Bachoc 2013; Acharki, Bertoncello & Garnier 2023).

Prior covariances and noise times one factor leave every mean as it is and multiply every variance by it. The evidence
chooses that factor as if kernel and noise were the truth; where they are not, its intervals hold less often than they
say. So the factor is the one at which 95 of 100 rows lie in the 95% interval that the others give them.
"""

from __future__ import annotations

import numpy as np

from streamgp.gp.amplitude import amplified
from streamgp.gp.gaussian import Array
from streamgp.models.cpoe.posterior import Posterior
from streamgp.models.cpoe.training import Hyper

#: rows left out, and regions that they are taken from, at most
ROWS, REGIONS = 4000, 256
#: the share of an observation's variance that its other half must keep for the digits to mean something
LEAST_SHARE = 1e-3
LEVEL, QUANTILE = 0.95, 1.959963984540054
#: a factor beyond this, up or down, is no matter of calibration
LARGEST = 4.0


def surprises(posterior: Posterior, rng: np.random.Generator) -> Array:
    """(m,) residuals of rows left out one at a time, in their own standard deviations, over outputs.

    With f_i ~ N(m, v) given all rows and noise s, leaving y_i out gives it the residual ``(y - m) / (1 - v / s)`` and
    the variance ``s / (1 - v / s)`` (Rasmussen & Williams 2006, (5.12)). Rows are taken from the region that their
    expert is the residual of; nan where rounding has eaten the digits.
    """
    model, experts, regions = posterior.model, posterior.experts, posterior.regions
    some = np.unique(np.linspace(0, len(regions) - 1, min(REGIONS, len(regions))).astype(int))
    share = ROWS / max(1, sum(len(experts.X[e]) for c in some for e in regions[c].residual))
    found = []
    for c in some:
        X, y, _ = experts.rows(regions[c])
        if share < 1.0:
            rows = rng.choice(len(X), int(np.ceil(share * len(X))), replace=False)
            X, y = X[rows], y[rows]
        belief = posterior.belief(int(c))
        k = model.kernel(X, experts.inducing(regions[c]))
        kept = 1.0 - (model.kernel.variance(X) - belief.explained(k)) / model.noise
        kept = np.where((kept > LEAST_SHARE) & (kept <= 1.0 + 1e-6), kept, np.nan)
        found.append(((y - k @ belief.alpha) / np.sqrt(model.noise * kept)[:, None]).ravel())
    return np.concatenate(found)


def calibrated(hyper: Hyper, posterior: Posterior, rng: np.random.Generator) -> tuple[Hyper, float]:
    """Hyperparameters at which the 95% interval holds 95 of 100 rows left out, and the factor on all variances.

    The factor is 1 where rows are not all inducing points, where the kernel has no free variance, or where rounding
    has eaten the digits.
    """
    if not posterior.experts.exact:
        return hyper, 1.0
    z = np.abs(surprises(posterior, rng))
    if np.mean(np.isnan(z)) > 0.01:
        return hyper, 1.0
    factor = (float(np.nanquantile(z, LEVEL)) / QUANTILE) ** 2
    if not 1.0 / LARGEST <= factor <= LARGEST:
        return hyper, 1.0
    kernel = amplified(hyper.kernel, factor)
    if kernel is None:
        return hyper, 1.0
    return Hyper(kernel, factor * hyper.noise_variance, hyper.approximation), factor
