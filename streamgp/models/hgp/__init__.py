"""The personalised federated hierarchical GP (pfedhgp.txt): estimator, fit in one process, a client's step."""
