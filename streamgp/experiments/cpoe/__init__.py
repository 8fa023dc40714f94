"""Studies of the Correlated Product of Experts paper, and one of our own."""

from __future__ import annotations

from streamgp.experiments.cpoe import small_sets, synthetic
from streamgp.experiments.registry import Study

STUDIES = (
    Study(
        "predecessors",
        "what keeping the graph of experts free of fill costs and gains, by C, d and J",
        synthetic.predecessors,
    ),
    Study("grid", "KL to the full GP by C and gamma (Fig. 7, Table 6)", synthetic.grid, ("fig7", "table6")),
    Study(
        "small",
        "five small sets against the full GP (Tables 2 and 8-12)",
        small_sets.run,
        ("table2", "table8", "table9", "table10", "table11", "table12"),
    ),
)
