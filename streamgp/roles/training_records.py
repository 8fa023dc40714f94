"""Shared states and summaries as records, and back: arrays as plain numbers, checked before anything uses them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt, prod

import msgspec
import numpy as np

from streamgp.errors import DecodeError, SettingsError, StreamGPError
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.shared_step import COVARIANCE, SharedState
from streamgp.models.hgp.rounds import server_start
from streamgp.models.hgp.start import Units
from streamgp.roles.training_settings import TrainingSettings
from streamgp.wire.records import GlobalState, Row

#: symmetric arrays travel as their lower triangle
_SYMMETRIC = frozenset({COVARIANCE, "q.precision"})


def flat(arrays: Mapping[str, Array]) -> tuple[dict[str, Row], dict[str, tuple[int, ...]]]:
    """Arrays as rows of numbers, and their shapes."""
    rows, shapes = {}, {}
    for name, a in arrays.items():
        numbers = a[np.tril_indices(len(a))] if name in _SYMMETRIC else a
        rows[name], shapes[name] = tuple(numbers.ravel().tolist()), tuple(numbers.shape)
    return rows, shapes


def shaped(rows: Mapping[str, Row], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """The arrays of :func:`flat`.

    Raises
    ------
    DecodeError
        If a shape is missing or not that of the numbers there are.
    """
    arrays: dict[str, Array] = {}
    for name, numbers in rows.items():
        values = np.array(numbers, dtype=np.float64)
        if name not in _SYMMETRIC:
            if len(values) != prod(shapes.get(name, (-1,))):
                raise DecodeError(f"{len(values)} numbers do not fill {shapes.get(name)}", f"arrays.{name}")
            arrays[name] = values.reshape(shapes[name])
            continue
        size = (isqrt(8 * len(values) + 1) - 1) // 2
        if size * (size + 1) // 2 != len(values):
            raise DecodeError(f"{len(values)} numbers are no lower triangle", f"arrays.{name}")
        full = np.zeros((size, size))
        full[np.tril_indices(size)] = values
        arrays[name] = full + np.tril(full, -1).T
    return arrays


def state_arrays(state: SharedState, settings: TrainingSettings) -> dict[str, Array]:
    """All arrays of a state by their names on the wire, and the units that they are in."""
    out = {"q.mean": state.mean, "q.precision": state.precision}
    for prefix, block in (("block", state.block), ("first", state.first), ("second", state.second)):
        out |= {f"{prefix}.{name}": a for name, a in block.items()}
    return out | {"units.low": np.array(settings.low), "units.high": np.array(settings.high)}


def state_of(record: GlobalState) -> SharedState:
    """The state that a record carries.

    Raises
    ------
    DecodeError
        If arrays are missing or do not fit each other.
    """
    arrays = shaped(record.arrays, record.shapes)
    parts: dict[str, dict[str, Array]] = {"block": {}, "first": {}, "second": {}}
    for name, a in arrays.items():
        prefix, _, rest = name.partition(".")
        if prefix in parts:
            parts[prefix][rest] = a
    try:
        mean, precision = arrays["q.mean"], arrays["q.precision"]
    except KeyError as error:
        raise DecodeError("missing", f"arrays.{error.args[0]}") from error
    if any(
        {n: a.shape for n, a in p.items()} != {n: a.shape for n, a in parts["block"].items()} for p in parts.values()
    ):
        raise DecodeError("block, first and second do not fit each other", "arrays")
    return SharedState(parts["block"], mean, precision, parts["first"], parts["second"], record.steps)


def settings_of(record: GlobalState) -> TrainingSettings:
    """What a client must know of the training, from the server's record.

    Raises
    ------
    DecodeError
        If a setting is missing, unknown or of the wrong type.
    """
    arrays = shaped(record.arrays, record.shapes)
    box = {
        name: tuple(arrays[f"units.{name}"].ravel().tolist()) for name in ("low", "high") if f"units.{name}" in arrays
    }
    try:
        settings = msgspec.convert({"run": record.run, **box, **record.settings}, TrainingSettings)
    except msgspec.ValidationError as error:
        raise DecodeError(str(error), "settings") from error
    try:
        return settings.checked()
    except SettingsError as error:
        raise DecodeError(str(error), "settings") from error


def believable(record: GlobalState) -> tuple[TrainingSettings, SharedState]:
    """The settings and the state of a record that a station can work with.

    Raises
    ------
    DecodeError
        If they are missing, do not fit each other, or the state makes no Gaussian.
    """
    settings, state = settings_of(record), state_of(record)
    d = len(settings.low)
    if not np.isfinite(units_from(settings).span).all():
        raise DecodeError("the box of the inputs is too wide", "arrays.units.high")
    inducing = state.block.get("inducing")
    if inducing is None or inducing.shape != (settings.n_global, d):
        raise DecodeError("inducing inputs of another number or width", "arrays.block.inducing")
    low = np.full(d, -0.5)
    fresh = server_start(settings.plan(), settings.schedule(), low=low, high=-low)
    if {n: a.shape for n, a in fresh.block.items()} != {n: a.shape for n, a in state.block.items()}:
        raise DecodeError("the block has other sizes than the settings say", "arrays.block")
    size = len(fresh.mean)
    if state.mean.shape != (size,) or state.precision.shape != (size, size):
        raise DecodeError(f"q(u_g) has shape {state.precision.shape}, not {(size, size)}", "arrays.q.precision")
    try:
        state.q.divergence()  # raises where the precision is none
    except (StreamGPError, ValueError) as error:
        raise DecodeError(str(error), "arrays.q.precision") from error
    return settings, state


def units_from(settings: TrainingSettings) -> Units:
    """The working units that every client of a training uses."""
    low, high = np.array(settings.low), np.array(settings.high)
    return Units(0.5 * (low + high), high - low, settings.scale)
