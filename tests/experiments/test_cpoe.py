"""Studies of the correlated experts: the right scores, and KL to the full GP that falls with C."""

from __future__ import annotations

import numpy as np

from streamgp.experiments.cpoe.falling import kl_by_degree, kl_falls
from streamgp.experiments.cpoe.methods import committees, full_gp, run_cpoe, sparse_gp
from streamgp.experiments.cpoe.scores import kl_to, scores
from streamgp.experiments.cpoe.synthetic import draw
from streamgp.experiments.registry import studies
from streamgp.experiments.results import Row

LINES = {"clique": [(3, 0.1), (2, 0.3)], "nearest": [(10, 0.2), (2, 0.1)]}


def test_kl_falls_with_correlation_and_all_methods_answer():
    problem = draw(256, 2, J=8, length=0.2, rng=np.random.default_rng(0), seed=0)
    full = full_gp(problem)
    kl = [kl_to(full, run_cpoe(problem, "CPoE", correlation=C)) for C in (1, 2, 4, 8)]
    assert np.all(np.diff(kl) < 0)
    assert abs(kl[-1]) < 1e-6
    rivals = [sparse_gp(problem, 64), *committees(problem)]
    assert [b.method for b in rivals] == ["SGP(64)", "minVar", "GPoE", "BCM", "RBCM", "GRBCM"]
    for rival in rivals:
        found = scores(full, rival, problem.truth)
        assert found["kl"] > kl[2]
        assert found["rmse"] >= 0.95 * scores(full, full, problem.truth)["rmse"]


def test_the_registry_knows_the_studies():
    assert {s.name for s in studies("cpoe")} == {
        *("predecessors", "grid", "small", "large", "elecdemand"),
        *("line", "accuracy", "deterministic", "stochastic"),
    }


def test_whether_kl_falls_is_told_by_what_else_a_row_says():
    rows = [Row("s", f"d=2 C={C}", rule, "kl", kl) for rule, line in LINES.items() for C, kl in line]
    assert kl_by_degree(rows) == {f"d=2 {rule}": sorted(line) for rule, line in LINES.items()}
    assert kl_falls(rows) == "KL to the full GP does not fall with C everywhere: d=2 nearest, C = 2 to 10, 0.1 to 0.2."
    assert kl_falls(rows[:2]) == "KL to the full GP falls with every step of C (1 of them)."
    assert "(0 of them)" in kl_falls([Row("s", "n=9", "fullGP", "kl", 0.0), Row("s", "n=9", "CPoE(2)", "err", 1.0)])
