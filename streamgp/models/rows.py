"""The public door for rows: shape, type, size and precision, checked once."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.gaussian import Array

#: squares of larger numbers, and products of such squares, are no numbers any more
LARGEST = 1e100
# From here on a float32 does not hold every whole number: epoch times lose seconds, then minutes.
_WHOLE_FLOAT32 = 2.0**24


def check_rows(Z: Array, y: Array) -> None:
    """Raise a ValueError unless Z is (n, d), y is (n,), and all numbers are finite, and not beyond 1e100."""
    if Z.ndim != 2 or y.shape != (len(Z),):
        raise ValueError(f"Z must be (n, d) and y (n,), got {Z.shape} and {y.shape}")
    if not (np.abs(Z).max(initial=0.0) <= LARGEST and np.abs(y).max(initial=0.0) <= LARGEST):
        raise ValueError(f"Z and y must be finite, and at most {LARGEST:g}: the squares of larger numbers are none")


def refuse_masks(*arrays: Any) -> None:
    """Raise a ValueError where a masked array hides a number: conversion would bring it out again."""
    if any(np.ma.is_masked(a) for a in arrays):
        raise ValueError("a masked array with masked values was passed: fill them, or leave their rows out")


def check_sizes(X: Array, y: Array) -> None:
    """Refuse finite numbers beyond 1e100.

    Raises
    ------
    ValueError
        Naming X or y.
    """
    for name, values in (("X", X), ("y", y)):
        largest = float(np.abs(values).max(initial=0.0))
        if largest > LARGEST:
            raise ValueError(f"{name} contains {largest:.3g}: beyond {LARGEST:g} squares are no numbers; scale it down")


def within_reach(kernel: CompiledKernel, X: Array) -> Array:
    """Points X (m, d) with numbers beyond 1e100 brought to there: a covariance that falls with distance is zero there.

    Raises
    ------
    ValueError
        If the kernel's covariance does not fall with distance in such a column.
    """
    far = np.abs(X) > LARGEST
    if not far.any():
        return X
    precision = kernel.precision(X.shape[1])
    if precision is None or not np.all(precision[far.any(axis=0)] > 0.0):
        raise ValueError(f"X contains {np.abs(X).max():.3g}: this kernel gives no answer beyond {LARGEST:g}")
    return np.clip(X, -LARGEST, LARGEST)


def warn_of_float32(X: Any) -> None:
    """Warn where single precision has already lost what the caller meant (epoch times, say)."""
    X = np.asarray(X)
    if X.dtype not in (np.float32, np.float16) or X.size == 0:
        return
    with np.errstate(invalid="ignore"):
        largest = float(np.nanmax(np.abs(X)))
    if np.isfinite(largest) and largest >= _WHOLE_FLOAT32:
        step = float(np.spacing(X.dtype.type(largest)))
        warnings.warn(
            f"{X.dtype} input up to {largest:.4g}: its values there are {step:g} apart, what lay between is lost "
            "already; pass float64",
            UserWarning,
            stacklevel=3,
        )
