"""Every kind of attack: what it sends, that it depends on the query alone, and that settings are checked."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.errors import SettingsError
from streamgp.fusion import KINDS, Answer, make_attack, trimmed_poe, usable

M = 7
MEAN, VARIANCE, NOISE = np.linspace(-1.0, 2.0, M), np.linspace(0.1, 0.4, M), np.full(M, 0.05)


def others(seed: int = 0, k: int = 12) -> list[Answer]:
    rng = np.random.default_rng(seed)
    return [Answer("q", MEAN + rng.normal(size=M), rng.gamma(2.0, size=M) + 0.1, NOISE) for _ in range(k)]


def strike(kind: str, query: str = "q", seed: int = 1, seen: list[Answer] | None = None, **settings):
    attack = make_attack(kind, seed=seed, agent="BIR", **settings)
    return attack.strike(query, MEAN, VARIANCE, NOISE, learned=1000, others=others() if seen is None else seen)


def same(a: list[Answer], b: list[Answer]) -> bool:
    return len(a) == len(b) and all(
        x.query_id == y.query_id
        and np.array_equal(x.mean, y.mean, equal_nan=True)
        and np.array_equal(x.variance, y.variance, equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )


def test_the_kinds_are_those_of_the_command_line() -> None:
    assert KINDS[:5] == ("same-value", "gaussian", "alie", "mimic", "bit-flip")
    assert KINDS[5:9] == ("tiny-variance", "huge-variance", "sleeper", "collusion")
    assert KINDS[9:] == ("per-query", "silence", "flood", "nan")


@pytest.mark.parametrize("kind", KINDS)
def test_a_lie_is_the_querys_matter_and_not_the_calls(kind: str) -> None:
    attack = make_attack(kind, seed=3, agent="ROS")
    first = attack.strike("q-1", MEAN, VARIANCE, NOISE, learned=1000, others=others())
    attack.strike("q-2", MEAN, VARIANCE, NOISE, learned=1000, others=others())
    again = attack.strike("q-1", MEAN, VARIANCE, NOISE, learned=1000, others=others()[::-1])
    twin = make_attack(kind, seed=3, agent="ROS").strike("q-1", MEAN, VARIANCE, NOISE, learned=1000, others=others())
    assert same(first, again)
    assert same(first, twin)


@pytest.mark.parametrize("kind", ["gaussian", "per-query", "flood", "nan"])
def test_dice_differ_by_query_seed_and_agent(kind: str) -> None:
    assert not same(strike(kind), [a.but(query_id="q") for a in strike(kind, query="p")])
    assert not same(strike(kind), strike(kind, seed=2))
    other = make_attack(kind, seed=1, agent="KIL").strike("q", MEAN, VARIANCE, NOISE)
    assert not same(strike(kind), other)


@pytest.mark.parametrize("kind", KINDS)
def test_the_honest_answer_is_not_changed(kind: str) -> None:
    mean, variance, noise = MEAN.copy(), VARIANCE.copy(), NOISE.copy()
    for answer in make_attack(kind).strike("q", mean, variance, noise, learned=1000, others=others()):
        answer.mean[:] = 7.0
        answer.variance[:] = 7.0
    np.testing.assert_array_equal(mean, MEAN)
    np.testing.assert_array_equal(variance, VARIANCE)
    np.testing.assert_array_equal(noise, NOISE)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_strikes_without_a_look_at_the_others(kind: str) -> None:
    answers = strike(kind, seen=[])
    assert all(a.mean.shape == a.variance.shape == (M,) for a in answers)
    assert (len(answers) == 0) == (kind == "silence")


@pytest.mark.parametrize("bad", [np.nan, np.inf, "x"])
@pytest.mark.parametrize(
    "kind", ["same-value", "gaussian", "bit-flip", "tiny-variance", "sleeper", "per-query", "flood"]
)
def test_a_size_that_is_no_finite_number_is_refused(kind: str, bad: object) -> None:
    with pytest.raises(SettingsError, match="magnitude"):
        make_attack(kind, magnitude=bad)


def test_what_the_simple_lies_send() -> None:
    (a,) = strike("same-value", magnitude=-3.0)
    np.testing.assert_array_equal(a.mean, -3.0)
    np.testing.assert_array_equal(a.variance, VARIANCE)
    (a,) = strike("bit-flip")
    np.testing.assert_array_equal(a.mean, -MEAN)
    (a,) = strike("tiny-variance", magnitude=2.0)
    np.testing.assert_allclose(a.mean, MEAN + 2.0 * np.sqrt(VARIANCE + NOISE))
    np.testing.assert_allclose(a.variance, 1e-6 * VARIANCE)
    (a,) = strike("huge-variance")
    np.testing.assert_allclose(a.variance, 1e6 * VARIANCE)
    assert strike("silence") == []


def test_flood_sends_many_and_to_queries_never_asked() -> None:
    sent = strike("flood", copies=3, unasked=2)
    assert [a.query_id for a in sent] == ["q", "q", "q", "q-unasked-0", "q-unasked-1"]
    assert not np.array_equal(sent[0].mean, sent[1].mean)


def test_nan_answers_are_never_usable() -> None:
    """C37: every such answer is told apart by reason before any fusion."""
    for seed in range(50):
        (a,) = strike("nan", seed=seed)
        found = usable(a.mean[None], a.variance[None])
        assert not found.agents[0]
        assert found.reasons[0]


def test_sleeper_is_honest_until_trusted() -> None:
    attack = make_attack("sleeper", after=100, then="same-value", magnitude=9.0)
    (before,) = attack.strike("q", MEAN, VARIANCE, NOISE, learned=99)
    (after,) = attack.strike("q", MEAN, VARIANCE, NOISE, learned=100)
    np.testing.assert_array_equal(before.mean, MEAN)
    np.testing.assert_array_equal(after.mean, 9.0)


def test_mimic_repeats_an_honest_answer() -> None:
    (a,) = strike("mimic")
    assert any(np.array_equal(a.mean, o.mean) and np.array_equal(a.variance, o.variance) for o in others())


def test_alie_hides_inside_the_honest_spread() -> None:
    (a,) = strike("alie", n_liars=3)
    means = np.array([o.mean for o in others()])
    assert ((a.mean >= means.min(axis=0)) & (a.mean <= means.mean(axis=0))).all()


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("n_liars", [1, 2, 3])
def test_collusion_survives_the_cut_it_knows(side: float, n_liars: int) -> None:
    seen = others(k=12)
    (a,) = strike("collusion", n_trim=3, magnitude=side)
    means = np.array([o.mean for o in seen] + [a.mean] * n_liars)
    variances = np.array([o.variance for o in seen] + [a.variance] * n_liars)
    assert trimmed_poe(means, variances, 3).kept[12:].all()


def test_only_informed_lies_need_the_others() -> None:
    needing = {kind for kind in KINDS if make_attack(kind).needs_others}
    assert needing == {"alie", "mimic", "collusion"}
    assert make_attack("sleeper", then="mimic").needs_others


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("sabotage", {}),
        ("same-value", {"colour": 1}),
        ("silence", {"magnitude": 1.0}),
        ("tiny-variance", {"variance_factor": 0.0}),
        ("sleeper", {"then": "sleeper"}),
        ("sleeper", {"then": "nonsense"}),
        ("flood", {"copies": -1}),
        ("collusion", {"magnitude": 0.0}),
    ],
)
def test_unknown_kinds_and_settings_are_refused(kind: str, settings: dict) -> None:
    with pytest.raises(SettingsError):
        make_attack(kind, **settings)
