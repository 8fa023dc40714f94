"""AdaHedge: its regret bound on hostile losses, sleeping experts, scale and memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgp.fusion.mixing import AdaHedge, softmax
from tests.tolerances import REORDERED

ROW = np.array([0])


def run(losses: np.ndarray, awake: np.ndarray, *, memory: float = 1.0) -> tuple[np.ndarray, AdaHedge]:
    """What the mixture was charged per step, and the hedge at the end."""
    hedge = AdaHedge(losses.shape[1], memory=memory)
    hedge.grow(1)
    charged = []
    for loss, up in zip(losses, awake, strict=True):
        weight = hedge.weights(ROW, up[None])[0]
        assert weight[~up].sum() == 0.0
        assert weight.sum() == pytest.approx(1.0)
        charged.append(float(weight[up] @ loss[up]))
        hedge.update(ROW, loss[None], up[None])
    return np.array(charged), hedge


def hostile(T: int, K: int, *, rng: np.random.Generator) -> np.ndarray:
    """Losses in [0, 1] that change the best expert again and again, some of them huge."""
    losses = rng.uniform(size=(T, K)) * rng.choice([0.01, 1.0], size=(T, 1))
    leader = rng.integers(K, size=T // 40 + 1).repeat(40)[:T]
    losses[np.arange(T), leader] = 0.0
    return losses


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.sampled_from([1.0, 1e-3, 1e4]))
def test_regret_stays_within_the_bound_of_the_paper(seed: int, K: int, scale: float) -> None:
    losses = scale * hostile(400, K, rng=np.random.default_rng(seed))
    charged, hedge = run(losses, np.ones_like(losses, dtype=bool))
    regret = charged.sum() - losses.sum(axis=0).min()
    gap = float(hedge.table["gap"][0])
    assert regret <= 2.0 * gap * (1.0 + 1e-9)
    # V is at most S/4 per step of the range S: the worst case of the second-order bound.
    assert gap <= scale * (np.sqrt(400 / 4 * np.log(K)) + 2.0 / 3.0 * np.log(K) + 1.0)


def test_regret_against_a_clear_winner_does_not_grow() -> None:
    losses = np.tile([[1.0, 0.2, 1.0]], (3000, 1)) + np.random.default_rng(3).normal(0.0, 0.1, (3000, 3))
    charged, _ = run(losses, np.ones_like(losses, dtype=bool))
    regret = np.cumsum(charged - losses[:, 1])
    assert regret[-1] == pytest.approx(regret[200], abs=0.05)


def test_the_weights_do_not_know_the_unit_of_the_loss() -> None:
    losses = hostile(200, 3, rng=np.random.default_rng(5))
    awake = np.ones_like(losses, dtype=bool)
    one, many = run(losses, awake)[1], run(1024.0 * losses, awake)[1]
    np.testing.assert_allclose(one.weights(ROW, awake[:1]), many.weights(ROW, awake[:1]), rtol=1e-9)


def test_a_memory_is_the_same_rule_on_growing_losses() -> None:
    """The discounted bound follows from the scale-free rule: losses grown by 1/memory a step give the same weights."""
    losses, memory = hostile(150, 3, rng=np.random.default_rng(6)), 0.95
    awake = np.ones_like(losses, dtype=bool)
    grown = losses * memory ** -np.arange(150)[:, None]
    discounted, plain = run(losses, awake, memory=memory), run(grown, awake)
    np.testing.assert_allclose(discounted[0], plain[0] * memory ** np.arange(150), rtol=1e-7, atol=1e-12)


def test_a_sleeper_neither_gains_nor_loses() -> None:
    """Charged as the mixture is, an expert that sleeps keeps its standing; the others do not notice it."""
    rng = np.random.default_rng(7)
    losses = rng.uniform(size=(100, 3))
    awake = np.ones_like(losses, dtype=bool)
    awake[:, 2] = False
    charged, hedge = run(losses, awake)
    assert hedge.table["loss"][0, 2] == pytest.approx(charged.sum(), rel=REORDERED)
    losses[:, 2] = rng.uniform(size=100) * 1e6
    np.testing.assert_array_equal(run(losses, awake)[0], charged)


def test_a_handicap_is_made_good_first() -> None:
    hedge = AdaHedge(2, handicap=(0.0, 5.0))
    hedge.grow(1)
    up = np.ones((1, 2), dtype=bool)
    for step in range(60):
        if step < 40:
            assert hedge.weights(ROW, up)[0, 1] < 0.5
        hedge.update(ROW, np.array([[0.1, 0.0]]), up)
    for _ in range(200):
        hedge.update(ROW, np.array([[0.1, 0.0]]), up)
    assert hedge.weights(ROW, up)[0, 1] > 0.9


def test_softmax_survives_large_numbers() -> None:
    np.testing.assert_allclose(softmax(np.array([[-1e6, -1e6 - 1.0]]))[0], [0.7310585786, 0.2689414214], atol=1e-9)
