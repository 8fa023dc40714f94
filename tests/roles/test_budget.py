"""How many steps a drain takes."""

from __future__ import annotations

from streamgp.roles.budget import FEWEST, FIRST, MOST, Budget


def drains(budget: Budget, cost_s: float, *, now_s: float, rounds: int) -> tuple[float, list[int]]:
    """Rounds of a step that costs so much; the time after them and the steps of each."""
    steps = []
    for _ in range(rounds):
        steps.append(budget.batches(now_s))
        budget.spent(now_s)
        now_s += cost_s * steps[-1]
    return now_s, steps


def test_cheap_steps_are_many_and_dear_ones_few_from_the_second_round_on() -> None:
    budget = Budget()
    now_s, steps = drains(budget, 1e-5, now_s=0.0, rounds=10)
    assert steps[0] == FIRST
    assert steps[-1] == MOST
    now_s, steps = drains(budget, 2e-3, now_s=now_s, rounds=3)
    assert steps[0] == MOST  # what is dear now was cheap before: one round of a second
    assert 0.05 <= 2e-3 * steps[1] <= 0.2
    _, steps = drains(budget, 1.0, now_s=now_s, rounds=6)
    assert steps[-1] == FEWEST


def test_a_round_that_did_not_use_all_its_steps_says_nothing() -> None:
    budget = Budget()
    assert [budget.batches(t) for t in (0.0, 5.0, 5.001)] == [FIRST] * 3
