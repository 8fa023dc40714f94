"""What the cloud tells about an agent: how often it was cut and where, and whether its claims were borne out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from streamgp.errors import SettingsError

Standing: TypeAlias = Literal["new", "sound", "overconfident", "underconfident", "barred"]


@final
@dataclass(frozen=True, slots=True)
class AgentTrust:
    """The record of one agent. Shares and averages forget with the ledger's half-life; counts do not.

    Parameters
    ----------
    agent
        Its name.
    answered, missing
        Queries that it answered, and that it was expected to answer and did not.
    refused
        Answers that could not be used, by reason.
    trimmed
        Share of points where rule (6) cuts it; being cut is no proof of anything.
    mean_low, mean_high, variance_low, variance_high
        The same by side.
    outlying
        Share of points where its mean lay beyond what honest agents are expected to say.
    scored
        Effective number of answers held against the truth; 0 if none was.
    z2
        Mean squared error in units of the claimed variance: 1 for an honest claim, above for too bold a one. This and
        the next two are medians over the stations that asked: one that lies about its truth has no weight.
    coverage
        Share of truths inside the claimed 90% band.
    nlpd
        Mean negative log density of the truth.
    factor
        Number that a claimed variance is multiplied with to be borne out.
    standing
        ``new`` (too few scores), ``sound``, ``overconfident``, ``underconfident`` or ``barred``.

    Examples
    --------
    >>> AgentTrust("ROS", 300, 0, {}, trimmed=1.0, variance_low=1.0, scored=90.0, z2=1.1, standing="sound").proof
    False
    """

    agent: str
    answered: int = 0
    missing: int = 0
    refused: dict[str, int] | None = None
    trimmed: float = 0.0
    mean_low: float = 0.0
    mean_high: float = 0.0
    variance_low: float = 0.0
    variance_high: float = 0.0
    outlying: float = 0.0
    scored: float = 0.0
    z2: float = 1.0
    coverage: float = 0.9
    nlpd: float = 0.0
    factor: float = 1.0
    standing: Standing = "new"

    @property
    def proof(self) -> bool:
        """Whether the record speaks against the agent: barred, or most of its answers outlying or unusable."""
        refusals = sum((self.refused or {}).values())
        return self.standing == "barred" or self.outlying > 0.5 or refusals > 0.5 * max(self.answered, 1)


def follow_beta(report: Sequence[AgentTrust], *, low: float, high: float) -> float:
    """The fraction to trim that the report asks for: that of the agents with proof against them, within bounds.

    Raises
    ------
    SettingsError
        If not 0 <= low <= high < 1/4.

    Examples
    --------
    >>> agents = [AgentTrust(name) for name in "abcdefghi"] + [AgentTrust("z", outlying=0.9)]
    >>> follow_beta(agents, low=0.05, high=0.2)
    0.1
    """
    if not 0.0 <= low <= high < 0.25:
        raise SettingsError(f"need 0 <= low <= high < 1/4, got {low} and {high}")
    share = sum(a.proof for a in report) / len(report) if report else 0.0
    return min(max(share, low), high)
