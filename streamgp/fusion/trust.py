"""The cloud's own records of its agents: who was cut where, and whose claims the truth bore out."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import Self

from streamgp.errors import CheckpointError, NoQuorumError, SettingsError
from streamgp.fusion.calibrated import Calibration
from streamgp.fusion.fused import as_answers, numbers, usable
from streamgp.fusion.pairs import PairRecords
from streamgp.fusion.suspects import outlying
from streamgp.fusion.tally import Pending, Tally, scores
from streamgp.fusion.trimmed import cut_sides
from streamgp.fusion.trust_report import AgentTrust

_VERSION = 2
_NOBODY = ""  # the asker of a query from outside


@final
class TrustLedger:
    """Records of every agent that the cloud has heard of.

    Answers are noted when they are fused and held against the truth when it is known. The record that corrects an
    agent's claims is kept per asking station: a neighbour's forecast may be borne out, a distant one's not.
    What the report says of an agent, and whether it is barred, goes by the median over the askers, so that one of
    them who lies about the truth harms its own forecasts and no one else's name.

    Parameters
    ----------
    half_life
        Number of an agent's answers after which a record counts half.
    limit
        How many times the typical mean squared error, in units of the claimed variance, bars an agent.
    max_pending
        Queries that may wait for their truth; beyond that the oldest are forgotten.

    Examples
    --------
    >>> ledger = TrustLedger()
    >>> for day in range(40):
    ...     ledger.note(str(day), ["A", "B", "C"], [[0.0], [0.1], [9.0]], [[1.0]] * 3, [[0.0]] * 3, n_trim=0)
    ...     _ = ledger.settle(str(day), [0.0])
    >>> [(a.agent, a.standing) for a in ledger.report()]
    [('A', 'underconfident'), ('B', 'underconfident'), ('C', 'barred')]
    """

    def __init__(self, *, half_life: float = 100.0, limit: float = 9.0, max_pending: int = 10_000) -> None:
        for name, value, kinds in (
            ("half_life", half_life, (int, float)),
            ("limit", limit, (int, float)),
            ("max_pending", max_pending, (int,)),
        ):
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise SettingsError(f"{name} must be a number, max_pending a whole one, got {value!r}")
        if not (half_life > 0 and limit > 1 and math.isfinite(half_life) and math.isfinite(limit) and max_pending >= 0):
            raise SettingsError("need half_life > 0, limit > 1, both finite, and max_pending >= 0")
        self.half_life, self.limit, self.max_pending = half_life, limit, max_pending
        self._keep = 0.5 ** (1.0 / half_life)
        self._tallies: dict[str, Tally] = {}
        self._pairs = PairRecords(self._keep)
        self._pending: OrderedDict[str, Pending] = OrderedDict()

    def note(
        self,
        query_id: str,
        agents: Sequence[str],
        means: ArrayLike,
        variances: ArrayLike,
        noise_variances: ArrayLike,
        *,
        n_trim: int,
        asker: str | None = None,
        missing: Sequence[str] = (),
        refused: Mapping[str, str] | None = None,
    ) -> None:
        """Write down the answers to one query.

        Parameters
        ----------
        query_id
            The query; a second note of the same one replaces what waits for the truth.
        agents
            Names, in the order of the rows.
        means, variances, noise_variances : (n_agents, m)
            Their answers, usable or not.
        n_trim
            The cut of rule (6) that is reported, whether or not it was the rule in use.
        asker
            The station that asked; None for a query from outside.
        missing
            Agents that were expected to answer and did not.
        refused
            Agents whose answer could not even be read, and why.
        """
        if not agents:
            self._note_absent(missing, refused)
            return
        M, V = as_answers(means, variances)
        noise = numbers(noise_variances, "noise_variances")
        if len(agents) != M.shape[0] or noise.shape not in ((), M.shape):
            raise ValueError(f"{len(agents)} agents, answers {M.shape}, noise {noise.shape}")
        if len(set(agents)) < len(agents):
            raise ValueError(f"one answer an agent, got {sorted(agents)}")
        self._note_absent(missing, refused)
        total = V + noise
        found = usable(M, V)
        for name, reason in zip(agents, found.reasons, strict=True):
            tally = self._tally(name)
            tally.answered += 1
            if reason:
                tally.refuse(reason)
        self._note_cuts(agents, M, V, n_trim)
        self._pending.pop(query_id, None)
        good = found.mask & np.isfinite(total) & (total > 0)
        self._pending[query_id] = Pending(tuple(agents), asker or _NOBODY, np.where(good, M, np.nan), total)
        while len(self._pending) > self.max_pending:
            self._pending.popitem(last=False)

    def settle(self, query_id: str, y: ArrayLike) -> bool:
        """Hold the answers to a query against the truth.

        Parameters
        ----------
        query_id
            The query.
        y : (m,)
            Observations at its points, in the units of the answers; NaN where there is none.

        Returns
        -------
        bool
            False if no answers wait for this truth.
        """
        pending = self._pending.get(query_id)
        if pending is None:
            return False
        truth = numbers(y, "y")
        if truth.shape != (pending.mean.shape[1],):
            raise ValueError(f"y must be of shape ({pending.mean.shape[1]},), got {truth.shape}")
        del self._pending[query_id]
        said = scores(pending.z2(truth), pending.total)
        for name, z2 in zip(pending.agents, said[:, 0].tolist(), strict=True):
            if math.isfinite(z2):
                self._tally(name).score(self._keep)
        self._pairs.learn(pending.asker, pending.agents, said)
        return True

    def calibration(self, agents: Sequence[str], *, asker: str | None = None) -> Calibration:
        """What the records say of these agents, for :func:`streamgp.fusion.calibrated.calibrated_poe`."""
        return self._pairs.calibration(agents, asker or _NOBODY, self.limit)

    def report(self) -> tuple[AgentTrust, ...]:
        """The record of every agent, by name."""
        names = sorted(self._tallies)
        overall, barred = self._pairs.overall(names, self.limit)
        return tuple(
            self._tallies[name].report(name, said=row, factor=float(factor), barred=bool(bar))
            for name, row, factor, bar in zip(names, self._pairs.said(names), overall, barred, strict=True)
        )

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return {
            "version": _VERSION,
            "half_life": self.half_life,
            "limit": self.limit,
            "max_pending": self.max_pending,
            "tallies": {name: tally.state() for name, tally in self._tallies.items()},
            "pairs": self._pairs.state(),
            "pending": {query: pending.state() for query, pending in self._pending.items()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The ledger that ``state`` describes.

        Raises
        ------
        CheckpointError
            If the state is of another version, or damaged.
        """
        found = state.get("version") if isinstance(state, Mapping) else None
        if found != _VERSION:
            raise CheckpointError(f"trust ledger of version {found!r}, expected {_VERSION}")
        try:
            ledger = cls(half_life=state["half_life"], limit=state["limit"], max_pending=int(state["max_pending"]))
            ledger._tallies = {name: Tally.from_state(tally) for name, tally in state["tallies"].items()}
            ledger._pairs = PairRecords.from_state(ledger._keep, state["pairs"])
            ledger._pending = OrderedDict((q, Pending.from_state(p)) for q, p in state["pending"].items())
        except (KeyError, TypeError, ValueError, AttributeError, SettingsError) as error:
            raise CheckpointError(f"damaged trust ledger: {error!r}") from error
        return ledger

    def _tally(self, name: str) -> Tally:
        tally = self._tallies.get(name)
        if tally is None:
            tally = self._tallies[name] = Tally()
        return tally

    def _note_absent(self, missing: Sequence[str], refused: Mapping[str, str] | None) -> None:
        for name in missing:
            self._tally(name).missing += 1
        for name, reason in (refused or {}).items():
            self._tally(name).refuse(reason)

    def _note_cuts(self, agents: Sequence[str], M: np.ndarray[Any, Any], V: np.ndarray[Any, Any], n_trim: int) -> None:
        """Shares of points by side of the cut; nothing where there is no quorum to speak of cuts."""
        if not M.shape[1]:
            return
        try:
            cuts, beyond = cut_sides(M, V, n_trim), outlying(M, V)
        except NoQuorumError:
            return
        sides = {
            "trimmed": cuts.usable & ~cuts.kept,
            "mean_low": cuts.mean_low,
            "mean_high": cuts.mean_high,
            "variance_low": cuts.variance_low,
            "variance_high": cuts.variance_high,
            "outlying": beyond,
        }
        shares = np.column_stack([mask.mean(axis=1) for mask in sides.values()]).tolist()
        for name, row in zip(agents, shares, strict=True):
            self._tally(name).cut(dict(zip(sides, row, strict=True)), self._keep)
