"""The models of pFedHGP 4.4 as functions from a sample to every client's predictive law."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from streamgp.experiments.hierarchical.simulate import Sample, exact_bayes
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Layout
from streamgp.gp.hierarchy.bound import Shared
from streamgp.gp.hierarchy.data import client_data
from streamgp.gp.hierarchy.layers import design
from streamgp.gp.hierarchy.shared_step import first_state
from streamgp.models.hgp.client import client_step
from streamgp.models.hgp.fit import Plan, grown
from streamgp.models.hgp.posterior import client_posterior
from streamgp.models.hgp.start import start_own, start_shared, units_of
from streamgp.models.hierarchical import HierarchicalGP

#: one mean (m, Q) and covariance (m, Q, Q) of y a client
Answers: TypeAlias = list[tuple[Array, Array]]
Method: TypeAlias = Callable[[Sample, int], Answers]

#: what a client is synchronised on in the pFedGP baseline: the hyperparameters of its input kernels
AVERAGED = ("eta_lengthscale", "eta_variance")


def hierarchical(sample: Sample, seed: int, **parameters: Any) -> Answers:
    """The hierarchical model, or with fewer ``components`` one of its ablations."""
    model = HierarchicalGP(sample.Y[0].shape[1], random_state=seed, **parameters).fit(sample.X, sample.Y)
    return [model.predict(i, sample.X_test) for i in range(len(sample.X))]


def exact(sample: Sample, seed: int) -> Answers:
    """The exact Bayes predictor: all rows, true kernels, loadings and noise. Nothing is learned, nothing beats it."""
    return exact_bayes(sample)


def averaged(sample: Sample, seed: int, *, rounds: int = 20, iterations: int = 20) -> Answers:
    """pFedGP-style: every client has a multi-output GP of its own, and kernels are averaged after every round.

    Four latents a client, as many as the hierarchical model has client-wise and twice as many as its residual, so
    that a smooth and a rough part fit in; loadings stay with the client, kernel hyperparameters are averaged (FedAvg).
    """
    Q = sample.Y[0].shape[1]
    units = units_of(sample.X, sample.Y)
    data = [client_data(units.inputs(X), Y / units.scale) for X, Y in zip(sample.X, sample.Y, strict=True)]
    layout = Layout(Q, 0, 0, 4)
    plan = Plan(layout=layout, factors="structured", n_global=1, n_local=25, most_local=128, n_starts=1, max_iter=0)
    rng = np.random.default_rng(seed)
    shared = start_shared(data[0].X, layout, 1, rng)
    state = first_state(shared, layout)
    owns = [grown(x, shared, _spread(start_own(x.X, layout, 25, rng)), plan) for x in data]
    for _ in range(rounds):
        steps = [
            client_step(state, x, own, layout=layout, factors="structured", iterations=iterations)
            for x, own in zip(data, owns, strict=True)
        ]
        mean = {name: np.mean([s.own[name] for s in steps], axis=0) for name in AVERAGED}
        noise = np.mean([s.summary["eta_noise"] / x.count for s, x in zip(steps, data, strict=True)])
        block = dict(state.block)
        # the noise is shared as well: a sign step, as its derivative's size says little about its distance
        block["eta_noise"] = block["eta_noise"] + 0.2 * np.sign(noise)
        state = first_state(block, layout)
        owns = [{**s.own, **mean} for s in steps]
    none = Shared(np.zeros(0), np.zeros((0, 0)), 0.0)
    answers = []
    for x, own in zip(data, owns, strict=True):
        d = design(x, state.block, own, layout)
        belief = client_posterior(d, none, shared=state.block, own=own, layout=layout, factors="structured")
        mean_y, cov = belief.predict(units.inputs(sample.X_test))
        answers.append((mean_y * units.scale, cov * units.scale**2))
    return answers


def _spread(own: dict[str, Array]) -> dict[str, Array]:
    """Half of the latents smooth from the start: a GP of its own has no other layer for the smooth part."""
    eta = own["eta_lengthscale"].copy()
    eta[len(eta) // 2 :] = 2.0
    return {**own, "eta_lengthscale": eta}


#: the ranks of 4.2 as they are, for the ablations of the paper
GIVEN: dict[str, Any] = {"ranks": "fixed"}
#: GPs of the clients' own that share nothing but the noise variance; and such with all that the full model has else
PRIVATE: dict[str, Any] = {"components": ("local",), "kernels": "own", "ranks": "fixed"}
#: name in the tables -> method; those with four latents are not of the paper, but the strongest of their kind
METHODS: dict[str, Method] = {
    "exact Bayes": exact,
    "full": hierarchical,
    "full, joint factors": partial(hierarchical, factors="joint"),
    "full, mean field": partial(hierarchical, factors="mean_field"),
    "full, kernels of each client's own": partial(hierarchical, kernels="own"),
    "full, ranks of two": partial(hierarchical, **GIVEN),
    "full, 25 residual inducing inputs": partial(hierarchical, budget="fixed", **GIVEN),
    "full, Algorithm 1 in 40 rounds": partial(hierarchical, optimizer="rounds", rounds=40),
    "no deviation": partial(hierarchical, components=("global", "local"), **GIVEN),
    "no local": partial(hierarchical, components=("global", "deviation"), **GIVEN),
    "global only": partial(hierarchical, components=("global",), **GIVEN),
    "local only": partial(hierarchical, **PRIVATE),
    "no deviation, four latents": partial(hierarchical, components=("global", "local"), rank_local=4),
    "local only, four latents": partial(hierarchical, rank_local=4, **PRIVATE),
    "local only, ranks by the bound, related kernels": partial(hierarchical, components=("local",)),
    "pFedGP": averaged,
}
