"""A prior that draws the residuals' lengthscales of different clients towards one another, as far as the rows agree.

A client of fifty rows says little about how rough its residual is, and all clients together say much. Log lengthscales
are normal about a common mean, flat, with a common spread whose square is inverse gamma; mean and spread are integrated
out (the mean at its best value). Clients that are alike are drawn together, clients that are not are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, softplus, softplus_slope

#: the spread of log lengthscales that is expected, and how many pairs of observations that is worth
USUAL_SPREAD, WORTH = 0.1, 2.0


def related_prior(owns: Sequence[Block]) -> tuple[float, list[Array]]:
    """Log density, 0 where all clients agree, and its derivative by each ``eta_lengthscale`` (R, d).

    A client's latents have no names, so that the smoothest of one is compared with the smoothest of the others.
    """
    etas = np.stack([own["eta_lengthscale"] for own in owns])  # (T, R, d)
    lengths = softplus(etas)
    logs = np.log(lengths)
    order = np.argsort(logs.sum(axis=2), axis=1, kind="stable")[:, :, None]
    apart = np.take_along_axis(logs, order, axis=1)
    apart -= apart.mean(axis=0)
    floor = WORTH * USUAL_SPREAD**2
    power, squares = WORTH + 0.5 * apart.size, floor + 0.5 * float(np.sum(apart**2))
    by_log = np.empty_like(apart)
    np.put_along_axis(by_log, order, -power / squares * apart, axis=1)
    return -power * float(np.log(squares / floor)), list(by_log * softplus_slope(etas) / lengths)
