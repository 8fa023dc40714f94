"""Several random starts climb the collapsed bound, the best of them to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, softplus, softplus_inverse
from streamgp.gp.hierarchy.data import ClientData
from streamgp.gp.hierarchy.exact import all_rows
from streamgp.models.hgp.fit import Fit, Plan, grown, grown_shared, maximise
from streamgp.models.hgp.reconsider import TRIAL_ITERATIONS, reconsider_budgets, reconsider_rank
from streamgp.models.hgp.start import shared_reach, start_own, start_shared

#: a shared reach (working units, spans are 10) below this gets starts, and inducing inputs, of its own
ROUGH_REACH = 0.8
#: iterations of a rough start with its lengthscale and inducing inputs held, and its noise variance then: the
#: optimiser's first step is as long as the unknown is large, and would throw a good lengthscale away for noise
SETTLE_ITERATIONS, SETTLE_NOISE = 8, 0.2
#: variance of deviations and residuals, as a share of the mean square of y, and of the noise, where all start rough
ROUGH_OWN, ROUGH_NOISE = 0.1, 0.05
#: noise variances of the starts in turn, as shares of the mean square of y
START_NOISE = (0.01, 0.1, 0.03)


def fit_jointly(data: Sequence[ClientData], plan: Plan, rng: np.random.Generator) -> Fit:
    """Random starts, the best of them to the end, then budgets that the bound says are too large or too small.

    No layer gets more inducing inputs than there are different rows: those rows say all.
    """
    everywhere = np.concatenate([x.X for x in data])
    different = np.unique(everywhere, axis=0)
    plan = replace(plan, n_global=min(plan.n_global, len(different)))
    trials = []
    known = plan.lengthscale
    reach = shared_reach(data, rng) if known is None else float(np.min(known))
    # a shared layer rougher than the usual start: without a start there the optimiser takes it for noise
    room = plan.most_global > plan.n_global or plan.n_global == len(different)
    rough = plan.layout.n_kernels > 0 and reach is not None and reach < ROUGH_REACH and room
    for k in range(plan.n_starts):
        shared = start_shared(
            everywhere,
            plan.layout,
            plan.n_global,
            rng,
            noise=START_NOISE[k % len(START_NOISE)],
            reach=reach if rough and k % 2 == 0 else None,
        )
        if len(different) == plan.n_global:
            shared["inducing"] = different
        settles = rough and (known is not None or k % 2 == 0)
        if known is not None:
            shared["eta_lengthscale"] = softplus_inverse(np.tile(known, (plan.layout.n_kernels, 1)))
        if settles:
            # grown for a small noise variance, so that the trace does not keep it large
            shared["eta_noise"] = softplus_inverse(np.array([START_NOISE[0]]))
            shared = grown_shared(everywhere, shared, plan)
            shared["eta_noise"] = softplus_inverse(np.array([SETTLE_NOISE]))
        owns = [_own(x.X, plan, rng) for x in data]
        if settles and k == 0 and reach is not None and all_rows(shared["inducing"], everywhere):
            shared, owns = _all_rough(data, shared, owns, reach)
        owns = [grown(x, shared, own, plan) for x, own in zip(data, owns, strict=True)]
        if settles:
            held = replace(plan, hold=("inducing", "eta_lengthscale"))
            _, (shared, *owns) = maximise(data, [shared, *owns], held, max_iter=min(SETTLE_ITERATIONS, plan.max_iter))
        trials.append(maximise(data, [shared, *owns], plan, max_iter=min(TRIAL_ITERATIONS, plan.max_iter)))
    best = int(np.argmax([value for value, _ in trials]))
    value, blocks = trials[best]
    history = [value]
    if plan.max_iter > TRIAL_ITERATIONS:
        value, blocks = maximise(data, blocks, plan, max_iter=plan.max_iter - TRIAL_ITERATIONS)
        history.append(value)
    value, blocks, plan = reconsider_rank(data, blocks, plan, value=value, rng=rng)
    history.append(value)
    if plan.grows and plan.layout.rank_local:
        value, blocks = reconsider_budgets(data, blocks, plan, value=value)
        history.append(value)
    return Fit(blocks[0], tuple(blocks[1:]), value, tuple(history), plan.layout)


def _all_rough(
    data: Sequence[ClientData], shared: Block, owns: Sequence[Block], reach: float
) -> tuple[dict[str, Array], list[dict[str, Array]]]:
    """A start whose residuals are as rough as the shared layer, and small, where all rows are inducing.

    What a client has of its own may end as fast as what it shares. From a smooth or a large residual the optimiser
    takes that for noise, and does not come back: noise is then too large for a rough residual to be worth anything.
    """
    made = []
    for x, own in zip(data, owns, strict=True):
        usual = softplus(own["eta_lengthscale"])
        if len(usual) and all_rows(own["inducing"], x.X):
            # several latents: from the reach up to what is usual
            share = np.linspace(1.0, 0.0, max(len(usual), 2))[: len(usual), None]
            lengths = np.minimum(reach**share * usual ** (1.0 - share), usual)
            small = softplus_inverse(np.full(len(usual), ROUGH_OWN))
            own = {**own, "eta_lengthscale": softplus_inverse(lengths), "eta_variance": small}
        made.append(dict(own))
    less = {"eta_phi": softplus_inverse(np.array([ROUGH_OWN])), "eta_noise": softplus_inverse(np.array([ROUGH_NOISE]))}
    return {**shared, **less}, made


def _own(X: Array, plan: Plan, rng: np.random.Generator) -> dict[str, Array]:
    """A client's own block at the start, with as many inducing inputs as its rows (n, d) can use."""
    different = np.unique(X, axis=0)
    block = start_own(X, plan.layout, min(plan.n_local, len(different)), rng, fixed=not plan.grows)
    return {**block, "inducing": different} if len(different) <= plan.n_local else block
