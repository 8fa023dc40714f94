"""Arrays as they come through the public door: shapes and finiteness, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamgp.errors import SettingsError
from streamgp.gp.gaussian import Array
from streamgp.models.rows import LARGEST, refuse_masks


def check_whole(**values: Any) -> None:
    """See that parameters are whole numbers of at least 1.

    Raises
    ------
    SettingsError
        Naming the parameter.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise SettingsError(f"{name} must be a whole number of at least 1, got {value!r}")


def check_among(**choices: tuple[Any, Sequence[str]]) -> None:
    """See that parameters are one of their choices; raises a SettingsError naming the parameter."""
    for name, (value, known) in choices.items():
        if value not in known:
            raise SettingsError(f"{name} must be one of {', '.join(known)}, got {value!r}")


def seeded(random_state: Any) -> np.random.Generator:
    """The generator of a seed, a generator (itself) or None; raises a SettingsError for anything else."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"random_state must be a seed, a generator or None, got {random_state!r}") from error


def _numbers(values: ArrayLike, name: str) -> Array:
    """Values as float64; text, dates and complex numbers are no numbers, whatever they could be cast to."""
    try:
        refuse_masks(values)
        raw = np.asarray(values)
        if raw.dtype.kind not in "biufO":
            raise TypeError(f"they are {raw.dtype}")
        out = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers: {error}") from error
    if np.abs(out[np.isfinite(out)]).max(initial=0.0) > LARGEST:
        raise ValueError(f"{name} contains numbers beyond {LARGEST:g}, whose squares are none; scale it down")
    return out


def checked_inputs(X: ArrayLike, n_features: int | None = None) -> Array:
    """X as float64 (n, d).

    Raises
    ------
    ValueError
        If it is not two-dimensional, has other columns than were fitted, or is not finite.
    """
    out = _numbers(X, "X")
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
    out = _numbers(Y, "Y")
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
    """One (n_i, d) and one (n_i, Q) a client; a client without rows may be an empty list.

    Raises
    ------
    ValueError
        If the lists or any pair of shapes disagree, an input is not finite, or no client has an observation.
    TypeError
        If the clients are not given as lists.
    """
    for name, clients in (("Xs", Xs), ("Ys", Ys)):
        if isinstance(clients, (Mapping, str)) or not hasattr(clients, "__len__"):
            raise TypeError(f"{name} must be a list of arrays, one a client, got {type(clients).__name__}")
    if len(Xs) != len(Ys) or len(Xs) == 0:
        raise ValueError(f"{len(Xs)} clients in Xs, {len(Ys)} in Ys: one of each a client is needed")
    shapes = [np.shape(x) for x in Xs]
    d = next((s[1] for s in shapes if len(s) == 2 and s[1] > 0), 1)
    X, Y = [], []
    for i, (x, y) in enumerate(zip(Xs, Ys, strict=True)):
        try:
            none = 0 in shapes[i] and np.size(y) == 0
            X.append(np.zeros((0, d)) if none and len(shapes[i]) < 2 else checked_inputs(x))
            Y.append(np.zeros((0, n_outputs)) if none else checked_outputs(y, n_outputs))
        except ValueError as error:
            raise ValueError(f"client {i}: {error}") from error
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        if len(x) != len(y):
            raise ValueError(f"client {i}: X has shape {x.shape}, Y {y.shape}")
        if x.shape[1] != X[0].shape[1]:
            raise ValueError(f"client {i}: X has shape {x.shape}, client 0 {X[0].shape}")
    if not any(np.isfinite(y).any() for y in Y):
        raise ValueError("no client has an observation (0 samples)")
    return X, Y
