"""Studies of the Byzantine-resilient federated GP paper, sections 6.1.1 to 6.2.2, and two of our own."""

from __future__ import annotations

from streamgp.experiments.byzantine import (
    attacks,
    beta,
    breaking,
    consistency,
    functions,
    fused,
    magnitudes,
    real,
    records,
    rivals,
)
from streamgp.experiments.registry import Study

STUDIES = (
    Study(
        "consistency",
        "error against the number of data, for several fractions of liars (6.1.1, Figs 2a and 3)",
        consistency.run,
        ("6.1.1", "fig2a", "fig3"),
    ),
    Study("beta", "what it costs to cut more than there are liars (6.1.2, Fig. 2b)", beta.run, ("6.1.2", "fig2b")),
    Study("functions", "fifty functions instead of one (6.1.3, Table 2)", functions.run, ("6.1.3", "table2")),
    Study("attacks", "four attacks of the literature (6.1.4, Fig. 4)", attacks.run, ("6.1.4", "fig4")),
    Study("fused", "an agent's choice by (8) (6.1.5, Fig. 5, Table 3)", fused.run, ("6.1.5", "fig5", "table3")),
    Study("rivals", "median, average and the whole family (6.1.6, Fig. 6)", rivals.run, ("6.1.6", "fig6")),
    Study(
        "magnitudes", "attacks of magnitude 1 to 100 on real data (6.2.1, Fig. 7)", magnitudes.run, ("6.2.1", "fig7")
    ),
    Study(
        "real", "an agent's choice by (9) on real data (6.2.2, Fig. 8, Table 4)", real.run, ("6.2.2", "fig8", "table4")
    ),
    Study("records", "the paper's cut against the rule that goes by records", records.run, ("trust",)),
    Study("breaking", "every attack with as many liars as the cut can stand", breaking.run, ("all-attacks",)),
)
