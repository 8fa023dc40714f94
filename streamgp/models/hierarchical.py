"""The personalised federated hierarchical GP as an estimator over several clients in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits
from typing_extensions import Self

from streamgp.errors import SettingsError
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Layout, softplus
from streamgp.gp.hierarchy.bound import FACTORS, Factors, Local, solve_local, solve_shared
from streamgp.gp.hierarchy.data import ClientData, client_data
from streamgp.gp.hierarchy.layers import design
from streamgp.gp.hierarchy.total import total_bound
from streamgp.models.hgp.checked import (
    check_among,
    check_whole,
    checked_clients,
    checked_inputs,
    checked_outputs,
    seeded,
)
from streamgp.models.hgp.distances import Kind, component_distances, correlation_distances, operator_distances
from streamgp.models.hgp.fit import Fit, Plan
from streamgp.models.hgp.jointly import fit_jointly
from streamgp.models.hgp.posterior import (
    LAYERS,
    ClientPosterior,
    Evidence,
    client_posterior,
    newcomer_posterior,
)
from streamgp.models.hgp.rounds import Rounds, run_rounds, server_start
from streamgp.models.hgp.start import sizes_of, units_of

#: where the bound asks for more, a residual may get this many times ``n_local`` inducing inputs, or this many
GROWTH, GROWN = 4, 128
#: the same for all latents of the shared layer together, where clients' rows agree only over short distances
GROWN_SHARED = 1024


@final
class HierarchicalGP(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """y_i(x) = B_g h_g(x) + B_d,i h_d,i(x) + B_l,i h_l,i(x) + noise for clients i (pFedHGP, 3.2 and (34)).

    The global layer is shared, the deviation is the client's own on the same kernels scaled by phi, the residual
    is the client's own on kernels of its own. Kernels are squared-exponential with a lengthscale a column. A NaN
    in an output is a missing value. The prior mean is zero and nothing is standardised; but where all rows are in one
    process, the mean of an output that is more than ten times the spread is the prior's, and told as global, and
    outputs whose sizes differ by more than eight times are each measured by their own size, ``output_scales_``.

    Parameters
    ----------
    n_outputs
        Q, outputs a row.
    n_global, n_local
        Inducing inputs of the global kernels, and of each client's residual; no more than there are different rows.
    rank_global, rank_deviation, rank_local
        Latent processes a layer. With one output and ranks of one there are no loadings: the paper's scalar model.
    rounds
        Rounds of Algorithm 1 where ``optimizer="rounds"``.
    components
        The layers to have, some of ``global``, ``deviation``, ``local``.
    random_state
        Seed of the random starts.
    factors
        Which blocks of q are kept together: ``mean_field`` is (9) of the paper, ``joint`` keeps a client's
        deviation and residual together, ``structured`` also conditions them on the global block (the tightest).
    optimizer
        ``lbfgs``: all blocks at once on the collapsed bound, the best way where all rows are in one process;
        ``rounds``: Algorithm 1, what a federation over topics does.
    budget
        ``elbo``: a residual gets as many inducing inputs (up to 128, or 4 x ``n_local``) as the bound asks for,
        and not more; ``fixed``: ``n_local`` of them, moved by gradient.
    ranks
        ``elbo``: with several outputs the residual gets up to one latent an output where the bound asks for more
        than ``rank_local``; ``fixed``: it has ``rank_local``, as with a fixed budget, and by rounds, always.
    lengthscale
        Of the global and deviation kernels, in units of x, where it is known, such as the resolution of the inputs;
        by default it is fitted.
    noise
        ``shared``: one noise variance, as the paper's; ``client``: each client has one of its own.
    kernels
        ``related``: the residual's lengthscales of a client are drawn towards the other clients', as far as the rows
        agree; ``own``: each client's rows alone decide, as in the paper and, whatever this says, by rounds.
    n_starts, max_iter
        Random starts, and L-BFGS iterations of the best.

    Attributes
    ----------
    lower_bound_ : the bound reached, in nats, in working units.
    n_features_in_, n_clients_ : columns of X, clients.
    noise_variance_ : of y / output_scales_, squared; of the clients' average logarithm where each has its own.
    noise_variances_ : (n_clients_,) each client's.
    output_scales_ : (n_outputs,) ones, or the sizes of outputs in different units.
    prior_mean_ : (n_outputs,) zero, or the means of outputs far from it.
    phi_ : scale of the deviations' kernels; what they come to is also in their loadings.
    lengthscales_ : (kernels, n_features_in_) of the global kernels, in units of x.
    n_inducing_, rank_local_ : each client's residual inducing inputs, and residual latents.

    Notes
    -----
    One client: the split between global and deviation rests on the prior alone, their sum does not. Identical
    clients: the global layer explains them, own parts tend to 0 by loadings, amplitudes or phi, so that ``phi_`` alone
    says nothing then. A client without rows: it is predicted by the global layer with the spread that the other
    clients' own layers show.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0.0, 10.0, 30)[:, None]
    >>> ys = [np.sin(x) + shift for shift in (0.0, 0.5)]
    >>> model = HierarchicalGP(n_global=8, rank_global=1, rank_deviation=1, rank_local=1, random_state=0)
    >>> mean, cov = model.fit([x, x], ys).predict(1, np.array([[5.0]]))
    >>> mean.shape, cov.shape, bool(abs(mean[0, 0] - np.sin(5.0) - 0.5) < 0.1)
    ((1, 1), (1, 1, 1), True)
    """

    def __init__(
        self,
        n_outputs: int = 1,
        n_global: int = 25,
        n_local: int = 25,
        rank_global: int = 2,
        rank_deviation: int = 2,
        rank_local: int = 2,
        rounds: int = 20,
        components: Sequence[str] = LAYERS,
        random_state: int | np.random.Generator | None = None,
        *,
        factors: Factors = "structured",
        optimizer: Literal["lbfgs", "rounds"] = "lbfgs",
        budget: Literal["elbo", "fixed"] = "elbo",
        ranks: Literal["elbo", "fixed"] = "elbo",
        lengthscale: float | Sequence[float] | None = None,
        noise: Literal["shared", "client"] = "shared",
        kernels: Literal["related", "own"] = "related",
        n_starts: int = 3,
        max_iter: int = 200,
    ) -> None:
        self.n_outputs = n_outputs
        self.n_global = n_global
        self.n_local = n_local
        self.rank_global = rank_global
        self.rank_deviation = rank_deviation
        self.rank_local = rank_local
        self.rounds = rounds
        self._components = components
        self.random_state = random_state
        self.factors = factors
        self.optimizer = optimizer
        self.budget = budget
        self.ranks = ranks
        self.lengthscale = lengthscale
        self.noise = noise
        self.kernels = kernels
        self.n_starts = n_starts
        self.max_iter = max_iter

    def fit(self, Xs: Sequence[Array], Ys: Sequence[Array]) -> Self:
        """Fit on the rows of every client: X (n_i, d) and Y (n_i, Q), or (n_i,) where Q is 1.

        Raises
        ------
        ValueError
            If shapes disagree, an input is not finite, or no client has a row.
        """
        layout, rng = self._layout(), seeded(self.random_state)
        Xs, Ys = checked_clients(Xs, Ys, self.n_outputs)
        self.n_features_in_, self.n_clients_ = Xs[0].shape[1], len(Xs)
        self.prior_mean_, self.output_scales_ = sizes_of(Ys, centred=self.optimizer == "lbfgs")
        Ys = [(Y - self.prior_mean_) / self.output_scales_ for Y in Ys]
        self._units = units_of(Xs, Ys)
        data = [client_data(self._units.inputs(X), Y / self._units.scale) for X, Y in zip(Xs, Ys, strict=True)]
        active = [i for i, x in enumerate(data) if x.count]
        plan = Plan(
            layout=layout,
            factors=self.factors,
            n_global=self.n_global,
            n_local=self.n_local,
            most_local=max(GROWTH * self.n_local, GROWN) if self.budget == "elbo" else self.n_local,
            n_starts=self.n_starts,
            max_iter=self.max_iter,
            most_global=max(GROWTH * self.n_global, GROWN_SHARED // max(layout.n_kernels, 1))
            if self.budget == "elbo"
            else 0,
            lengthscale=self._known_lengthscale(),
            most_rank=self.n_outputs if self.ranks == self.budget == "elbo" else 0,
            related=self.kernels == "related",
        )
        with threadpool_limits(limits=1, user_api="blas"):
            if self.optimizer == "rounds":
                found = self._in_rounds({str(i): data[i] for i in active}, plan, int(rng.integers(2**31)))
            else:
                found = fit_jointly([data[i] for i in active], plan, rng)
            self._take(found, data, active)
        return self

    def predict(self, client: int, X: Array, *, latent: bool = False) -> tuple[Array, Array]:
        """Mean (n, Q) and covariance (n, Q, Q) of the client's y at rows X (n, d); of f where ``latent``."""
        mean, cov = self._posterior(client).predict(self._inputs(X), latent=latent)
        return mean * self._sizes + self.prior_mean_, cov * np.outer(self._sizes, self._sizes)

    def components(self, client: int, X: Array) -> dict[str, Array]:
        """Means (n, Q) of ``global``, ``deviation`` and ``local`` at X; they add up to the latent mean.

        The constructor's parameter of the same name is read with ``get_params()["components"]``.
        """
        parts = self._posterior(client).parts(self._inputs(X))
        told = {name: part * self._sizes for name, part in parts.items()}
        first = next(name for name in LAYERS if name in self._components)  # what all clients share is in the first
        return told | {first: told[first] + self.prior_mean_}

    def newcomer(self, X: Array, *, without: int | None = None) -> tuple[Array, Array]:
        """The joint law of y, for rows X (n, d), of a client that was not there: mean (n, Q) and covariance (n Q, n Q).

        It has the global layer, and own layers with the spread that the clients' show; the covariance is row by row.
        With ``without``, a client of the fit, it is the law as if that one's rows had not been there either (kernels
        stay): what a client is judged by before it is known.

        Raises
        ------
        ValueError
            If no client with rows is left.
        """
        check_is_fitted(self)
        if without is not None:
            self._posterior(without)
        active = [i for i, x in enumerate(self._data) if x.count]
        if not self._solved:
            pairs = zip(active, self._found.owns, strict=True)
            made = ((self._data[i], self._found.shared, own, self._found.layout) for i, own in pairs)
            self._solved: list[Local] = [solve_local(design(*parts), self.factors) for parts in made]
        kept = [k for k, i in enumerate(active) if i != without]
        if not kept:
            raise ValueError("no other client has a row")
        shared, layout = self._found.shared, self._found.layout
        q = solve_shared([self._solved[k] for k in kept], layout.rank_global * len(shared["inducing"]))
        owns = tuple(self._found.owns[k] for k in kept)
        law = newcomer_posterior(q, shared=shared, owns=owns, layout=layout).evidence(self._inputs(X))
        mean = law.mean.reshape(-1, self.n_outputs)
        sizes = np.tile(self._sizes, len(mean))
        return mean * self._sizes + self.prior_mean_, law.cov * np.outer(sizes, sizes)

    def log_evidence(self, client: int, X: Array, Y: Array) -> float:
        """Joint log density of Y (n, Q) at X (n, d) under the client's predictive law: (31). NaN is left out."""
        posterior, rows, Y = self._posterior(client), self._inputs(X), checked_outputs(Y, self.n_outputs)
        if len(rows) != len(Y):
            raise ValueError(f"X has shape {rows.shape}, Y {Y.shape}")
        known = self._laws.get(client)
        if known is None or known[0] != rows.tobytes():
            known = self._laws[client] = (rows.tobytes(), posterior.evidence(rows))
        density = known[1].log_density((Y - self.prior_mean_) / self._sizes)
        return density - float(np.isfinite(Y).sum(axis=0) @ np.log(self._sizes))

    def classify(self, X: Array, Y: Array) -> int | NDArray[np.intp]:
        """The client under whose law Y at X (n, d) is likeliest: (32). The first one, where several are.

        Y is (n, Q), or (S, n, Q) for S batches at the same X, which then gives S answers for one factorisation.
        """
        check_is_fitted(self)
        batches = np.asarray(Y)
        many = batches.ndim == 3
        if not np.size(X) or not batches.size:
            raise ValueError(f"nothing to classify: X has shape {np.shape(X)}, Y {batches.shape}")
        batches = np.stack([checked_outputs(batch, self.n_outputs) for batch in (batches if many else [batches])])
        for s in np.flatnonzero(~np.isfinite(batches).any(axis=(1, 2))):
            raise ValueError(f"nothing to classify: {f'batch {s} of Y' if many else 'Y'} is NaN throughout")
        scores = [[self.log_evidence(client, X, batch) for client in range(self.n_clients_)] for batch in batches]
        best = np.argmax(np.reshape(scores, (-1, self.n_clients_)), axis=1)
        return best if many else int(best[0])

    def client_distances(self, kind: Kind = "components", *, X: Array | None = None) -> Array:
        """(T, T) distances between clients: 3.8.2.

        ``components`` is the root mean square difference of the fitted own parts (deviation + residual), in units
        of y / ``output_scales_``, over rows X or over all distinct rows of the fit; ``correlation`` is one less the
        correlation of the fitted own parts there; ``operator`` is the paper's, from inputs and kernels alone.
        """
        check_is_fitted(self)
        if kind == "operator":
            return operator_distances(self._posteriors, [x.X for x in self._data])
        if kind not in ("components", "correlation"):
            raise ValueError(f"kind must be components, correlation or operator, got {kind!r}")
        rows = np.unique(np.concatenate([x.X for x in self._data]), axis=0) if X is None else self._inputs(X)
        if len(rows) == 0:
            raise ValueError("X has no rows to compare clients at")
        if kind == "correlation":
            return correlation_distances(self._posteriors, rows)
        return component_distances(self._posteriors, rows) * self._units.scale

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""
        return {**super().get_params(deep), "components": self._components}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        if "components" in params:
            self._components = params.pop("components")
        super().set_params(**params)
        return self

    def _known_lengthscale(self) -> Array | None:
        """The given lengthscale (d,) in working units."""
        if self.lengthscale is None:
            return None
        try:
            given = np.broadcast_to(np.asarray(self.lengthscale, dtype=np.float64), (self.n_features_in_,))
        except (TypeError, ValueError) as error:
            raise SettingsError(
                f"lengthscale must be a number, or {self.n_features_in_}, one a column, got {self.lengthscale!r}"
            ) from error
        if not (np.isfinite(given).all() and (given > 0.0).all()):
            raise SettingsError(f"lengthscale must be positive, got {self.lengthscale!r}")
        return np.asarray(given * (10.0 / self._units.span))

    def _layout(self) -> Layout:
        """The layers that the parameters ask for."""
        named = self._components.tolist() if isinstance(self._components, np.ndarray) else self._components
        if isinstance(named, str) or not isinstance(named, Sequence) or not named or set(named) - set(LAYERS):
            raise SettingsError(f"components must be some of {LAYERS}, got {named!r}")
        check_among(
            factors=(self.factors, FACTORS),
            optimizer=(self.optimizer, ("lbfgs", "rounds")),
            budget=(self.budget, ("elbo", "fixed")),
            ranks=(self.ranks, ("elbo", "fixed")),
            noise=(self.noise, ("shared", "client")),
            kernels=(self.kernels, ("related", "own")),
        )
        names = ("n_outputs", "n_global", "n_local", "n_starts", "rounds", "max_iter")
        check_whole(**{name: getattr(self, name) for name in (*names, *(f"rank_{layer}" for layer in LAYERS))})
        ranks = {layer: getattr(self, f"rank_{layer}") for layer in LAYERS}
        kept = [ranks[name] if name in named else 0 for name in LAYERS]
        return Layout(self.n_outputs, kept[0], kept[1], kept[2], own_noise=self.noise == "client")

    def _in_rounds(self, data: dict[str, ClientData], plan: Plan, seed: int) -> Fit:
        """Algorithm 1 with every client in this process."""
        X = np.concatenate([x.X for x in data.values()])
        schedule = Rounds(rounds=self.rounds, seed=seed)
        state = server_start(plan, schedule, low=X.min(axis=0), high=X.max(axis=0))
        state, owns = run_rounds(data, state, plan, schedule)
        blocks = tuple(owns[name] for name in data)
        total = total_bound(list(data.values()), state.block, blocks, plan.layout, factors=plan.factors, gradient=False)
        return Fit(dict(state.block), blocks, total.value, (), plan.layout)

    def _take(self, found: Fit, data: list[ClientData], active: list[int]) -> None:
        """Keep a fit and work out every client's belief."""
        layout = found.layout
        designs, locals_ = [], []
        for i, own in zip(active, found.owns, strict=True):
            made = design(data[i], found.shared, own, layout)
            locals_.append(solve_local(made, self.factors))
            designs.append(made.outline())  # with as many inducing inputs as rows the rest is most of the memory
        q = solve_shared(locals_, layout.rank_global * len(found.shared["inducing"]))
        newcomer = newcomer_posterior(q, shared=found.shared, owns=found.owns, layout=layout)
        posteriors = [newcomer] * len(data)
        for i, d, own, local in zip(active, designs, found.owns, locals_, strict=True):
            posteriors[i] = client_posterior(
                d, q, shared=found.shared, own=own, layout=layout, factors=self.factors, local=local
            )
        self._posteriors: list[ClientPosterior] = posteriors
        self._data = data
        self._laws: dict[int, tuple[bytes, Evidence]] = {}
        self._found = found
        self._solved = []  # by client with rows, made when a newcomer is asked about
        self.lower_bound_ = found.value
        self.noise_variances_ = np.array([p.scales.noise for p in posteriors]) * self._units.scale**2
        self.noise_variance_ = float(np.exp(np.mean(np.log(self.noise_variances_))))
        self.phi_ = float(softplus(found.shared["eta_phi"])[0])
        self.lengthscales_ = softplus(found.shared["eta_lengthscale"]) * (self._units.span / 10.0)
        self.rank_local_ = layout.rank_local
        self.n_inducing_ = [len(p.own["inducing"]) for p in posteriors]

    @property
    def _sizes(self) -> Array:
        """(Q,) what is one in working units."""
        return self._units.scale * self.output_scales_

    def _posterior(self, client: int) -> ClientPosterior:
        check_is_fitted(self)
        if isinstance(client, bool) or not isinstance(client, (int, np.integer)) or not 0 <= client < self.n_clients_:
            raise ValueError(f"client must be 0 to {self.n_clients_ - 1}, got {client!r}")
        return self._posteriors[client]

    def _inputs(self, X: Array) -> Array:
        rows = checked_inputs(X, self.n_features_in_)
        # beyond every row: the covariance with them is zero there, and a square still a number
        return np.clip(self._units.inputs(rows), -1e100, 1e100)
