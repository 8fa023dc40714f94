"""The families of factors of q, by name: apart from the bound, so that settings can name one without computing."""

from __future__ import annotations

from typing import Literal, TypeAlias

#: mean_field: (9) of the paper. joint: a client's deviation and residual together. structured: these two together
#: and given the global block, which makes the bound that of one sparse GP over all clients.
Factors: TypeAlias = Literal["mean_field", "joint", "structured"]
FACTORS: tuple[Factors, ...] = ("mean_field", "joint", "structured")
