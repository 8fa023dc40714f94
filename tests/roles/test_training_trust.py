"""Who is not believed for a while, and answers that come again."""

from __future__ import annotations

import numpy as np

from streamgp.roles.training_trust import REMEMBERED, Distrust
from streamgp.wire.checkpoint import pack, unpack


def test_a_liar_now_and_then_is_out_for_longer_and_longer() -> None:
    """It lies every third round: it is believed less and less."""
    distrust, believed = Distrust(3), []
    for round_ in range(30):
        out = "liar" in distrust.now(round_)
        if round_ % 3 == 2:
            distrust.note(round_, {"liar": "a lie"})
        elif not out:
            believed.append(round_)
    assert believed == [0, 1, 3, 4, 9, 10, 18, 19]


def test_an_honest_client_that_was_conspicuous_once_is_back_at_once() -> None:
    distrust = Distrust(2)
    distrust.note(5, {"a": "large"})
    assert not distrust.now(6)
    distrust.note(9, {"a": "large"})
    assert [bool(distrust.now(round_)) for round_ in (10, 11, 12)] == [True, True, False]


def test_the_same_answer_in_another_round_is_a_replay_and_in_its_own_round_none() -> None:
    distrust = Distrust(3)
    one, two = {"mean": np.arange(3.0)}, {"mean": np.arange(3.0) + 1e-12}
    assert not distrust.repeats("a", one, 0)
    assert not distrust.repeats("a", one, 0)
    assert not distrust.repeats("b", one, 1)
    assert not distrust.repeats("a", two, 1)
    assert distrust.repeats("a", one, 2)
    assert not distrust.repeats("a", {}, 2)
    assert not distrust.repeats("a", {}, 3)
    twin = Distrust(3)
    twin.restore(unpack(pack(distrust.state())))
    assert twin.repeats("a", two, 5)
    for round_ in range(3, 2 * REMEMBERED):  # bounded: what is long ago is forgotten
        distrust.repeats("a", {"mean": np.full(3, float(round_ * 7))}, round_)
    assert len(distrust.state()["sent"]["a"]) == REMEMBERED
