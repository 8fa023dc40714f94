"""The public door for rows: shape, type and precision, checked once."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from streamgp.gp.gaussian import Array

# From here on a float32 does not hold every whole number: epoch times lose seconds, then minutes.
_WHOLE_FLOAT32 = 2.0**24


def check_rows(Z: Array, y: Array) -> None:
    """Raise a ValueError unless Z is (n, d), y is (n,), and all numbers are finite."""
    if Z.ndim != 2 or y.shape != (len(Z),):
        raise ValueError(f"Z must be (n, d) and y (n,), got {Z.shape} and {y.shape}")
    if not (np.isfinite(Z).all() and np.isfinite(y).all()):
        raise ValueError("Z and y must be finite")


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
