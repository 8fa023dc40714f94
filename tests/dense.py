"""Textbook forms of everything, slow and plain: the truth that the fast paths are held against."""

from __future__ import annotations

import numpy as np


def trimmed_poe_loop(
    means: np.ndarray, variances: np.ndarray, n_trim: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(6)-(7) of the Byzantine-resilient paper, a point at a time, for answers without ties."""
    n, m = means.shape
    mean, variance, kept = np.empty(m), np.empty(m), np.zeros((n, m), dtype=bool)
    for j in range(m):
        by_mean = sorted(range(n), key=lambda i: means[i, j])[n_trim : n - n_trim]
        by_variance = sorted(range(n), key=lambda i: variances[i, j])[n_trim : n - n_trim]
        common = [i for i in by_mean if i in by_variance]
        precision = sum(1.0 / variances[i, j] for i in common)
        variance[j] = len(common) / precision
        mean[j] = variance[j] / len(common) * sum(means[i, j] / variances[i, j] for i in common)
        kept[common, j] = True
    return mean, variance, kept
