"""A client's rows, prepared once: zeros where an output is missing, outputs grouped by what they share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamgp.gp.gaussian import Array

Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Group:
    """Outputs that were observed at the same rows; ``rows`` is None where that is all of them."""

    outputs: Index
    rows: Index | None
    count: int


@dataclass(frozen=True, slots=True)
class ClientData:
    """Rows of one client: X (n, d), Y (n, Q) with zeros where missing, and the groups of outputs."""

    X: Array
    Y: Array
    groups: tuple[Group, ...]
    count: int
    squares: float


def client_data(X: Array, Y: Array) -> ClientData:
    """Prepare X (n, d) and Y (n, Q); a NaN in Y is a missing output, a row without any output is dropped."""
    seen = np.isfinite(Y)
    keep = seen.any(axis=1)
    X, Y, seen = X[keep], np.where(seen[keep], Y[keep], 0.0), seen[keep]
    patterns, member = np.unique(seen, axis=1, return_inverse=True)
    member = member.reshape(-1)
    groups = []
    for g in range(patterns.shape[1]):
        count = int(patterns[:, g].sum())
        if count:
            rows = None if count == len(X) else np.flatnonzero(patterns[:, g])
            groups.append(Group(np.flatnonzero(member == g), rows, count))
    return ClientData(X, Y, tuple(groups), int(seen.sum()), float((Y * Y).sum()))
