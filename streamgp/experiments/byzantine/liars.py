"""Some agents of an honest network begin to lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.experiments.byzantine.network import Ints
from streamgp.fusion import Answer, make_attack
from streamgp.gp.gaussian import Array

_INFORMED = {"alie": ("n_liars",), "collusion": ("n_liars", "n_trim")}


def draw_liars(n: int, count: int, rng: np.random.Generator) -> Ints:
    """``count`` of n agents, at random."""
    return np.sort(rng.permutation(n)[:count])


def lie(
    means: Array,
    variances: Array,
    liars: Ints,
    kind: str,
    *,
    query_id: str,
    seed: int,
    noise_variance: float = 0.0,
    learned: int = 10_000,
    n_trim: int = 0,
    **settings: Any,
) -> tuple[Array, Array]:
    """The answers (n, m) that reach the cloud when some agents strike.

    An agent that is silent has NaN in its row, which no rule uses. Of many answers to one query the cloud takes
    the first, and it knows no query that it did not ask.

    Parameters
    ----------
    means, variances : (n, m)
        Honest answers; they are not changed.
    liars
        Rows of those who lie.
    kind
        Of :data:`streamgp.fusion.KINDS`.
    query_id, seed
        What the liars' dice depend on.
    noise_variance, learned
        Of the honest answers.
    n_trim
        The cut that colluding liars try to survive.
    **settings
        Of the attack.
    """
    M, V = means.copy(), variances.copy()
    n, m = M.shape
    noise = np.full(m, noise_variance)
    known = {"n_liars": len(liars), "n_trim": n_trim}
    own = {name: known[name] for name in _INFORMED.get(kind, ())}
    liar_set = set(liars.tolist())
    seen: list[Answer] | None = None
    for i in liars:
        attack = make_attack(kind, seed=seed, agent=str(i), **{**own, **settings})
        if attack.needs_others and seen is None:
            seen = [Answer(query_id, means[j], variances[j], noise) for j in range(n) if j not in liar_set]
        sent = attack.strike(query_id, means[i], variances[i], noise, learned=learned, others=seen)
        heard = [answer for answer in sent if answer.query_id == query_id]
        M[i], V[i] = (heard[0].mean, heard[0].variance) if heard else (np.nan, np.nan)
    return M, V
