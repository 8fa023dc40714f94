"""Blocks as one vector for an optimiser, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block

#: box of the unconstrained coordinates, in working units: lengthscales 0.009 to 200, variances and noise likewise
BOUNDS = {
    "eta_lengthscale": (-4.7, 200.0),
    "eta_variance": (-12.0, 200.0),
    "eta_phi": (-12.0, 200.0),
    "eta_noise": (-14.0, 200.0),
    "inducing": (-20.0, 20.0),
}


@dataclass(frozen=True, slots=True)
class Free:
    """One array that the optimiser may move: ``name`` of the block number ``block``."""

    block: int
    name: str


def to_vector(blocks: Sequence[Block], free: Sequence[Free]) -> Array:
    """(k,) the free arrays one after another."""
    return np.concatenate([blocks[f.block][f.name].ravel() for f in free] or [np.zeros(0)])


def from_vector(vector: Array, blocks: Sequence[Block], free: Sequence[Free]) -> list[dict[str, Array]]:
    """New blocks with the free arrays read from ``vector`` (k,)."""
    out = [dict(b) for b in blocks]
    at = 0
    for f in free:
        old = blocks[f.block][f.name]
        out[f.block][f.name] = vector[at : at + old.size].reshape(old.shape)
        at += old.size
    return out


def limits(
    blocks: Sequence[Block], free: Sequence[Free]
) -> tuple[Array, Array, list[tuple[float | None, float | None]]]:
    """Lowest and highest values (k,) of the vector, and the same as an optimiser's pairs."""
    pairs: list[tuple[float | None, float | None]] = []
    for f in free:
        pairs += [BOUNDS.get(f.name, (None, None))] * blocks[f.block][f.name].size
    low = np.array([-np.inf if a is None else a for a, _ in pairs])
    high = np.array([np.inf if b is None else b for _, b in pairs])
    return low, high, pairs
