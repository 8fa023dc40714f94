"""StreamGP: online, federated, Byzantine-resilient Gaussian processes over Kafka."""

from streamgp.models.experts import CPoERegressor
from streamgp.models.hierarchical import HierarchicalGP

__all__ = ["CPoERegressor", "HierarchicalGP"]
