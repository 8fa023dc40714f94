"""Studies of the Correlated Product of Experts paper, and one of our own."""

from __future__ import annotations

from streamgp.experiments.cpoe import convergence, elecdemand, larger_sets, small_sets, synthetic, tradeoff
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
    Study(
        "large",
        "four larger sets, stochastic hyperparameters (Tables 7 and 13-17)",
        larger_sets.run,
        ("table7", "table13", "table14", "table15", "table16", "table17"),
    ),
    Study("elecdemand", "a year of demand, kernel of four parts with priors (Table 3b)", elecdemand.run, ("table3b",)),
    Study("line", "the methods on a line (Fig. 2)", tradeoff.line, ("fig2",)),
    Study("accuracy", "accuracy against time at fixed hyperparameters (Fig. 9)", tradeoff.accuracy, ("fig9",)),
    Study("deterministic", "convergence of hyperparameters by C (Fig. 11)", convergence.deterministic, ("fig11",)),
    Study("stochastic", "stochastic against deterministic optimisation (Fig. 12)", convergence.stochastic, ("fig12",)),
)
