"""Which summaries of a round are believed, and how far: no client decides what the others do not bear out.

Trimming (23) coordinate by coordinate cuts honest clients' values on the side where no lie is, which alone makes the
shared mean of eight clients worse by a sixth, and it moves the result where nobody lies. Here whole summaries are
judged, by few numbers each, against the largest that enough others have; who is not conspicuous counts in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.shared_step import COVARIANCE, MEAN, negative_part
from streamgp.gp.linalg import safe_cholesky

#: of the size of a covariance part, what rounding may leave on the side where no client's derivative can be
ROUNDING = 1e-6
#: what is judged: the precision that is claimed, how far q's mean would be moved, and any other array
SIZE, PULL, OTHER = "size", "pull", "other"
#: times the limit: up to the first in full, beyond it shortened to it; beyond the second the client is refused. Honest
#: clients of the simulator of 4.1 reach 5 in size, 5 in pull (once, in a first round) and, where a kernel of one of
#: them alone changes its mind, 88 in one array.
FULL = {SIZE: 6.0, PULL: 4.0, OTHER: 30.0}
LARGEST = {SIZE: 12.0, PULL: 8.0, OTHER: 30.0}


@dataclass(frozen=True, slots=True)
class Guarded:
    """The summaries that may be summed, and by client why others are not among them."""

    summaries: dict[str, dict[str, Array]]
    refused: dict[str, str]


def guarded(summaries: Mapping[str, Mapping[str, Array]], *, n_trim: int, noise: float = 0.0) -> Guarded:
    """Leave out what no honest client sends, refuse up to ``n_trim`` conspicuous clients, shorten what is long.

    The limit of each number is the ``n_trim + 1``-th largest of all, so that ``n_trim`` liars cannot raise it beyond
    what an honest client has. A client whose claimed precision is too large is scaled down as a whole (it may have
    more rows than all others, or say so), other arrays each by itself. For kernel arrays a client is refused only if
    half of them are beyond bounds: one alone may be so in an honest client.

    Parameters
    ----------
    summaries
        Finite, of one set of shapes, none empty.
    n_trim
        Number of liars to stand; 0 believes everybody.
    noise
        Standard deviation of the noise that every number carries (:mod:`streamgp.fusion.privacy`): an honest covariance
        part may be indefinite by as much.
    """
    whole = {client: dict(summary) for client, summary in sorted(summaries.items())}
    if n_trim == 0:
        return Guarded(whole, {})
    claims, refused = _claims(whole, noise)
    for client in refused:
        del whole[client]
    if len(whole) <= n_trim:
        return Guarded(whole, refused)
    names = list(whole)
    trace, most = (np.array([float(f(np.abs(claims[c]), initial=0.0)) for c in names]) for f in (np.sum, np.max))
    size = np.maximum(_over(trace, n_trim), _over(most, n_trim))
    for client, times in zip(names, size, strict=True):
        if times > FULL[SIZE]:
            whole[client] = {name: a * (FULL[SIZE] / times) for name, a in whole[client].items()}
    ratios = {COVARIANCE: size} | _ratios(whole, n_trim)
    others = [ratios[name] for name in ratios if _kind(name) == OTHER]
    judged = {name: ratios[name] / LARGEST[_kind(name)] for name in (COVARIANCE, MEAN)}
    judged["most of it"] = np.median(others, axis=0) / LARGEST[OTHER]
    conspicuous = np.max(list(judged.values()), axis=0)
    for at in np.argsort(-conspicuous, kind="stable")[:n_trim]:
        if conspicuous[at] > 1.0:
            name = max(judged, key=lambda name: judged[name][at])
            refused[names[at]] = (
                f"{name} is too large beside that of the others, {judged[name][at]:.3g} times the bound"
            )
            del whole[names[at]]
    for at, client in enumerate(names):
        if client in whole:
            _shorten(whole[client], {name: float(ratio[at]) for name, ratio in ratios.items() if name != COVARIANCE})
    return Guarded(whole, refused)


def _claims(whole: Mapping[str, Mapping[str, Array]], noise: float) -> tuple[dict[str, Array], dict[str, str]]:
    """By client, (D,) eigenvalues of the precision it adds; and who claims one that no data have."""
    claims: dict[str, Array] = {}
    refused: dict[str, str] = {}
    for client, summary in whole.items():
        try:
            values = np.asarray(np.linalg.eigvalsh(-2.0 * summary[COVARIANCE]), dtype=np.float64)
        except np.linalg.LinAlgError:
            values = np.full(1, -np.inf)
        # twice the noise, whose largest eigenvalue is about sqrt(2 D) of its deviations
        allowed = ROUNDING * float(np.max(values, initial=0.0)) + 2.0 * noise * (1.5 * np.sqrt(2.0 * len(values)) + 4.0)
        if values.size and values[0] < -allowed:
            refused[client] = "its precision is not that of any data"
        else:
            claims[client] = values
    return claims, refused


def _shorten(summary: dict[str, Array], ratios: Mapping[str, float]) -> None:
    """Shorten the arrays that are larger than allowed."""
    for name, times in ratios.items():
        if times > FULL[_kind(name)]:
            summary[name] = summary[name] * (FULL[_kind(name)] / times)


def _kind(name: str) -> str:
    return SIZE if name == COVARIANCE else PULL if name == MEAN else OTHER


def _over(values: Array, n_trim: int) -> Array:
    """(n,) values as multiples of the ``n_trim + 1``-th largest; where that is zero nothing can be compared."""
    limit = float(np.sort(values)[-n_trim - 1])
    return values / limit if limit > 0.0 else np.ones_like(values)


def _ratios(whole: Mapping[str, Mapping[str, Array]], n_trim: int) -> dict[str, Array]:
    """By array, (n,) how large the clients' are: the step of q's mean that each asks for, and plain norms."""
    rows = list(whole.values())
    precision = np.eye(len(rows[0][MEAN])) - 2.0 * negative_part(np.sum([row[COVARIANCE] for row in rows], axis=0))
    asked = safe_cholesky(precision).solve(np.stack([row[MEAN] for row in rows], axis=1))
    ratios = {MEAN: _over(np.linalg.norm(asked, axis=0), n_trim)}
    for name in sorted(set(rows[0]) - {MEAN, COVARIANCE}):
        if rows[0][name].size:
            ratios[name] = _over(np.array([float(np.linalg.norm(row[name])) for row in rows]), n_trim)
    return ratios
