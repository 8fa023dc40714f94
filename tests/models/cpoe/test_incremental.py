"""A stream's posterior is the batch posterior of the same partition; steps cost the same; snapshots go on."""

from __future__ import annotations

import json

import numpy as np
import pytest

from streamgp.errors import CheckpointError
from streamgp.models.cpoe.posterior import Posterior
from streamgp.models.experts import CPoERegressor
from tests.models.cpoe.cases import KERNELS, NOISE, make_data, twin
from tests.tolerances import FACTORED


def streamed(n, *, ordered=True, seed=0, q=1, **settings):
    X, y = make_data(n, q=q, seed=seed)
    if ordered:
        order = np.argsort(X[:, 0])
        X, y = X[order], y[order]
    settings = {"expert_size": 10, "optimizer": None, **settings}
    return CPoERegressor(KERNELS["matern"], NOISE, **settings), X, y


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("rule", ["clique", "nearest"])
@pytest.mark.parametrize("gamma", [1.0, 0.55])
@pytest.mark.parametrize("C", [1, 2, 4])
def test_posterior_is_that_of_the_batch_with_the_same_partition(C, gamma, rule, ordered):
    model, X, y = streamed(95, ordered=ordered, correlation=C, sparsity=gamma, predecessors=rule)
    for t in range(95):
        model.partial_fit(X[t : t + 1], y[t : t + 1])
        if t in (0, 4, 9, 10, 25, 39, 40, 41, 70) or t > 88:
            dense = twin(model, X[: t + 1], y[: t + 1])
            points = X[max(0, t - 2) : t + 1] + 0.05
            mean, variance = dense.predict(points)
            got, std = model.predict(points, return_std=True, latent=True)
            np.testing.assert_allclose(got, mean[:, 0], atol=FACTORED)
            np.testing.assert_allclose(std**2, variance, atol=FACTORED)
            np.testing.assert_allclose(model.log_marginal_likelihood_value_, dense.log_evidence, rtol=FACTORED)
    assert [len(r) for r in model.experts_] == [10] * 9 + [5]
    assert np.concatenate(model.experts_).tolist() == list(range(95))


def test_learning_by_chunks_is_learning_row_by_row():
    a, X, y = streamed(60, correlation=3, q=2)
    b, _, _ = streamed(60, correlation=3, q=2)
    a.partial_fit(X[:37], y[:37]).partial_fit(X[37:], y[37:])
    for t in range(60):
        b.partial_fit(X[t : t + 1], y[t : t + 1])
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


def test_a_batch_goes_on_as_a_stream():
    model, X, y = streamed(90, ordered=False, correlation=3, random_state=1)
    model.fit(X[:58], y[:58]).partial_fit(X[58:75], y[58:75])
    model.predict(X[:3])
    model.partial_fit(X[75:], y[75:])
    dense = twin(model, X, y)
    mean, variance = dense.predict(X[:20] + 0.03)
    got, std = model.predict(X[:20] + 0.03, return_std=True, latent=True)
    np.testing.assert_allclose(got, mean[:, 0], atol=FACTORED)
    np.testing.assert_allclose(std**2, variance, atol=FACTORED)


def test_old_regions_are_brought_up_to_date_only_when_asked_for():
    model, X, y = streamed(200, correlation=2, n_predict_experts=2)
    for t in range(200):
        model.partial_fit(X[t : t + 1], y[t : t + 1])
        model.predict(X[t : t + 1])
    stream = model.engine_.learner.stream
    assert len(stream.active) <= 6
    mean, _ = twin(model, X, y).region(X[:5], 1)
    means, _, _ = model.predict_regions(X[:5])
    np.testing.assert_allclose(means[0], mean, atol=FACTORED)


@pytest.mark.parametrize("C", [1, 2, 3])
@pytest.mark.parametrize("gamma", [1.0, 0.6])
def test_forgetting_marginalises_the_oldest(C, gamma):
    """What remains believes the same as a model that has kept everything."""
    model, X, y = streamed(130, correlation=C, sparsity=gamma, max_experts=4, n_predict_experts=2)
    keeper, _, _ = streamed(130, correlation=C, sparsity=gamma, max_experts=99, n_predict_experts=2)
    for t in range(130):
        model.partial_fit(X[t : t + 1], y[t : t + 1])
        keeper.partial_fit(X[t : t + 1], y[t : t + 1])
        if t % 9 == 0:
            model.predict(X[t : t + 1])
    assert len(model.experts_) == 4
    assert model.n_observations_ == 130
    assert len(model.engine_.learner.data.X) == 4
    np.testing.assert_allclose(
        model.log_marginal_likelihood_value_, keeper.log_marginal_likelihood_value_, rtol=FACTORED
    )
    few, _, _ = model.predict_regions(X[-8:] + 0.02)
    many, _, _ = keeper.predict_regions(X[-8:] + 0.02)
    np.testing.assert_allclose(few, many[-len(few) :], atol=FACTORED)
    engine = model.engine_
    whole = Posterior(engine.learner.model, engine.learner.data, engine.learner.stream.cliques, True)
    np.testing.assert_allclose(whole.log_evidence, keeper.log_marginal_likelihood_value_, rtol=FACTORED)


@pytest.mark.parametrize("optimizer", ["lbfgs", "adam"])
def test_hyperparameters_follow_the_stream(optimizer):
    X, y = make_data(500, d=1, seed=3)
    model = CPoERegressor(expert_size=64, optimizer=optimizer, random_state=0)
    for t in range(0, 500, 20):
        model.partial_fit(X[t : t + 20], y[t : t + 20])
    mean, std = model.predict(X[:200], return_std=True)
    assert 0.02 < model.noise_variance_ < 0.08  # 0.04 is true
    assert np.sqrt(np.mean((mean - np.sin(2 * X[:200, 0])) ** 2)) < 0.08
    assert np.all(std < 0.5)


@pytest.mark.parametrize(
    "settings",
    [
        {"correlation": 3},
        {"correlation": 2, "sparsity": 0.5},
        {"correlation": 2, "max_experts": 3},
        {"correlation": 3, "predecessors": "nearest"},
        {"correlation": 2, "optimizer": "adam", "expert_size": 24},
    ],
)
@pytest.mark.parametrize("start", ["stream", "batch"])
def test_a_snapshot_goes_on_to_the_bit(settings, start):
    model, X, y = streamed(150, ordered=False, **settings)
    if start == "batch":
        model.fit(X[:60], y[:60])
    else:
        for t in range(0, 60, 3):
            model.partial_fit(X[t : t + 3], y[t : t + 3])
            model.predict(X[t : t + 3])
    state = model.state()
    twin_model = CPoERegressor.from_state(state)
    np.testing.assert_array_equal(model.predict(X), twin_model.predict(X))
    for t in range(60, 150, 5):
        for m in (model, twin_model):
            m.partial_fit(X[t : t + 5], y[t : t + 5])
        np.testing.assert_array_equal(model.predict(X[:7]), twin_model.predict(X[:7]))
    assert model.log_marginal_likelihood_value_ == twin_model.log_marginal_likelihood_value_
    assert twin_model.get_params()["correlation"] == settings["correlation"]


def test_a_state_holds_no_pickle_and_is_checked():
    model, X, y = streamed(30)
    state = model.partial_fit(X, y).state()

    def plain(value):
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(v) for v in value]
        return value.tolist() if isinstance(value, np.ndarray) else value

    json.dumps(plain(state))
    with pytest.raises(CheckpointError, match="version"):
        CPoERegressor.from_state({**state, "version": 99})
    with pytest.raises(CheckpointError, match="damaged"):
        CPoERegressor.from_state({k: v for k, v in state.items() if k != "pi"})
