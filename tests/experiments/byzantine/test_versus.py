"""What the studies of attacks share, and where the error of the cut comes from."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.experiments.byzantine.breaking import LIARS, NOBODY, take_apart
from streamgp.experiments.byzantine.liars import draw_liars, lie
from streamgp.experiments.byzantine.network import Prior
from streamgp.experiments.byzantine.toy import toy_answers
from streamgp.experiments.byzantine.trials import Trials, mse
from streamgp.experiments.byzantine.versus import METHODS, NEIGHBORS, judge, panels
from streamgp.fusion import median_of_experts, product_of_experts, trimmed_poe

TOY = Prior(18.0, np.array([0.18]), 0.01)
ANSWERS = toy_answers(400, TOY, n_neighbors=1, rng=np.random.default_rng(2))
WHO = draw_liars(40, LIARS, np.random.default_rng(3))


def test_every_study_judges_the_same_three_products_and_what_stands_beside_them() -> None:
    said = lie(ANSWERS.means, ANSWERS.variances, WHO, "same-value", query_id="q", seed=0)
    trials = Trials("toy")
    judge(trials, "s", ANSWERS, said, LIARS, beside={"median": median_of_experts})
    assert [row.method for row in trials.rows()] == ["attack-free", "trimmed", "median", "attacked"]
    expected = (
        product_of_experts(ANSWERS.means, ANSWERS.variances),
        trimmed_poe(*said, LIARS),
        product_of_experts(*said),
    )
    for method, fused in zip(METHODS, expected, strict=True):
        assert trials.mean("s", method) == mse(fused.mean, ANSWERS.truth)


def test_a_panel_a_title_and_a_curve_a_method_and_k() -> None:
    trials = Trials("toy")
    for at in (1, 10):
        for k in NEIGHBORS:
            for value, method in enumerate(METHODS):
                trials.add(f"a {at} {k}", method, float(at + k + value))
    ((title, xlabel, x, curves),) = panels(
        trials, (1, 10), {"a": "Fig. A"}, lambda name, at, k: f"{name} {at} {k}", xlabel="size"
    )
    assert (title, xlabel, x) == ("Fig. A", "size", (1, 10))
    assert curves["trimmed, k=1"] == [3.0, 12.0]
    assert len(curves) == len(METHODS) * len(NEIGHBORS)


@pytest.mark.parametrize(("kind", "left"), [("same-value", 0.0), ("collusion", 9.0)])
def test_the_cuts_error_is_taken_apart(kind: str, left: float) -> None:
    """Far lies are all cut, and all of the error is the cut's; colluding ones stay and cause most of it."""
    said = lie(ANSWERS.means, ANSWERS.variances, WHO, kind, query_id="q", seed=0, noise_variance=0.01, n_trim=LIARS)
    trials = Trials("toy")
    take_apart(trials, kind, ANSWERS.truth, said, WHO)
    take_apart(trials, NOBODY, ANSWERS.truth, (ANSWERS.means, ANSWERS.variances), WHO[:0])
    assert trials.mean(kind, "trimmed", metric="lies left") == pytest.approx(left, abs=0.1)
    assert trials.mean(NOBODY, "trimmed", metric="lies left") == 0.0
    honest = trials.mean(kind, "trimmed", metric="honest left")
    assert 0.0 < honest < trials.mean(NOBODY, "trimmed", metric="honest left") <= 40 - 2 * LIARS
    without, whole = (
        trials.mean(kind, "trimmed", metric="mse without lies"),
        mse(trimmed_poe(*said, LIARS).mean, ANSWERS.truth),
    )
    if left:
        assert without < whole
    else:
        assert without == pytest.approx(whole)
