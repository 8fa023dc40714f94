"""StreamGP: online, federated, Byzantine-resilient Gaussian processes over Kafka."""
