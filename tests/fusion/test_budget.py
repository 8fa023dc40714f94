"""The loss budget: whatever corrections are wanted, the squared error stays below a small share more."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgp.fusion.budget import LossBudget

ROW = np.array([0])
SHARE = 0.015


def budget(n: int = 1) -> LossBudget:
    made = LossBudget(share=SHARE)
    made.grow(n)
    return made


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["random", "against", "lulled"]))
def test_no_prefix_of_any_run_costs_more_than_the_share(seed: int, kind: str) -> None:
    """Also where every correction goes the wrong way, at once or after a time of being right."""
    rng = np.random.default_rng(seed)
    made, corrected, local = budget(), 0.0, 0.0
    for t in range(200):
        e, sd = float(np.clip(rng.standard_t(3), -4.0, 4.0)), float(np.exp(rng.normal()))
        wanted = {"random": 3.0 * rng.normal(), "against": -e, "lulled": 0.5 * e if t < 100 else -2.0 * e}[kind]
        shift = made.limit(ROW, np.array([sd]), np.array([wanted]))
        assert abs(shift[0]) <= abs(wanted)
        assert shift[0] * wanted >= 0.0
        corrected += sd**2 * (e - float(shift[0])) ** 2
        local += sd**2 * e**2
        assert corrected <= (1.0 + SHARE) * local * (1.0 + 1e-9)
        made.learn(ROW, np.array([sd]), np.array([e]), shift)


def test_what_was_saved_may_be_spent() -> None:
    """After a hundred good corrections one of any usual size passes as it is."""
    made, one = budget(), np.ones(1)
    for t in range(100):
        e = np.array([(-1.0) ** t])
        made.learn(ROW, one, e, made.limit(ROW, one, 0.8 * e))
    assert made.limit(ROW, one, np.array([2.5]))[0] == 2.5


def test_units_make_no_difference_and_none_is_too_large() -> None:
    rng = np.random.default_rng(1)
    units = np.array([1.0, 2.0**-400, 2.0**500])
    made, rows = budget(3), np.arange(3)
    for _ in range(50):
        e, sd, wanted = rng.normal(), np.exp(rng.normal()), rng.normal()
        shift = made.limit(rows, sd * units, np.full(3, wanted))
        assert shift.tolist() == [shift[0]] * 3
        made.learn(rows, sd * units, np.full(3, e), shift)
    made.learn(ROW, np.array([1e300]), np.ones(1), np.zeros(1))
    assert np.isfinite(made.limit(ROW, np.array([1e-300]), np.ones(1))).all()


def test_rows_do_not_share_their_funds() -> None:
    made, sd = budget(2), np.ones(2)
    for _ in range(50):
        made.learn(np.array([1]), sd[:1], np.ones(1), np.zeros(1))
    assert made.limit(np.arange(2), sd, np.ones(2)) == pytest.approx([0.0, np.sqrt(16.0 + 50 * SHARE) - 4.0])
