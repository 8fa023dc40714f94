"""The station's choice: (8), (9) by its own record, and the same whenever the truth arrives."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.gp.gaussian import Gaussian
from streamgp.roles.choosing import LEAST, Choosing


def belief(mean: float, variance: float) -> Gaussian:
    return Gaussian(np.array([mean]), np.array([variance]), np.array([0.1]))


@pytest.mark.parametrize(("rule", "used"), [("local", False), ("cloud", True), ("eq8", True), ("eq9", True)])
def test_each_rule_picks_and_says_which(rule: str, used: bool) -> None:
    mask, said = Choosing(rule).pick(belief(0.0, 1.0), belief(1.0, 0.5), time_ms=0)
    assert mask.tolist() == [used]
    assert said == ("eq8" if rule == "eq9" else rule)  # no record yet


def test_without_a_cloud_the_station_uses_its_own() -> None:
    for rule in ("local", "cloud", "eq8", "eq9"):
        assert Choosing(rule).pick(belief(0.0, 1.0), None, time_ms=0)[0].tolist() == [False]


def trained(order: str, *, cloud_error: float, seed: int = 4) -> Choosing:
    """A station whose own errors have deviation 1 and whose cloud claims half the variance it should."""
    rng, choosing = np.random.default_rng(seed), Choosing("eq9")
    for t in range(2 * LEAST):
        y, a, b = float(rng.normal()), float(rng.normal()), float(cloud_error * rng.normal())
        steps = [
            lambda t=t, y=y: choosing.learned(t, y),
            lambda t=t, y=y, a=a, b=b: choosing.concluded(t, belief(y + a, 1.0), belief(y + b, 0.5)),
        ]
        for step in steps if order == "truth first" else steps[::-1]:
            step()
    return choosing


def networked(*, network_error: float, seed: int = 4) -> Choosing:
    rng, choosing = np.random.default_rng(seed), Choosing("network")
    for t in range(60):
        y = float(rng.normal())
        usual, network = belief(y + float(rng.normal()), 1.0), belief(y + network_error * float(rng.normal()), 1.0)
        choosing.prefers_network(t - 1, t, usual=usual, network=network, scale=1.0)
        choosing.learned(t, y)
    return choosing


def test_the_network_is_taken_where_the_record_allows_and_the_paper_s_rule_elsewhere() -> None:
    local, cloud = belief(0.0, 1.0), belief(0.0, 0.5)
    asked = {"usual": cloud, "network": belief(0.3, 0.4), "scale": 1.0}
    assert networked(network_error=0.5).prefers_network(60, 61, **asked)
    assert not networked(network_error=2.0).prefers_network(60, 61, **asked)
    assert not Choosing("network").prefers_network(60, 61, **asked)  # no record yet
    assert not networked(network_error=0.5).prefers_network(60, 61, usual=cloud, network=None, scale=1.0)
    assert networked(network_error=0.5).pick(local, cloud, time_ms=60) == (True, "eq8")
    assert networked(network_error=0.5).pick(local, None, time_ms=60) == (False, "eq8")
    for rule in ("eq8", "eq9", "local", "cloud"):
        assert not Choosing(rule).prefers_network(60, 61, **asked)
    twin = Choosing("network")
    twin.restore(networked(network_error=0.5).state())
    assert twin.prefers_network(60, 61, **asked)


def test_the_record_overrules_a_cloud_that_claims_too_little_variance() -> None:
    """(9): the variance is smaller, the error was not."""
    local, cloud = belief(0.0, 1.0), belief(0.0, 0.5)
    assert trained("truth first", cloud_error=3.0).pick(local, cloud, time_ms=10_000) == (False, "eq9")
    assert trained("truth first", cloud_error=0.5).pick(local, cloud, time_ms=10_000) == (True, "eq9")


def test_the_choice_goes_by_what_was_known_then_in_whatever_order_it_came() -> None:
    local, cloud = belief(0.0, 1.0), belief(0.0, 0.5)
    one, two = (trained(order, cloud_error=3.0) for order in ("truth first", "answers first"))
    for t in range(0, 2 * LEAST + 5, 3):
        a, b = one.pick(local, cloud, time_ms=t), two.pick(local, cloud, time_ms=t)
        assert (a[0].tolist(), a[1]) == (b[0].tolist(), b[1])
    assert one.pick(local, cloud, time_ms=LEAST - 2)[1] == "eq8"
    twin = Choosing("eq9")
    twin.restore(one.state())
    assert twin.pick(local, cloud, time_ms=50)[1] == "eq9"
    assert twin.state() == one.state()


def test_a_cloud_that_gave_no_answer_worth_the_name_leaves_the_station_its_rule() -> None:
    choosing = Choosing("eq9")
    for t in range(2 * LEAST):
        choosing.learned(t, 0.5)
        choosing.concluded(t, belief(0.4, 1.0), belief(0.5, 0.0))
    mask, said = choosing.pick(belief(0.0, 1.0), belief(0.0, 0.5), time_ms=2 * LEAST)
    assert (mask.tolist(), said) == ([True], "eq8")
