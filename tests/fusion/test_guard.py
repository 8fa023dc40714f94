"""Whole summaries are believed, shortened or refused by what the others bear out."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.fusion.federation import DISTRUSTED, FEWEST, needed, server_step
from streamgp.fusion.guard import FULL, OTHER, PULL, SIZE, guarded
from streamgp.gp.hierarchy.blocks import Layout
from streamgp.gp.hierarchy.shared_step import COVARIANCE, MEAN, Ascent, SharedState, first_state
from streamgp.models.hgp.start import start_shared

LAYOUT = Layout(2, 1, 1, 1)
SIZE_Q = 4
Summary = dict[str, np.ndarray]


def state() -> SharedState:
    return first_state(start_shared(np.array([[-5.0], [5.0]]), LAYOUT, SIZE_Q, np.random.default_rng(0)), LAYOUT)


def summary(seed: int) -> Summary:
    """Of a client with data: its covariance part is negative definite."""
    rng = np.random.default_rng(seed)
    out = {name: rng.standard_normal(a.shape) for name, a in state().block.items()}
    root = rng.standard_normal((SIZE_Q, 3 * SIZE_Q))
    return {**out, MEAN: rng.standard_normal(SIZE_Q), COVARIANCE: -root @ root.T}


def times(a: Summary, factor: float) -> Summary:
    return {name: factor * v for name, v in a.items()}


HONEST = {f"c{i}": summary(i) for i in range(7)}


def stepped(answers: dict[str, Summary], **changes: object) -> object:
    return server_step(state(), answers, layout=LAYOUT, ascent=Ascent(), rule="trimmed", beta=1 / 8, **changes)


def garbage(a: Summary) -> Summary:
    rng = np.random.default_rng(9)
    root = 100.0 * rng.standard_normal((SIZE_Q, SIZE_Q))
    return {name: 1e3 * rng.standard_normal(v.shape) for name, v in a.items()} | {COVARIANCE: -root @ root.T}


LIES = {
    "garbage that could be a precision": garbage,
    "sign-flipped": lambda a: times(a, -1.0),
    "100 times": lambda a: times(a, 100.0),
    "-100 times": lambda a: times(a, -100.0),
    "as if of ten thousand times the rows": lambda a: times(a, 1e4),
    "huge, but finite": lambda a: times(a, 1e90),
    "a precision that is none": lambda a: {**a, COVARIANCE: -a[COVARIANCE]},
    "kernels of another world": lambda a: {n: v if n in (MEAN, COVARIANCE) else 1e4 * v for n, v in a.items()},
    "a pull from far away": lambda a: {**a, MEAN: a[MEAN] + 1e4},
    "not finite": lambda a: {**a, MEAN: np.full(SIZE_Q, np.inf)},
    "of another shape": lambda a: {name: np.zeros(5) for name in a},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_gross_lie_leaves_the_round_of_those_without_it(lie: str) -> None:
    """C38's kind: to the bit what the honest ones alone give, and the liar is named."""
    told = stepped({**HONEST, "liar": LIES[lie](summary(9))})
    alone = server_step(state(), HONEST, layout=LAYOUT, ascent=Ascent())
    assert (told.status, set(told.refused), told.used) == ("ok", {"liar"}, tuple(HONEST))
    np.testing.assert_array_equal(told.state.mean, alone.state.mean)
    np.testing.assert_array_equal(told.state.precision, alone.state.precision)
    for name, a in alone.state.block.items():
        np.testing.assert_array_equal(told.state.block[name], a)


def test_with_nobody_conspicuous_the_rule_is_the_sum() -> None:
    told = stepped(HONEST)
    plain = server_step(state(), HONEST, layout=LAYOUT, ascent=Ascent())
    assert not told.refused
    np.testing.assert_array_equal(told.state.mean, plain.state.mean)


@pytest.mark.parametrize("factor", [7.0, 15.0, 21.0, 1e3])
def test_what_is_not_refused_is_shortened_to_what_others_have(factor: float) -> None:
    """However an update is stretched, its part in the sum is bounded by the largest honest one."""
    limits = {SIZE: max(np.trace(-2.0 * s[COVARIANCE]) for s in HONEST.values())}
    out = guarded({**HONEST, "liar": times(summary(9), factor)}, n_trim=1)
    if "liar" in out.summaries:
        assert np.trace(-2.0 * out.summaries["liar"][COVARIANCE]) <= FULL[SIZE] * limits[SIZE] * (1 + 1e-9)
    for name in state().block:
        for factor_of in (1.0, factor):
            lie = {**summary(9), name: factor_of * summary(9)[name]}
            out = guarded({**HONEST, "liar": lie}, n_trim=1)
            if "liar" in out.summaries and lie[name].size:
                longest = max(np.linalg.norm(s[name]) for s in HONEST.values())
                assert np.linalg.norm(out.summaries["liar"][name]) <= FULL[OTHER] * longest * (1 + 1e-9)
    assert FULL[PULL] >= 1.0


def test_one_wild_kernel_array_is_shortened_alone() -> None:
    """An honest client whose lengthscale changes its mind: the rest of what it says counts in full."""
    wild = {**summary(9), "eta_lengthscale": summary(9)["eta_lengthscale"] + 1e4}
    out = guarded({**HONEST, "wild": wild}, n_trim=1)
    assert not out.refused
    longest = max(np.linalg.norm(s["eta_lengthscale"]) for s in HONEST.values())
    assert np.linalg.norm(out.summaries["wild"]["eta_lengthscale"]) <= FULL[OTHER] * longest * (1 + 1e-9)
    np.testing.assert_array_equal(out.summaries["wild"][MEAN], wild[MEAN])


def test_no_more_than_the_share_of_liars_is_refused_for_size() -> None:
    """With half of the clients large, large is what a client may be."""
    big = {client: times(a, 50.0) if at % 2 else a for at, (client, a) in enumerate(HONEST.items())}
    assert not guarded(big, n_trim=1).refused
    two = {**HONEST, "x": garbage(summary(9)), "y": times(summary(8), 900.0)}
    assert len(guarded(two, n_trim=1).refused) <= 1
    assert set(guarded(two, n_trim=2).refused) == {"x", "y"}


def test_noise_on_a_covariance_part_is_no_lie_where_clients_are_private() -> None:
    noisy = {c: {**s, COVARIANCE: s[COVARIANCE] + 60.0 * np.diag([1.0, -1.0, 1.0, -1.0])} for c, s in HONEST.items()}
    assert set(guarded(noisy, n_trim=1).refused) == set(noisy)
    assert not guarded(noisy, n_trim=1, noise=30.0).refused
    assert stepped(noisy, noise=30.0).status == "ok"
    assert set(guarded({**noisy, "liar": times(noisy["c0"], -100.0)}, n_trim=1, noise=30.0).refused) == {"liar"}


def test_nothing_is_compared_with_zero() -> None:
    nothing = {c: times(s, 0.0) for c, s in HONEST.items()}
    assert not guarded({**nothing, "a": HONEST["c0"]}, n_trim=1).refused
    assert guarded({}, n_trim=1).summaries == {}


def test_who_is_not_believed_is_out_and_still_counts_as_present() -> None:
    three = {c: HONEST[c] for c in ("c0", "c1", "c2")}
    told = stepped(three, distrusted=("c1",))
    assert (told.status, told.used, told.refused) == ("ok", ("c0", "c2"), {"c1": DISTRUSTED})


def test_a_robust_rule_needs_three() -> None:
    """Two updates that differ: nobody can say which of them lies."""
    two = {c: HONEST[c] for c in ("c0", "c1")}
    for rule in ("trimmed", "coordinates"):
        result = server_step(state(), two, layout=LAYOUT, ascent=Ascent(), rule=rule)
        assert result.status == "failed"
        assert needed(1, rule=rule, beta=1 / 6) == FEWEST
        assert needed(5, rule=rule, beta=1 / 6) == 5
        assert needed(1, rule=rule, beta=0.0) == 1
        six = {c: HONEST[c] for c in list(HONEST)[:6]}  # beta so large that it would cut all of them
        assert server_step(state(), six, layout=LAYOUT, ascent=Ascent(), rule=rule, beta=0.49).status == "ok"
    assert needed(1, rule="sum", beta=1 / 6) == 1
