"""Differentially private summaries: clip, add Gaussian noise, and account for what was spent (pFedHGP, section 6).

Neighbouring federations differ in the presence of one client with all its rows, whose clipped summary has norm at
most ``clip``. Each client adds its noise before anything leaves it, so the guarantee holds against the server too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamgp.errors import SettingsError
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.shared_step import COVARIANCE

#: no summary is longer (``federation.LARGEST``); below the least noise nothing is private (epsilon of millions a
#: round), beyond the most nothing is learned, and neither could be accounted for
LARGEST, LEAST_NOISE, MOST_NOISE = 1e100, 1e-3, 1e6


@dataclass(frozen=True, slots=True)
class Privacy:
    """``clip`` bounds the Euclidean norm of a summary; the noise's standard deviation is ``noise`` times it."""

    clip: float
    noise: float
    delta: float = 1e-5

    def __post_init__(self) -> None:
        if not (0 < self.clip <= LARGEST and LEAST_NOISE <= self.noise <= MOST_NOISE and 0 < self.delta < 1):
            raise SettingsError(
                f"privacy needs clip in (0, {LARGEST:g}], noise in [{LEAST_NOISE:g}, {MOST_NOISE:g}] and 0 < delta < 1"
            )


def privatised(summary: Mapping[str, Array], privacy: Privacy, rng: np.random.Generator) -> dict[str, Array]:
    """The summary scaled down to norm ``clip`` where it is longer, with noise on every number.

    The symmetric covariance part counts, and gets noise, as its lower triangle with the off-diagonal scaled by
    sqrt(2), which has the same norm; an empty summary stays empty.
    """
    if not summary:
        return {}
    norm = float(np.sqrt(sum(np.sum(np.square(a)) for a in summary.values())))
    factor = min(1.0, privacy.clip / norm) if norm > 0 else 1.0
    scale = privacy.clip * privacy.noise
    out = {}
    for name in sorted(summary):
        noise = scale * rng.standard_normal(summary[name].shape)
        if name == COVARIANCE:
            lower = np.tril(noise, -1) / np.sqrt(2.0)
            noise = lower + lower.T + np.diag(np.diag(noise))
        out[name] = summary[name] * factor + noise
    return out


def spent(privacy: Privacy, rounds: int) -> float:
    """Epsilon at ``privacy.delta`` after so many rounds, by Renyi accounting of the Gaussian mechanism.

    Raises
    ------
    SettingsError
        If the accountant (extra ``privacy``: dp-accounting) is not installed.
    """
    if rounds == 0:
        return 0.0
    try:
        from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
        from dp_accounting.rdp import RdpAccountant
    except ImportError as error:
        raise SettingsError("private training needs an accountant: pip install 'streamgp[privacy]'") from error
    accountant = RdpAccountant()
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(privacy.noise), rounds))
    return float(accountant.get_epsilon(privacy.delta))
