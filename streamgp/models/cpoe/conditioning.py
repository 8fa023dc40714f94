"""Whether the prior covariances of the cliques can be worked with as they are.

A smooth kernel on many near inputs gives matrices whose small eigenvalues drown in rounding, and a separator's belief
is then a difference of huge numbers. If any clique that is looked at is so, every inducing value of the model counts as
seen through independent noise of ``JITTER`` times its prior variance: the same in all cliques, so that they agree on
what they share, and with its own part in the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamgp.gp.linalg import safe_cholesky
from streamgp.models.cpoe.experts_data import Experts, Model
from streamgp.models.cpoe.graph import Clique

#: relative to the prior variance
JITTER = 1e-8
#: the least pivot of a factor, relative to its mean diagonal, whose inverse still means something
LEAST_PIVOT = 1e-10
#: cliques looked at, at most; larger ones cost more and one in eight of them speaks for the rest
LOOKS = 6
LARGE = 600


def is_sound(model: Model, experts: Experts, clique: Clique) -> bool:
    """Whether the clique's prior covariance has no pivot that is rounding alone."""
    K = model.prior(experts.inducing(clique))
    if len(K) == 0:
        return True
    factor = safe_cholesky(K)
    least = float(np.min(np.diagonal(factor.L))) ** 2
    return factor.jitter == 0.0 and least >= LEAST_PIVOT * float(np.mean(np.diagonal(K)))


def steadied(model: Model, experts: Experts, cliques: Sequence[Clique]) -> Model:
    """The model with jitter where a clique needs it; as it is where nothing is shared between cliques."""
    if model.jitter > 0.0 or not any(c.separator for c in cliques):
        return model
    size = max(sum(len(experts.A[e]) for e in c.members) for c in cliques)
    looks = LOOKS if size <= LARGE else int(np.clip(len(cliques) // 8, 1, LOOKS))
    some = np.unique(np.linspace(len(cliques) - 1, 0, min(looks, len(cliques))).astype(int))
    if all(is_sound(model, experts, cliques[int(c)]) for c in some):
        return model
    return with_jitter(model)


def with_jitter(model: Model) -> Model:
    """The model with every inducing value seen through a little noise."""
    return replace(model, jitter=JITTER)
