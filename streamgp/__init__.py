"""StreamGP: online, federated, Byzantine-resilient Gaussian processes over Kafka."""

from streamgp.models.experts import CPoERegressor

__all__ = ["CPoERegressor"]
