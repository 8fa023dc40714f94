"""Studies of the Byzantine-resilient federated GP paper, sections 6.1.1 to 6.2.2, and two of our own."""

from __future__ import annotations

from streamgp.experiments.byzantine import consistency
from streamgp.experiments.registry import Study

STUDIES = (
    Study(
        "consistency",
        "error against the number of data, for several fractions of liars (6.1.1, Figs 2a and 3)",
        consistency.run,
        ("6.1.1", "fig2", "fig2a", "fig3"),
    ),
)
