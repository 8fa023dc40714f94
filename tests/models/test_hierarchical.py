"""The hierarchical estimator on clients of every kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from streamgp.models.hierarchical import HierarchicalGP

SMALL = {"n_global": 8, "n_local": 8, "rank_global": 1, "rank_deviation": 1, "rank_local": 1, "n_starts": 1}


def waves(seed: int = 0, *, n: tuple[int, ...] = (30, 20, 25), shifts: tuple[float, ...] = (0.0, 0.6, -0.4)):
    """Clients that share a sine and differ by a shift and a little noise."""
    rng = np.random.default_rng(seed)
    Xs = [np.sort(rng.uniform(0.0, 10.0, (k, 1)), axis=0) for k in n]
    Ys = [np.sin(X) + s + 0.05 * rng.standard_normal(X.shape) for X, s in zip(Xs, shifts, strict=True)]
    return Xs, Ys


@pytest.fixture(scope="module")
def fitted() -> HierarchicalGP:
    return HierarchicalGP(**SMALL, max_iter=60, random_state=0).fit(*waves())


def test_components_add_up_to_the_latent_mean(fitted: HierarchicalGP) -> None:
    X = np.linspace(-2.0, 12.0, 50)[:, None]
    for client in range(3):
        parts = fitted.components(client, X)
        assert set(parts) == {"global", "deviation", "local"}
        mean, cov = fitted.predict(client, X, latent=True)
        np.testing.assert_allclose(sum(parts.values()), mean, atol=1e-10)
        _, noisy = fitted.predict(client, X)
        np.testing.assert_allclose(noisy - cov, np.full((50, 1, 1), fitted.noise_variance_), rtol=1e-8)
        assert (cov > 0.0).all()


def test_a_client_is_forecast_better_with_the_others_than_alone() -> None:
    """Half of client 1's span has no row of its own; the global layer knows the shape there."""
    Xs, Ys = waves()
    gap = Xs[1][:, 0] < 6.0
    X = np.linspace(6.5, 9.5, 30)[:, None]
    truth = np.sin(X) + 0.6
    with_others = HierarchicalGP(**SMALL, max_iter=60, random_state=0)
    with_others.fit([Xs[0], Xs[1][gap], Xs[2]], [Ys[0], Ys[1][gap], Ys[2]])
    alone = HierarchicalGP(**SMALL, max_iter=60, random_state=0, components=("local",)).fit([Xs[1][gap]], [Ys[1][gap]])
    ours = np.sqrt(np.mean((with_others.predict(1, X)[0] - truth) ** 2))
    theirs = np.sqrt(np.mean((alone.predict(0, X)[0] - truth) ** 2))
    assert ours < 0.25 < theirs


def test_one_client_is_a_gp_of_the_sum_of_its_layers() -> None:
    Xs, Ys = waves()
    model = HierarchicalGP(**SMALL, max_iter=60, random_state=0).fit(Xs[:1], Ys[:1])
    X = np.linspace(1.0, 9.0, 40)[:, None]
    assert np.sqrt(np.mean((model.predict(0, X)[0] - np.sin(X)) ** 2)) < 0.06
    assert model.client_distances().shape == (1, 1)


def test_identical_clients_need_no_deviation() -> None:
    Xs, Ys = waves()
    model = HierarchicalGP(**SMALL, max_iter=100, random_state=0).fit([Xs[0]] * 4, [Ys[0]] * 4)
    parts = model.components(2, Xs[0])
    own = parts["deviation"] + parts["local"]
    assert np.std(own) < 0.1 * np.std(parts["global"])
    np.testing.assert_allclose(model.predict(0, Xs[0])[0], model.predict(3, Xs[0])[0], atol=0.05)


def test_a_client_without_data_gets_the_global_layer_and_the_spread_of_the_others() -> None:
    Xs, Ys = waves()
    empty = (np.zeros((0, 1)), np.zeros((0, 1)))
    model = HierarchicalGP(**SMALL, max_iter=60, random_state=0).fit([*Xs, empty[0]], [*Ys, empty[1]])
    X = np.linspace(1.0, 9.0, 40)[:, None]
    mean, cov = model.predict(3, X)
    np.testing.assert_allclose(mean, model.components(0, X)["global"], atol=1e-10)
    assert (cov > model.predict(0, X)[1]).all()
    truth = np.concatenate([np.sin(X) + s for s in (0.0, 0.6, -0.4)])
    error = truth - np.tile(mean, (3, 1))
    assert np.mean(np.abs(error) < 2.0 * np.sqrt(np.tile(cov[:, 0], (3, 1)))) > 0.9


def test_newcomers_with_several_outputs_have_full_rank_spread() -> None:
    rng = np.random.default_rng(0)
    Xs = [rng.uniform(0.0, 10.0, (15, 1)) for _ in range(3)] + [np.zeros((0, 1))]
    Ys = [np.hstack([np.sin(X), np.cos(X), X / 10.0]) + 0.1 * rng.standard_normal((len(X), 3)) for X in Xs]
    kinds = {"rank_global": 2, "rank_deviation": 3, "rank_local": 1, "n_starts": 1, "max_iter": 20}
    model = HierarchicalGP(3, n_global=6, n_local=6, random_state=0, **kinds).fit(Xs, Ys)
    cov = model.predict(3, np.array([[5.0]]), latent=True)[1][0]
    others = [model.predict(i, np.array([[1000.0]]), latent=True)[1][0] for i in range(3)]
    # far from all rows a known client is back at its prior, and the newcomer has the average of those
    far = model.predict(3, np.array([[1000.0]]), latent=True)[1][0]
    np.testing.assert_allclose(far, np.mean(others, axis=0), rtol=1e-6, atol=1e-9)
    assert np.linalg.eigvalsh(cov)[0] > 0.0


def test_missing_outputs_are_filled_from_the_other_outputs() -> None:
    rng = np.random.default_rng(0)
    Xs = [rng.uniform(0.0, 10.0, (40, 1)) for _ in range(2)]
    Ys = [np.hstack([np.sin(X), 2.0 * np.sin(X)]) + 0.02 * rng.standard_normal((40, 2)) for X in Xs]
    hidden = (Xs[1][:, 0] > 3.0) & (Xs[1][:, 0] < 7.0)
    Ys[1][hidden, 1] = np.nan
    model = HierarchicalGP(2, **{**SMALL, "n_global": 12}, max_iter=100, random_state=0).fit(Xs, Ys)
    mean = model.predict(1, Xs[1][hidden], latent=True)[0]
    assert np.sqrt(np.mean((mean[:, 1] - 2.0 * np.sin(Xs[1][hidden, 0])) ** 2)) < 0.15


def test_inputs_of_two_columns_and_unequal_clients() -> None:
    rng = np.random.default_rng(0)
    Xs = [rng.uniform(-1.0, 1.0, (n, 2)) * (1.0, 1e6) for n in (60, 8, 25)]
    Ys = [np.sin(3.0 * X[:, 0]) + X[:, 1] / 1e6 + 0.05 * rng.standard_normal(len(X)) for X in Xs]
    model = HierarchicalGP(**{**SMALL, "n_global": 20}, max_iter=60, random_state=0).fit(Xs, Ys)
    X = rng.uniform(-1.0, 1.0, (100, 2)) * (1.0, 1e6)
    truth = np.sin(3.0 * X[:, 0]) + X[:, 1] / 1e6
    for client in range(3):
        assert np.sqrt(np.mean((model.predict(client, X)[0][:, 0] - truth) ** 2)) < 0.2


def test_evidence_is_the_joint_density_and_finds_the_client(fitted: HierarchicalGP) -> None:
    X = np.linspace(0.5, 9.5, 12)[:, None]
    one = X[:1]
    mean, cov = fitted.predict(0, one)
    single = -0.5 * (np.log(2 * np.pi * cov[0, 0, 0]) + (0.3 - mean[0, 0]) ** 2 / cov[0, 0, 0])
    assert fitted.log_evidence(0, one, np.array([[0.3]])) == pytest.approx(float(single))
    batches = np.stack([np.sin(X) + s for s in (0.6, -0.4, 0.0)])
    answers = fitted.classify(X, batches)
    np.testing.assert_array_equal(answers, [1, 2, 0])
    assert fitted.classify(X, batches[1]) == 2
    holes = batches[0].copy()
    holes[::2] = np.nan
    assert fitted.classify(X, holes) == 1


def test_distances_tell_like_from_unlike() -> None:
    rng = np.random.default_rng(0)
    X = np.linspace(0.0, 10.0, 40)[:, None]
    own = [np.cos(2.0 * X), np.cos(2.0 * X), np.cos(3.0 * X + 1.0)]
    Ys = [np.sin(X) + o + 0.05 * rng.standard_normal(X.shape) for o in own]
    model = HierarchicalGP(**{**SMALL, "n_global": 15}, max_iter=60, random_state=0).fit([X] * 3, Ys)
    for kind in ("components", "correlation", "operator"):
        D = model.client_distances(kind)
        assert D.shape == (3, 3)
        np.testing.assert_allclose(D, D.T)
        np.testing.assert_array_equal(np.diag(D), 0.0)
    for D in (model.client_distances(), model.client_distances("correlation")):
        assert D[0, 1] < 0.3 * min(D[0, 2], D[1, 2])
    with pytest.raises(ValueError, match="kind"):
        model.client_distances("raw")


def test_parameters_survive_clone_and_set_params() -> None:
    model = HierarchicalGP(2, components=("global", "local"), factors="mean_field", max_iter=3)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert twin.set_params(components=("local",)).get_params()["components"] == ("local",)
    assert "mean_field" in repr(model)


def test_the_seed_decides_and_nothing_is_changed_in_place() -> None:
    Xs, Ys = waves()
    before = [a.copy() for a in (*Xs, *Ys)]
    runs = [HierarchicalGP(**SMALL, max_iter=5, random_state=4).fit(Xs, Ys).predict(0, Xs[0])[0] for _ in range(2)]
    np.testing.assert_array_equal(*runs)
    for a, b in zip(before, (*Xs, *Ys), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("factors", ["mean_field", "joint", "structured"])
def test_every_family_of_factors_and_both_budgets_fit(factors: str) -> None:
    Xs, Ys = waves()
    for budget in ("elbo", "fixed"):
        model = HierarchicalGP(**SMALL, max_iter=40, random_state=0, factors=factors, budget=budget).fit(Xs, Ys)
        assert np.sqrt(np.mean((model.predict(1, Xs[1])[0] - Ys[1]) ** 2)) < 0.15
        assert budget == "elbo" or model.n_inducing_ == [8, 8, 8]


def test_the_bound_asks_for_more_inducing_inputs_where_the_residual_is_rough() -> None:
    rng = np.random.default_rng(0)
    X = np.linspace(0.0, 10.0, 60)[:, None]
    rough = np.sin(X) + np.sin(9.0 * X) + 0.05 * rng.standard_normal(X.shape)
    smooth = np.sin(X) + 0.05 * rng.standard_normal(X.shape)
    models = [
        HierarchicalGP(**SMALL, max_iter=80, random_state=0, budget=budget).fit([X, X], [rough, smooth])
        for budget in ("elbo", "fixed")
    ]
    assert models[0].n_inducing_[0] > 8
    assert models[0].lower_bound_ > models[1].lower_bound_ + 10.0


def test_constant_and_repeated_rows_do_no_harm() -> None:
    X = np.zeros((6, 1))
    model = HierarchicalGP(**SMALL, max_iter=10, random_state=0).fit([X, X], [np.zeros(6), np.full(6, 3.0)])
    mean, cov = model.predict(1, np.array([[0.0], [5.0]]))
    assert np.isfinite(mean).all()
    assert (cov > 0.0).all()
    assert mean[0, 0] == pytest.approx(3.0, abs=0.2)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"components": ()}, "components"),
        ({"components": None}, "components"),
        ({"components": "global"}, "components must be some of .* got 'global'"),
        ({"components": ("global", "else")}, "components"),
        ({"factors": "none"}, "factors"),
        ({"budget": "much"}, "budget"),
        ({"n_outputs": 2}, "Y must be"),
        ({"lengthscale": [1.0, 2.0]}, "lengthscale must be a number, or 1, one a column"),
        ({"random_state": "x"}, "random_state"),
        ({"random_state": -1}, "random_state"),
        *[
            ({name: value}, f"{name} must be a whole number of at least 1, got ")
            for name in ("n_global", "n_local", "n_outputs", "rank_global", "rank_deviation", "rank_local")
            for value in (0, 2.5, "8", None, True)
        ],
        *[({name: 1.5}, f"{name} must be a whole number") for name in ("rounds", "n_starts", "max_iter")],
    ],
)
def test_parameters_that_make_no_sense_are_named(change: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        HierarchicalGP(**{**SMALL, **change}).fit(*waves())


def test_no_layer_gets_more_inducing_inputs_than_there_are_different_rows() -> None:
    """A budget far beyond the rows is their number: the fit takes no longer, and the answer is that of all rows."""
    Xs, Ys = waves()
    few = HierarchicalGP(**{**SMALL, "n_global": 75, "n_local": 30}, max_iter=10, random_state=0).fit(Xs, Ys)
    many = HierarchicalGP(**{**SMALL, "n_global": 10_000, "n_local": 10_000}, max_iter=10, random_state=0).fit(Xs, Ys)
    assert [len(p.shared["inducing"]) for p in many._posteriors] == [75] * 3
    assert max(many.n_inducing_) <= 30
    X = np.linspace(0.0, 10.0, 20)[:, None]
    np.testing.assert_allclose(many.predict(1, X)[0], few.predict(1, X)[0], atol=0.01)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ([["a"], ["b"]], "client 1: X must be an array of numbers"),
        ([["1"], ["2"]], "client 1: X must be an array of numbers"),
        ([{"a": 1.0}, {"a": 2.0}], "client 1: X must be an array of numbers"),
        (np.array([[1.0 + 1.0j], [2.0]]), "client 1: X must be an array of numbers"),
        (np.array([["2020-01-01"], ["2020-01-02"]], dtype="datetime64[ms]"), "client 1: X must be an array of numbers"),
        (None, "client 1: X must be"),
        ([1.0, 2.0], r"client 1: X must be \(n, d\), got shape \(2,\)"),
        ([[1.0, 2.0], [3.0, 4.0]], r"client 1: X has shape \(2, 2\), client 0 \(30, 1\)"),
        ([[1.0], [1e200]], "client 1: X contains numbers beyond"),
        ([[1.0], [np.inf]], "client 1: X holds a NaN or an infinity"),
    ],
)
def test_records_of_a_wrong_kind_are_named_with_their_client(bad: object, match: str) -> None:
    Xs, Ys = waves()
    with pytest.raises(ValueError, match=match):
        HierarchicalGP(**SMALL).fit([Xs[0], bad], [Ys[0], np.zeros((2, 1))])
    if not isinstance(bad, np.ndarray):
        with pytest.raises((TypeError, ValueError)):
            HierarchicalGP(**SMALL).fit({"A": Xs[0]}, {"A": Ys[0]})


def test_targets_of_a_wrong_kind_are_named_with_their_client() -> None:
    Xs, Ys = waves()
    for bad, match in ((Ys[1].astype(str), "Y must be an array of numbers"), (Ys[1] * 1e160, "Y contains numbers")):
        with pytest.raises(ValueError, match=f"client 1: {match}"):
            HierarchicalGP(**SMALL).fit(Xs[:2], [Ys[0], bad])


@pytest.mark.parametrize("shift", [1e3, 1e6, -1e9])
def test_outputs_far_from_zero_keep_their_digits(fitted: HierarchicalGP, shift: float) -> None:
    """Pressures of 1013 hPa: the offset is no size of the signal; parts still add up, evidence is that of y."""
    Xs, Ys = waves()
    model = HierarchicalGP(**SMALL, max_iter=60, random_state=0).fit(Xs, [Y + shift for Y in Ys])
    X = np.linspace(0.5, 9.5, 20)[:, None]
    for client in range(3):
        (mean, cov), (plain, plain_cov) = model.predict(client, X), fitted.predict(client, X)
        np.testing.assert_allclose(mean - shift, plain, atol=0.05)
        np.testing.assert_allclose(cov, plain_cov, rtol=0.3)
        parts = model.components(client, X)
        np.testing.assert_allclose(sum(parts.values()), model.predict(client, X, latent=True)[0], rtol=1e-15)
    Y = np.sin(X)
    assert model.log_evidence(0, X, Y + shift) == pytest.approx(fitted.log_evidence(0, X, Y), abs=3.0)
    assert model.classify(Xs[1], Ys[1] + shift) == 1
    assert fitted.prior_mean_[0] == 0.0


def test_a_client_without_rows_may_be_an_empty_list(fitted: HierarchicalGP) -> None:
    Xs, Ys = waves()
    settings = {**SMALL, "max_iter": 10, "random_state": 0}
    empty = HierarchicalGP(**settings).fit([*Xs, []], [*Ys, []])
    shaped = HierarchicalGP(**settings).fit([*Xs, np.zeros((0, 1))], [*Ys, np.zeros((0, 1))])
    unseen = HierarchicalGP(**settings).fit([*Xs, Xs[0]], [*Ys, Ys[0] * np.nan])
    for other in (shaped, unseen):
        np.testing.assert_array_equal(empty.predict(3, [[5.0]])[0], other.predict(3, [[5.0]])[0])
    with pytest.raises(ValueError, match="nothing to classify"):
        fitted.classify(np.zeros((0, 1)), np.zeros((0, 1)))
    for client in ("0", 0.5, None):
        with pytest.raises(ValueError, match="client must be 0 to 2"):
            fitted.predict(client, [[5.0]])  # type: ignore[arg-type]  # what users do


def test_rows_that_make_no_sense_are_named(fitted: HierarchicalGP) -> None:
    Xs, Ys = waves()
    with pytest.raises(ValueError, match="client 1"):
        HierarchicalGP(**SMALL).fit(Xs, [Ys[0], Ys[0], Ys[2]])
    with pytest.raises(ValueError, match="no client has an observation"):
        HierarchicalGP(**SMALL).fit([np.zeros((2, 1))], [np.full(2, np.nan)])
    with pytest.raises(ValueError, match="NaN or an infinity"):
        fitted.predict(0, np.array([[np.nan]]))
    with pytest.raises(ValueError, match="client must be"):
        fitted.predict(3, np.array([[0.0]]))
    with pytest.raises(ValueError, match="features"):
        fitted.predict(0, np.zeros((1, 2)))


def test_clients_may_have_noises_of_their_own() -> None:
    rng = np.random.default_rng(0)
    Xs = [np.linspace(0.0, 10.0, 80)[:, None]] * 2
    Ys = [np.sin(Xs[0]) + s * rng.standard_normal((80, 1)) for s in (0.05, 0.5)]
    model = HierarchicalGP(**SMALL, max_iter=60, random_state=0, noise="client").fit(Xs, Ys)
    np.testing.assert_allclose(np.sqrt(model.noise_variances_), [0.05, 0.5], rtol=0.35)
    same = HierarchicalGP(**SMALL, max_iter=60, random_state=0).fit(Xs, Ys)
    assert same.noise_variances_[0] == same.noise_variances_[1] == pytest.approx(same.noise_variance_)
    assert model.lower_bound_ > same.lower_bound_ + 20.0
    with pytest.raises(ValueError, match="noise"):
        HierarchicalGP(**SMALL, noise="none").fit(Xs, Ys)


def test_a_known_lengthscale_is_held_in_units_of_x() -> None:
    Xs, Ys = waves()
    model = HierarchicalGP(**SMALL, max_iter=20, random_state=0, lengthscale=1.7).fit(Xs, Ys)
    span = np.ptp(np.concatenate(Xs))
    for posterior in model._posteriors:
        np.testing.assert_allclose(posterior.scales.global_lengthscale * span / 10.0, 1.7, rtol=1e-10)
    assert np.sqrt(np.mean((model.predict(1, Xs[1])[0] - Ys[1]) ** 2)) < 0.15
    with pytest.raises(ValueError, match="lengthscale"):
        HierarchicalGP(**SMALL, lengthscale=0.0).fit(Xs, Ys)


def test_what_clients_share_over_short_distances_is_not_taken_for_noise() -> None:
    """Weather: a rough shared curve that eight inducing inputs cannot show; the bound asks for more."""
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 100.0, 200)[:, None]
    shared = sum(np.sin(w * x + p) for w, p in zip(rng.uniform(0.5, 2.5, 12), rng.uniform(0, 6, 12), strict=True)) / 3
    Ys = [shared + 0.3 * np.sin(0.05 * x + i) + 0.2 * rng.standard_normal(x.shape) for i in range(5)]
    model = HierarchicalGP(**SMALL, max_iter=25, random_state=0).fit([x] * 5, Ys)
    assert model.noise_variance_ < 0.08
    assert np.corrcoef(model.components(0, x)["global"][:, 0], shared[:, 0])[0, 1] > 0.95


def rough(seed: int = 4, *, n: int = 40, lengthscale: float = 0.6):
    """Three clients at the same regular inputs: a shared rough function, a rough deviation each, and noise."""
    rng = np.random.default_rng(seed)
    X = np.arange(float(n))[:, None]
    K = np.exp(-0.5 * ((X - X.T) / lengthscale) ** 2)
    draw = rng.multivariate_normal(np.zeros(n), K, 4)
    Ys = [(draw[0] + 0.4 * own + 0.1 * rng.standard_normal(n))[:, None] for own in draw[1:]]
    Ys[1][5:9] = np.nan
    return [X] * 3, Ys


def test_with_every_row_inducing_a_fit_finds_the_finest_scale_by_evidence() -> None:
    """Two inputs a lengthscale and more apart: the usual start, a fifth of the span, is eleven times too long."""
    Xs, Ys = rough()
    every = {**SMALL, "n_global": 100, "n_local": 100, "budget": "fixed"}
    model = HierarchicalGP(**every, max_iter=60, random_state=0).fit(Xs, Ys)
    few = HierarchicalGP(**SMALL, budget="fixed", max_iter=60, random_state=0).fit(Xs, Ys)
    known = HierarchicalGP(**every, max_iter=60, random_state=0, lengthscale=0.6).fit(Xs, Ys)
    assert model.lower_bound_ > few.lower_bound_ + 10.0
    assert model.lower_bound_ > known.lower_bound_ - 0.5
    assert model.n_inducing_ == [40, 36, 40]
    mean, _ = model.predict(1, Xs[1][5:9], latent=True)
    np.testing.assert_allclose(mean, known.predict(1, Xs[1][5:9], latent=True)[0], atol=0.3)


def test_layers_of_their_own_alone_fit_where_clients_share_something_rough() -> None:
    """Without a global layer nothing is to be settled, however rough what the clients share may be."""
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 60.0, 120)[:, None]
    shared = np.sin(0.7 * x) + np.sin(0.5 * x + 1.0)
    Ys = [shared + 0.1 * rng.standard_normal(x.shape) for _ in range(4)]
    model = HierarchicalGP(**SMALL, max_iter=30, random_state=0, components=("local",)).fit([x] * 4, Ys)
    assert np.sqrt(np.mean((model.predict(0, x)[0] - shared) ** 2)) < 0.1


def test_kernels_of_clients_that_are_alike_are_drawn_together() -> None:
    """Residuals of one law, twenty rows each: their lengthscales come closer, and each may be a client's own."""
    rng = np.random.default_rng(3)
    Xs, Ys = [], []
    for _ in range(5):
        x = np.sort(rng.uniform(0.0, 10.0, 20))
        K = np.exp(-0.5 * np.square((x[:, None] - x) / 0.6)) + 1e-9 * np.eye(20)
        Xs.append(x[:, None])
        Ys.append(np.sin(0.5 * x) + np.linalg.cholesky(K) @ rng.standard_normal(20) + 0.1 * rng.standard_normal(20))
    spread = {}
    for kernels in ("related", "own"):
        model = HierarchicalGP(**SMALL, max_iter=60, random_state=0, kernels=kernels).fit(Xs, Ys)
        spread[kernels] = np.std([np.log(p.scales.local_lengthscale[0, 0]) for p in model._posteriors])
    assert spread["related"] < 0.5 * spread["own"]
    with pytest.raises(ValueError, match="kernels"):
        HierarchicalGP(**SMALL, kernels="none").fit(Xs, Ys)


def test_a_newcomer_has_the_law_of_a_client_without_rows() -> None:
    Xs, Ys = waves()
    model = HierarchicalGP(**SMALL, max_iter=30, random_state=0).fit([*Xs, Xs[0][:0]], [*Ys, Ys[0][:0]])
    X, Y = Xs[0][::4], Ys[0][::4]
    mean, cov = model.newcomer(X)
    error = (Y - mean).ravel()
    density = -0.5 * (error @ np.linalg.solve(cov, error) + np.linalg.slogdet(2.0 * np.pi * cov)[1])
    assert model.log_evidence(3, X, Y) == pytest.approx(density, rel=1e-8)
    same, _ = model.newcomer(X, without=3)
    np.testing.assert_allclose(same, mean, atol=1e-12)


def test_a_newcomer_without_a_client_has_the_law_of_a_fit_that_never_had_it() -> None:
    """With the same kernels, taken over; a client whose hump would otherwise show in the law of a newcomer."""
    Xs, Ys = waves(shifts=(0.1, 0.0, 0.0))
    Ys[2] = Ys[2] + 3.0 * np.exp(-0.5 * (Xs[2] - 5.0) ** 2)
    model = HierarchicalGP(**SMALL, max_iter=30, random_state=0).fit(Xs, Ys)
    X = np.array([[4.5], [5.0]])
    told, (without, cov) = model.newcomer(X)[0], model.newcomer(X, without=2)
    assert (np.abs(told - without) > 1e-3).all()
    never = HierarchicalGP(**SMALL, max_iter=1, random_state=0).fit(Xs[:2], Ys[:2])
    never._units, never.prior_mean_ = model._units, model.prior_mean_
    never.output_scales_ = model.output_scales_
    never._take(replace(model._found, owns=model._found.owns[:2]), model._data[:2], [0, 1])
    mean, spread = never.newcomer(X)
    np.testing.assert_allclose(without, mean, atol=1e-10)
    np.testing.assert_allclose(cov, spread, atol=1e-10)
    with pytest.raises(ValueError, match="no other client"):
        HierarchicalGP(**SMALL, max_iter=2, random_state=0).fit(Xs[:1], Ys[:1]).newcomer(X, without=0)
