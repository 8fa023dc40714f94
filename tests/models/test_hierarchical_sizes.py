"""Outputs in different units, of sizes whose squares are no numbers; clients without parts of their own."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from streamgp.models.hgp.start import sizes_of
from streamgp.models.hierarchical import HierarchicalGP

SMALL = {"n_global": 8, "n_local": 6, "rank_global": 1, "rank_deviation": 1, "rank_local": 1, "n_starts": 1}
AT = np.linspace(0.5, 9.5, 12)[:, None]


def clients() -> tuple[list, list]:
    """Three clients with two outputs of size one."""
    rng = np.random.default_rng(3)
    Xs = [np.sort(rng.uniform(0.0, 10.0, (n, 1)), axis=0) for n in (16, 12, 14)]
    Ys = [np.hstack([np.sin(X) + 0.4 * i, np.cos(X) - 0.3 * i]) for i, X in enumerate(Xs)]
    return Xs, [Y + 0.05 * rng.standard_normal(Y.shape) for Y in Ys]


def fit(units: list[float]) -> HierarchicalGP:
    Xs, Ys = clients()
    return HierarchicalGP(2, **SMALL, max_iter=12, random_state=0, ranks="fixed").fit(Xs, [Y * units for Y in Ys])


def test_outputs_in_different_units_are_learned_alike() -> None:
    """A degree and a pascal: every answer is that of other units, in its own."""
    Xs, Ys = clients()
    one, other = fit([1.0, 1e5]), fit([1e3, 1e-4])
    to = np.array([1e3, 1e-9])
    mean, cov = one.predict(1, AT)
    error = mean[:, 0] - np.sin(AT[:, 0]) - 0.4
    assert np.sqrt(np.mean(error**2)) < 0.25
    there, spread = other.predict(1, AT)
    np.testing.assert_allclose(there / to / [1.0, 1e5], mean / [1.0, 1e5], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(np.diagonal(spread[3]), np.diagonal(cov[3]) * to**2, rtol=1e-4)
    np.testing.assert_allclose(sum(one.components(1, AT).values()), mean, rtol=1e-9)
    shared = one.log_evidence(2, Xs[2], Ys[2] * [1.0, 1e5]) - len(Ys[2]) * np.sum(np.log(to))
    assert other.log_evidence(2, Xs[2], Ys[2] * [1e3, 1e-4]) == pytest.approx(shared, abs=0.01)
    np.testing.assert_allclose(other.client_distances(), one.client_distances(), atol=1e-3)
    law, joint = one.newcomer(AT[:2])
    assert np.sqrt(joint[1, 1]) > 1e3 * np.sqrt(joint[0, 0])
    np.testing.assert_allclose(other.newcomer(AT[:2])[0], law * to, rtol=1e-3)


def test_only_outputs_of_unlike_sizes_are_scaled_each_by_its_own() -> None:
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((200, 3))
    mean, alike = sizes_of([Y * [1.0, 4.0, 0.9]], centred=True)
    np.testing.assert_array_equal(alike, 1.0)
    np.testing.assert_array_equal(mean, 0.0)
    # a constant, and what is zero, has no unit to tell
    np.testing.assert_array_equal(sizes_of([Y * [1.0, 0.0, 0.0] + [0.0, 0.0, 5.0]], centred=True)[1], 1.0)
    far, sizes = sizes_of([Y * [1.0, 1e6, 0.0] + [300.0, 0.0, 0.0]], centred=True)
    np.testing.assert_allclose(far, [300.0 + Y[:, 0].mean(), 0.0, 0.0])
    np.testing.assert_allclose(sizes, [Y[:, 0].std(), 1e6 * np.sqrt(np.mean(Y[:, 1] ** 2)), 1.0])
    holes = np.where(rng.uniform(size=Y.shape) < 0.3, np.nan, Y * [1.0, 100.0, 1.0])
    np.testing.assert_allclose(sizes_of([holes], centred=False)[1], np.sqrt(np.nanmean(holes**2, axis=0)))


@pytest.mark.parametrize("unit", [1e-160, 1e-120])
def test_outputs_too_small_for_squares_are_named(unit: float) -> None:
    with pytest.raises(ValueError, match=r"output 1 has size .*scale it up"):
        fit([1.0, unit])


def test_clients_without_parts_of_their_own_are_like_one_another() -> None:
    """Whatever phi is: identical clients need no deviation and no residual, and rounding is no part of one's own."""
    x = np.linspace(0.0, 10.0, 12)[:, None]
    y = np.sin(x) + 0.1 * np.random.default_rng(1).standard_normal(x.shape)
    model = HierarchicalGP(n_global=12, n_local=12, n_starts=1, random_state=0, max_iter=40).fit([x] * 3, [y] * 3)
    parts = model.components(0, x)
    assert max(np.abs(parts["deviation"]).max(), np.abs(parts["local"]).max()) < 1e-2
    np.testing.assert_array_equal(model.client_distances("correlation"), 0.0)


def test_questions_without_an_answer_are_refused() -> None:
    Xs, Ys = clients()
    settings = {**SMALL, "n_local": 4, "max_iter": 2, "random_state": 0}
    model = HierarchicalGP(2, components=np.array(["global", "local"]), **settings).fit(Xs, Ys)
    assert np.array_equal(
        clone(model).fit(Xs, Ys).predict(1, AT)[0],
        HierarchicalGP(2, components=["global", "local"], **settings).fit(Xs, Ys).predict(1, AT)[0],
    )
    for kept, now in zip(pickle.loads(pickle.dumps(model)).predict(1, AT), model.predict(1, AT), strict=True):
        np.testing.assert_array_equal(kept, now)
    for kind in ("components", "correlation"):
        with pytest.raises(ValueError, match="X has no rows to compare"):
            model.client_distances(kind, X=np.zeros((0, 1)))
    none = np.full_like(Ys[0], np.nan)
    with pytest.raises(ValueError, match="Y is NaN throughout"):
        model.classify(Xs[0], none)
    with pytest.raises(ValueError, match="batch 1 of Y is NaN throughout"):
        model.classify(Xs[0], np.stack([Ys[0], none]))
    assert model.classify(Xs[0], Ys[0]) == model.classify(Xs[0], np.stack([Ys[0]]))[0]
    for wrong in (True, np.True_, 1.0, -1, 3):
        with pytest.raises(ValueError, match="client must be 0 to 2"):
            model.predict(wrong, AT)
