"""Arrays as they come through the public door: shapes and finiteness, checked once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from streamgp.gp.gaussian import Array


def checked_inputs(X: ArrayLike, n_features: int | None = None) -> Array:
    """X as float64 (n, d).

    Raises
    ------
    ValueError
        If it is not two-dimensional, has other columns than were fitted, or is not finite.
    """
    out = np.array(X, dtype=np.float64)
    if out.ndim != 2 or out.shape[1] == 0:
        raise ValueError(f"X must be (n, d), got shape {out.shape}")
    if n_features is not None and out.shape[1] != n_features:
        raise ValueError(f"X has {out.shape[1]} features, but the model was fitted on {n_features}")
    if not np.isfinite(out).all():
        raise ValueError("X holds a NaN or an infinity")
    return out


def checked_outputs(Y: ArrayLike, n_outputs: int) -> Array:
    """Y as float64 (n, Q); (n,) is taken for (n, 1). NaN stands for a missing output.

    Raises
    ------
    ValueError
        If the number of outputs is another, or a value is infinite.
    """
    out = np.array(Y, dtype=np.float64)
    if out.ndim == 1:
        out = out[:, None]
    if out.ndim != 2 or out.shape[1] != n_outputs:
        raise ValueError(f"Y must be (n, {n_outputs}), got shape {np.shape(Y)}")
    if np.isinf(out).any():
        raise ValueError("Y holds an infinity")
    return out


def checked_clients(
    Xs: Sequence[ArrayLike], Ys: Sequence[ArrayLike], n_outputs: int
) -> tuple[list[Array], list[Array]]:
    """One (n_i, d) and one (n_i, Q) a client.

    Raises
    ------
    ValueError
        If the lists or any pair of shapes disagree, an input is not finite, or no client has an observation.
    """
    if len(Xs) != len(Ys) or len(Xs) == 0:
        raise ValueError(f"{len(Xs)} clients in Xs, {len(Ys)} in Ys: one of each a client is needed")
    X = [checked_inputs(x) for x in Xs]
    Y = [checked_outputs(y, n_outputs) for y in Ys]
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        if len(x) != len(y):
            raise ValueError(f"client {i}: X has shape {x.shape}, Y {y.shape}")
        if x.shape[1] != X[0].shape[1]:
            raise ValueError(f"client {i}: X has shape {x.shape}, client 0 {X[0].shape}")
    if not any(np.isfinite(y).any() for y in Y):
        raise ValueError("no client has an observation (0 samples)")
    return X, Y
