"""The server's part of a round of the hierarchical model: check, aggregate, ascend (pFedHGP 24-29); pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, TypeAlias

import numpy as np

from streamgp.errors import NotPositiveDefiniteError
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Layout
from streamgp.gp.hierarchy.shared_step import COVARIANCE, MEAN, Ascent, SharedState, ascend

#: sum: (24). trimmed: coordinate by coordinate, the largest and smallest share left out, times the clients used
Rule: TypeAlias = Literal["sum", "trimmed"]
#: ok: the state moved. empty: all that answered had nothing to say. failed: too few usable answers.
RoundStatus: TypeAlias = Literal["ok", "empty", "failed"]
Summary: TypeAlias = Mapping[str, Array]
#: a number beyond this is no derivative; its square must not overflow
LARGEST = 1e100


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What a round gave: the state (the very same object unless ``status`` is ok), who was used and who was not.

    ``refused`` says why by client; ``silent`` had nothing to say.
    """

    state: SharedState
    status: RoundStatus
    used: tuple[str, ...]
    silent: tuple[str, ...]
    refused: dict[str, str]


def server_step(
    state: SharedState,
    summaries: Mapping[str, Summary],
    *,
    layout: Layout,
    ascent: Ascent,
    rule: Rule = "sum",
    beta: float = 1 / 6,
    min_clients: int = 1,
    known: int = 0,
) -> RoundResult:
    """Lines 8-9 of Algorithm 1 on the clients' summaries (23), an empty one meaning that a client has no rows.

    A summary that is not finite, or not of the state's shapes, is refused by name and never enters. Nothing that is
    not finite leaves: a step that fails numerically leaves the state as it is. The order of the clients is theirs
    by name, so that it does not depend on who answered first.

    Parameters
    ----------
    rule, beta
        ``trimmed`` leaves out ``ceil(beta * n)`` values at each end of every coordinate.
    min_clients
        Usable summaries without which the round fails.
    known
        Clients that take part in the training, if more than answered with something: the others' share is made up
        for by those who did, and q(v_g) moves by their fraction only, as in stochastic variational inference, so
        that a round without a client does not forget what it knew.
    """
    refused = {}
    used: dict[str, Summary] = {}
    silent = []
    for client in sorted(summaries):
        summary = summaries[client]
        if not summary:
            silent.append(client)
            continue
        reason = unusable(summary, state)
        if reason is None:
            used[client] = summary
        else:
            refused[client] = reason
    names = tuple(used)
    if not used and silent and not refused:
        return RoundResult(state, "empty", (), tuple(silent), {})
    n_trim = ceil(beta * len(used)) if rule == "trimmed" else 0
    if len(used) < max(min_clients, 1) or 2 * n_trim >= len(used):
        return RoundResult(state, "failed", names, tuple(silent), refused)
    try:
        share = len(used) / max(known, len(used))
        total = {name: a / share for name, a in aggregated(used, n_trim=n_trim).items()}
        moved = ascend(state, total, layout, replace(ascent, q_rate=ascent.q_rate * share))
    except NotPositiveDefiniteError:
        return RoundResult(state, "failed", names, tuple(silent), refused)
    if not _finite(moved):
        return RoundResult(state, "failed", names, tuple(silent), refused)
    return RoundResult(moved, "ok", names, tuple(silent), refused)


def aggregated(summaries: Mapping[str, Summary], *, n_trim: int) -> dict[str, Array]:
    """The sum over clients, or with ``n_trim`` the coordinate-wise trimmed mean times their number."""
    first = next(iter(summaries.values()))
    total = {}
    for name in first:
        stack = np.stack([summary[name] for summary in summaries.values()])
        if n_trim == 0:
            total[name] = np.asarray(sum(stack[1:], start=stack[0].copy()))
        else:
            kept = np.sort(stack, axis=0)[n_trim : len(stack) - n_trim]
            total[name] = np.asarray(kept.mean(axis=0) * len(stack))
    return total


def unusable(summary: Summary, state: SharedState) -> str | None:
    """Why a summary cannot be used with this state, or None."""
    size = len(state.mean)
    shapes = {name: a.shape for name, a in state.block.items()} | {MEAN: (size,), COVARIANCE: (size, size)}
    if set(summary) != set(shapes):
        return "arrays missing or unknown: " + ", ".join(sorted(set(summary) ^ set(shapes)))
    for name, shape in shapes.items():
        if summary[name].shape != shape:
            return f"{name} has shape {summary[name].shape}, not {shape}"
        if not np.isfinite(summary[name]).all():
            return f"{name} is not finite"
        if summary[name].size and float(np.abs(summary[name]).max()) > LARGEST:
            return f"{name} is beyond {LARGEST:g}"
    return None


def _finite(state: SharedState) -> bool:
    arrays = [state.mean, state.precision, *state.block.values(), *state.first.values(), *state.second.values()]
    return all(bool(np.isfinite(a).all()) for a in arrays)
