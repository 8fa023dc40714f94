"""Correlated Product of Experts (Schürch et al.): partition, graph, inference, training, streams."""
