"""What the studies of attacks share: the attack-free product, the rules under attack and the attacked product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from streamgp.experiments.byzantine.network import DEFAULT_NEIGHBORS
from streamgp.experiments.byzantine.toy import Answers
from streamgp.experiments.byzantine.trials import Panel, Trials, mse
from streamgp.fusion import Fused, product_of_experts, trimmed_poe
from streamgp.gp.gaussian import Array

METHODS = ("attack-free", "trimmed", "attacked")
NEIGHBORS = (1, DEFAULT_NEIGHBORS)  # the paper's k, and our default

Rule: TypeAlias = Callable[[Array, Array], Fused]
_NO_RULES: Mapping[str, Rule] = MappingProxyType({})
X = TypeVar("X", int, float)


def judge(
    trials: Trials,
    setting: str,
    honest: Answers,
    said: tuple[Array, Array],
    n_trim: int,
    *,
    beside: Mapping[str, Rule] = _NO_RULES,
) -> None:
    """Squared errors of one repetition, as rows of ``trials``.

    Parameters
    ----------
    trials
        Where they go.
    setting
        Name of the setting.
    honest
        What the network says if nobody lies, and what is true.
    said : (n, m) and (n, m)
        What reached the cloud.
    n_trim
        The cut of rule (6).
    beside
        Further rules to be judged, by method.
    """
    fused = {
        "attack-free": product_of_experts(honest.means, honest.variances),
        "trimmed": trimmed_poe(*said, n_trim),
        **{method: rule(*said) for method, rule in beside.items()},
        "attacked": product_of_experts(*said),
    }
    for method, result in fused.items():
        trials.add(setting, method, mse(result.mean, honest.truth))


def panels(
    trials: Trials,
    x: Sequence[X],
    titles: Mapping[str, str],
    setting: Callable[[str, X, int], str],
    *,
    xlabel: str,
    methods: Sequence[str] = METHODS,
) -> list[Panel]:
    """A panel for each of the ``titles`` by name, a curve over ``x`` for each method and number of neighbours."""
    return [
        (
            title,
            xlabel,
            x,
            {f"{m}, k={k}": trials.curve([setting(name, at, k) for at in x], m) for k in NEIGHBORS for m in methods},
        )
        for name, title in titles.items()
    ]
