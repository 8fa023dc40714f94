"""The station's choice between its own answer and the cloud's: (8), (9), or the network's where its record allows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from streamgp.fusion.choose import ChoiceConstants, choose
from streamgp.fusion.fused import Mask
from streamgp.gp.gaussian import Gaussian
from streamgp.roles.plain import restoring
from streamgp.roles.rivals import Rivals

VERSION = 2
#: past pairs of answers that the constants of (9) are estimated from, and how few are too few
RECORD, LEAST = 256, 30


@final
class Choosing:
    """Picks per point, and says by which rule.

    Parameters
    ----------
    rule
        ``eq8``: the cloud where its latent variance is the smaller. ``eq9``: where its squared error is the smaller
        by Theorem 2, with constants estimated from this station's own past (:meth:`ChoiceConstants.from_record`);
        until there are 30 pairs it falls back on (8), and says so. ``local`` and ``cloud``: always that one.
        ``network``: the network's forecast once, on this station's own record, its squared errors have not been larger
        than those of what (8) picks; (8) otherwise, and it says so.

    Examples
    --------
    >>> ones = np.ones(1)
    >>> local, cloud = Gaussian(ones, 0.5 * ones, ones), Gaussian(ones, 0.4 * ones, ones)
    >>> Choosing("eq9").pick(local, cloud, time_ms=0)
    (array([ True]), 'eq8')
    """

    def __init__(self, rule: str) -> None:
        self._rule = rule
        self._rivals = Rivals()
        self._truths: OrderedDict[int, float] = OrderedDict()
        self._pairs: OrderedDict[int, tuple[float, float, float, float]] = OrderedDict()

    def learned(self, time_ms: int, y: float) -> None:
        """A reading came."""
        if self._rule == "network":
            self._rivals.learned(time_ms, y)
            return
        self._truths[time_ms] = y
        if len(self._truths) > 2 * RECORD:
            self._truths.popitem(last=False)

    def pick(self, local: Gaussian, cloud: Gaussian | None, *, time_ms: int) -> tuple[Mask, str]:
        """Where the cloud's answer to a question of event time ``time_ms`` is used, and the rule that says so."""
        m = len(local.mean)
        if cloud is None or self._rule == "local":
            return np.zeros(m, dtype=np.bool_), "eq8" if self._rule == "network" else self._rule
        if self._rule == "cloud":
            return np.ones(m, dtype=np.bool_), self._rule
        constants = self._constants(time_ms) if self._rule == "eq9" else None
        if constants is None:
            return choose(local, cloud, "eq8"), "eq8"
        return choose(local, cloud, "eq9", constants=constants), "eq9"

    def prefers_network(
        self, time_ms: int, target_ms: int, *, usual: Gaussian, network: Gaussian | None, scale: float
    ) -> bool:
        """Whether the network's forecast replaces the ``usual`` pick; remembers both until the truth comes.

        Goes by what was known at ``time_ms``; errors are counted in units of ``scale``.
        """
        if self._rule != "network" or network is None or len(usual.mean) != 1:
            return False
        better = self._rivals.challenger_is_better(time_ms, target_ms)
        pair = (float(usual.mean[0]), float(network.mean[0]))
        self._rivals.noted(time_ms, target_ms, usual=pair[0], challenger=pair[1], scale=scale)
        return better

    def concluded(self, target_ms: int, local: Gaussian, cloud: Gaussian | None) -> None:
        """Remember both answers about a target time until its truth comes."""
        if self._rule == "network" or cloud is None or len(local.mean) != 1:
            return
        pair = (local.mean[0], local.variance[0], cloud.mean[0], cloud.variance[0])
        self._pairs[target_ms] = (float(pair[0]), float(pair[1]), float(pair[2]), float(pair[3]))
        if len(self._pairs) > 2 * RECORD:
            self._pairs.popitem(last=False)

    def _constants(self, time_ms: int) -> ChoiceConstants | None:
        """From the pairs whose truth was known at that time; None while they are too few."""
        known = [t for t in self._pairs if t <= time_ms and t in self._truths][-RECORD:]
        if len(known) < LEAST:
            return None
        rows = np.array([self._pairs[t] for t in known])
        truth = np.array([self._truths[t] for t in known])
        try:
            return ChoiceConstants.from_record(
                local_error=rows[:, 0] - truth,
                local_variance=rows[:, 1],
                cloud_error=rows[:, 2] - truth,
                cloud_variance=rows[:, 3],
            )
        except ValueError:  # a cloud whose every answer is such as none could give has earned no choice
            return None

    def state(self) -> dict[str, Any]:
        """Plain values."""
        pairs = [[t, *pair] for t, pair in self._pairs.items()]
        truths = [[t, y] for t, y in self._truths.items()]
        return {"v": VERSION, "truths": truths, "pairs": pairs, "rivals": self._rivals.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        with restoring("choosing", state, VERSION):
            self._truths = OrderedDict((t, y) for t, y in state["truths"])
            self._pairs = OrderedDict((t, (a, b, c, d)) for t, a, b, c, d in state["pairs"])
            self._rivals.restore(state["rivals"])
