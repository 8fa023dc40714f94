"""The server's part of a round of the hierarchical model: check, aggregate, ascend (pFedHGP 24-29); pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, TypeAlias

import numpy as np

from streamgp.errors import NotPositiveDefiniteError
from streamgp.fusion.guard import guarded
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Layout
from streamgp.gp.hierarchy.shared_step import COVARIANCE, MEAN, Ascent, SharedState, ascend

#: sum: (24). trimmed: the sum of whole summaries without conspicuous ones (``guard``). coordinates: number by number,
#: the largest and the smallest share left out, the mean of the rest times the clients used (Yin et al. 2018)
Rule: TypeAlias = Literal["sum", "trimmed", "coordinates"]
#: ok: the state moved. empty: all that answered had nothing to say. failed: too few usable answers.
RoundStatus: TypeAlias = Literal["ok", "empty", "failed"]
Summary: TypeAlias = Mapping[str, Array]
#: a number beyond this is no derivative; its square must not overflow
LARGEST = 1e100
#: why a client is refused for what it sent before
DISTRUSTED = "not believed after what it sent before"
#: with fewer a lie and the truth cannot be told from each other
FEWEST = 3


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
    known: Collection[str] = (),
    distrusted: Collection[str] = (),
    noise: float = 0.0,
) -> RoundResult:
    """Lines 8-9 of Algorithm 1 on the clients' summaries (23), an empty one meaning that a client has no rows.

    A summary that is not finite, or not of the state's shapes, is refused by name and never enters. Nothing that is
    not finite leaves: a step that fails numerically leaves the state as it is. The order of the clients is theirs
    by name, so that it does not depend on who answered first.

    Parameters
    ----------
    rule, beta
        ``trimmed`` stands ``ceil(beta * n)`` liars, ``coordinates`` leaves out so many values at each end of every
        coordinate; fewer where that would be half of the clients.
    min_clients
        Usable summaries without which the round fails; see :func:`needed`.
    known
        Clients that had something to say before and still take part: the share of those who say nothing usable now
        is made up for by those who do, and q(v_g) moves by the fraction of these only, as in stochastic variational
        inference, so that a round without a client does not forget what it knew.
    distrusted
        Clients that are not believed in this round, for what they sent in earlier ones.
    noise
        Standard deviation of what :func:`streamgp.fusion.privacy.privatised` added to every number.
    """
    used, silent, refused = _sorted_out(summaries, state, distrusted)
    if not used and silent and not refused:
        return RoundResult(state, "empty", (), silent, {})
    enough = needed(min_clients, rule=rule, beta=beta)
    n_trim = 0 if rule == "sum" else min(ceil(beta * len(used)), max(len(used) - 1, 0) // 2)
    failed = len(used) + list(refused.values()).count(DISTRUSTED) < enough
    try:
        if rule == "trimmed" and not failed:
            believed = guarded(used, n_trim=n_trim, noise=noise)
            used, refused = {**believed.summaries}, refused | believed.refused
        if failed or not used:
            return RoundResult(state, "failed", tuple(used), silent, refused)
        share = len(used) / len(set(known) | set(used))
        total = aggregated(used, n_trim=n_trim if rule == "coordinates" else 0)
        total = {name: a / share for name, a in total.items()}
        moved = ascend(state, total, layout, replace(ascent, q_rate=ascent.q_rate * share))
    except (NotPositiveDefiniteError, np.linalg.LinAlgError):
        return RoundResult(state, "failed", tuple(used), silent, refused)
    if not _finite(moved):
        return RoundResult(state, "failed", tuple(used), silent, refused)
    return RoundResult(moved, "ok", tuple(used), silent, refused)


def _sorted_out(
    summaries: Mapping[str, Summary], state: SharedState, distrusted: Collection[str]
) -> tuple[dict[str, Summary], tuple[str, ...], dict[str, str]]:
    """Summaries that can be used, clients that have nothing to say, and why others are refused; by name."""
    used: dict[str, Summary] = {}
    refused = {}
    for client in sorted(summaries):
        summary = summaries[client]
        if summary:
            reason = unusable(summary, state) or (DISTRUSTED if client in distrusted else None)
            if reason is None:
                used[client] = summary
            else:
                refused[client] = reason
    return used, tuple(client for client in sorted(summaries) if not summaries[client]), refused


def needed(min_clients: int, *, rule: Rule, beta: float) -> int:
    """Answers without which a round cannot close: ``min_clients``, and under a robust rule three at least."""
    return max(min_clients, 1 if rule == "sum" or beta == 0.0 else FEWEST)


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
