"""StreamGP: online, federated, Byzantine-resilient Gaussian processes over Kafka.

The front door: each name is loaded when it is first asked for, so that importing the package costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself is not loaded: this is the first that every process loads
if TYPE_CHECKING:
    from typing import Any

    from streamgp.models.as_river import AsRiver as AsRiver
    from streamgp.models.experts import CPoERegressor as CPoERegressor
    from streamgp.models.hierarchical import HierarchicalGP as HierarchicalGP
    from streamgp.models.nearest import NearestNeighborGP as NearestNeighborGP

_HOMES = {
    "AsRiver": "streamgp.models.as_river",
    "CPoERegressor": "streamgp.models.experts",
    "HierarchicalGP": "streamgp.models.hierarchical",
    "NearestNeighborGP": "streamgp.models.nearest",
}

__all__ = ["AsRiver", "CPoERegressor", "HierarchicalGP", "NearestNeighborGP"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'streamgp' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
