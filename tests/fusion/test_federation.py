"""The server's step: sums, robust sums, privacy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamgp.errors import SettingsError
from streamgp.fusion.federation import aggregated, server_step
from streamgp.fusion.privacy import Privacy, privatised, spent
from streamgp.gp.hierarchy.blocks import Layout
from streamgp.gp.hierarchy.shared_step import (
    COVARIANCE,
    MEAN,
    Ascent,
    SharedState,
    ascend,
    first_state,
    negative_part,
)
from streamgp.models.hgp.start import start_shared

LAYOUT = Layout(2, 1, 1, 1)


def state() -> SharedState:
    return first_state(start_shared(np.array([[-5.0], [5.0]]), LAYOUT, 3, np.random.default_rng(0)), LAYOUT)


def summary(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    out = {name: rng.standard_normal(a.shape) for name, a in state().block.items()}
    root = rng.standard_normal((3, 3))
    return {**out, MEAN: rng.standard_normal(3), COVARIANCE: -root @ root.T}


def test_the_order_of_the_clients_changes_nothing() -> None:
    answers = {f"c{i}": summary(i) for i in range(5)}
    backwards = dict(reversed(answers.items()))
    for rule in ("sum", "trimmed"):
        a = server_step(state(), answers, layout=LAYOUT, ascent=Ascent(), rule=rule)
        b = server_step(state(), backwards, layout=LAYOUT, ascent=Ascent(), rule=rule)
        assert a.used == b.used
        for name in a.state.block:
            np.testing.assert_array_equal(a.state.block[name], b.state.block[name])


def test_with_all_alike_the_trimmed_rule_is_the_sum() -> None:
    alike = {f"c{i}": summary(0) for i in range(6)}
    for name, a in aggregated(alike, n_trim=1).items():
        np.testing.assert_allclose(a, aggregated(alike, n_trim=0)[name], rtol=1e-12)


def test_no_liar_moves_a_trimmed_coordinate_out_of_the_honest_range() -> None:
    honest = {f"c{i}": summary(i) for i in range(7)}
    for factor in (1e9, -100.0):
        lie = {name: factor * a for name, a in summary(9).items()}
        total = aggregated({**honest, "liar": lie}, n_trim=1)
        for name, a in total.items():
            stack = np.stack([s[name] for s in honest.values()])
            assert (a / 8 <= stack.max(axis=0)).all()
            assert (a / 8 >= stack.min(axis=0)).all()


def test_a_full_natural_step_is_the_posterior_of_the_sites() -> None:
    """From whatever q, the derivatives of a Gaussian's log likelihood bring q to the exact posterior in one step."""
    rng = np.random.default_rng(3)
    root = rng.standard_normal((3, 5))
    P, b = root @ root.T, rng.standard_normal(3)
    start = state()
    start = SharedState(start.block, rng.standard_normal(3), 2.0 * np.eye(3), start.first, start.second)
    zero = {name: np.zeros_like(a) for name, a in start.block.items()}
    moved = ascend(start, {**zero, MEAN: b - P @ start.mean, COVARIANCE: -0.5 * P}, LAYOUT, Ascent())
    np.testing.assert_allclose(moved.precision, np.eye(3) + P, rtol=1e-10)
    np.testing.assert_allclose(moved.mean, np.linalg.solve(np.eye(3) + P, b), rtol=1e-8)


def test_an_indefinite_sum_is_brought_back_to_what_honest_clients_can_send() -> None:
    S = np.diag([1.0, -2.0])
    np.testing.assert_allclose(negative_part(S), np.diag([0.0, -2.0]), atol=1e-15)
    lie = {**summary(0), COVARIANCE: 5.0 * np.eye(3)}
    moved = server_step(state(), {"liar": lie}, layout=LAYOUT, ascent=Ascent())
    assert moved.status == "ok"
    assert np.linalg.eigvalsh(moved.state.precision).min() >= 1.0 - 1e-12


@pytest.mark.parametrize("clients", [2, 3, 10, 50])
def test_the_sum_of_many_large_summaries_is_the_plain_sum(clients: int) -> None:
    """R64: nothing is masked or quantised, so nothing overflows: a million rows a client, up to 50 clients."""
    answers = {f"c{i}": {name: 1e6 * a for name, a in summary(i).items()} for i in range(clients)}
    total = aggregated(answers, n_trim=0)
    for name, a in total.items():
        stack = np.stack([answer[name] for answer in answers.values()]).reshape(clients, -1)
        plain = np.array([math.fsum(column) for column in stack.T.tolist()]).reshape(a.shape)
        np.testing.assert_allclose(a, plain, rtol=1e-12, atol=1e-6)
    result = server_step(state(), answers, layout=LAYOUT, ascent=Ascent())
    assert (result.status, len(result.used)) == ("ok", clients)
    assert np.isfinite(result.state.precision).all()


def test_nothing_that_is_not_finite_or_fits_not_enters() -> None:
    """C38, R58."""
    good, start = summary(0), state()
    bad = {
        "nan": {**good, MEAN: np.full(3, np.nan)},
        "short": {**good, MEAN: np.zeros(2)},
        "less": {MEAN: np.zeros(3)},
        "more": {**good, "extra": np.zeros(1)},
        "huge": {name: np.full(a.shape, 1e308) for name, a in good.items()},
    }
    result = server_step(start, {**bad, "good": good, "none": {}}, layout=LAYOUT, ascent=Ascent())
    assert (result.status, result.used, result.silent, set(result.refused)) == ("ok", ("good",), ("none",), set(bad))
    alone = server_step(start, {"good": good}, layout=LAYOUT, ascent=Ascent())
    np.testing.assert_array_equal(result.state.mean, alone.state.mean)
    for answers, status in (({}, "failed"), ({"a": {}, "b": {}}, "empty"), (bad, "failed")):
        outcome = server_step(start, answers, layout=LAYOUT, ascent=Ascent())
        assert outcome.status == status
        assert outcome.state is start
    few = server_step(start, {"a": good}, layout=LAYOUT, ascent=Ascent(), min_clients=2)
    assert few.status == "failed"


def test_private_summaries_are_clipped_and_as_noisy_as_promised() -> None:
    privacy, rng = Privacy(clip=2.0, noise=0.5), np.random.default_rng(0)
    long = {name: 100.0 * a for name, a in summary(0).items()}
    drawn = [privatised(long, privacy, rng) for _ in range(4000)]
    center = {name: np.mean([d[name] for d in drawn], axis=0) for name in long}
    norm = np.sqrt(sum(np.sum(a**2) for a in center.values()))
    assert norm == pytest.approx(2.0, abs=0.05)
    spread = np.std([d[MEAN] for d in drawn], axis=0)
    np.testing.assert_allclose(spread, 1.0, rtol=0.06)
    covariances = np.array([d[COVARIANCE] for d in drawn])
    np.testing.assert_allclose(covariances, covariances.transpose(0, 2, 1))
    np.testing.assert_allclose(covariances[:, 0, 0].std(), 1.0, rtol=0.06)
    # in coordinates that keep the norm, sqrt(2) times an off-diagonal, the noise is the same
    np.testing.assert_allclose(np.sqrt(2.0) * covariances[:, 1, 0].std(), 1.0, rtol=0.06)
    assert privatised({}, privacy, rng) == {}


def test_the_accountant_grows_with_rounds_and_shrinks_with_noise() -> None:
    pytest.importorskip("dp_accounting", reason="the accountant is the extra `privacy`")
    one, many, noisy = (spent(Privacy(1.0, z), n) for z, n in ((2.0, 1), (2.0, 20), (8.0, 20)))
    assert 0.0 < noisy < many
    assert 0.0 < one < many
    # one Gaussian mechanism with noise 2 at delta 1e-5 spends 1.93 to 2.1 by the tight and the Renyi account
    assert 1.8 < one < 2.5
    assert spent(Privacy(1.0, 1.0), 0) == 0.0


@pytest.mark.parametrize("numbers", [(0.0, 1.0, 1e-5), (1.0, -1.0, 1e-5), (1.0, 1.0, 1.0)])
def test_privacy_that_makes_no_sense_is_refused(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(SettingsError):
        Privacy(*numbers)
