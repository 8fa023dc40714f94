"""What a station needs of a training to forecast with it: the shared block, q(u_g), and the units they are in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import Self

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Layout
from streamgp.gp.hierarchy.bound import Factors
from streamgp.gp.hierarchy.shared_step import SharedState, first_state
from streamgp.models.hgp.start import Units


@dataclass(frozen=True, slots=True)
class GlobalModel:
    """The global layer as a server published it after ``round`` rounds of ``run``.

    ``state`` is in working units; ``n_local`` and ``iterations`` are what the training says of a client's own block.
    """

    run: str
    round: int
    layout: Layout
    factors: Factors
    n_local: int
    iterations: int
    units: Units
    state: SharedState

    @property
    def width(self) -> int:
        """Columns of the rows that it was trained on."""
        return int(self.state.block["inducing"].shape[1])

    def plain(self) -> dict[str, Any]:
        """Numbers, strings and arrays alone, for a snapshot; the server's Adam moments are left out."""
        u, y = self.units, self.layout
        return {
            "run": self.run,
            "round": self.round,
            "layout": [y.n_outputs, y.rank_global, y.rank_deviation, y.rank_local],
            "factors": self.factors,
            "sizes": [self.n_local, self.iterations],
            "units": [u.center, u.span, u.scale],
            "block": dict(self.state.block),
            "mean": self.state.mean,
            "precision": self.state.precision,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The one that :meth:`plain` told of."""
        n_outputs, rank_global, rank_deviation, rank_local = (int(v) for v in plain["layout"])
        layout = Layout(n_outputs, rank_global, rank_deviation, rank_local)
        block = {name: np.array(a, dtype=np.float64) for name, a in plain["block"].items()}
        fresh = first_state(block, layout)
        mean, precision = _numbers(plain["mean"]), _numbers(plain["precision"])
        if mean.shape != fresh.mean.shape or precision.shape != fresh.precision.shape:
            raise ValueError(f"q(u_g) has shapes {mean.shape} and {precision.shape}, not {fresh.precision.shape}")
        state = SharedState(fresh.block, mean, precision, fresh.first, fresh.second)
        center, span, scale = plain["units"]
        n_local, iterations = (int(v) for v in plain["sizes"])
        units = Units(_numbers(center), _numbers(span), float(scale))
        return cls(plain["run"], int(plain["round"]), layout, plain["factors"], n_local, iterations, units, state)


def _numbers(values: Any) -> Array:
    return np.array(values, dtype=np.float64)
