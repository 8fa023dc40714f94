"""A station's record of two forecasts: the same whatever comes first, by lead, and never before it is due."""

from __future__ import annotations

import random

from streamgp.roles.rivals import LEAST, Rivals


def picks(order: str, *, seed: int = 0, flip: int = 200) -> list[bool]:
    """The challenger is better up to ``flip`` and worse from then on."""
    rng, rivals = random.Random(seed), Rivals()
    truth = {t: rng.gauss(0.0, 1.0) for t in range(402)}
    if order == "readings first":
        for t, y in truth.items():
            rivals.learned(t, y)
    told = []
    for t in range(400):
        if order == "in turn":
            rivals.learned(t, truth[t])
        told.append(rivals.challenger_is_better(t, t + 1))
        y, (near, far) = truth[t + 1], (rng.gauss(0, 0.5), rng.gauss(0, 1.5))
        usual, challenger = (far, near) if t < flip else (near, far)
        rivals.noted(t, t + 1, usual=y + usual, challenger=y + challenger, scale=1.0)
    return told


def test_the_choice_does_not_depend_on_when_readings_came() -> None:
    told = picks("in turn")
    assert told == picks("readings first")
    assert told[:LEAST] == [False] * LEAST
    assert all(told[LEAST + 1 : 200])
    assert not any(told[380:])  # what was good long ago does not excuse what is bad now


def test_leads_are_compared_apart_and_gaps_are_no_comparison() -> None:
    rivals = Rivals()
    for t in range(100):
        if t % 2:
            rivals.learned(t, 0.0)
        rivals.noted(t, t + 1, usual=1.0, challenger=0.5, scale=1.0)
        rivals.noted(t, t + 3, usual=0.5, challenger=1.0, scale=1.0)
    assert rivals.challenger_is_better(99, 100)
    assert not rivals.challenger_is_better(99, 102)
    twin = Rivals()
    twin.restore(rivals.state())
    assert twin.state() == rivals.state()
    assert twin.challenger_is_better(99, 100)


def test_an_absurd_forecast_does_not_break_the_record() -> None:
    rivals = Rivals()
    for t in range(2000):
        rivals.learned(t, 0.0)
        rivals.noted(t, t + 1, usual=1.0, challenger=1e300 if t == 500 else 0.5, scale=1.0)
        rivals.challenger_is_better(t, t + 1)
    assert rivals.challenger_is_better(1999, 2000)
