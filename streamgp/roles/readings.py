"""Is this a reading at all? Checks that look at one record alone, and the forms that y and x take behind them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import msgspec
import numpy as np

Y: TypeAlias = float | tuple[float | None, ...]
X: TypeAlias = dict[str, float | None]
Bounds: TypeAlias = tuple[float, float]


class Refused(msgspec.Struct, frozen=True, gc=False):
    """Why an observation does not pass: ``reason`` is one of a fixed few, ``detail`` says how much."""

    reason: str
    field: str
    detail: str = ""

    @property
    def text(self) -> str:
        """Reason and detail, for the dead letter."""
        return f"{self.reason} {self.detail}" if self.detail else self.reason


#: reasons for which one value of several is missing and the others are believed
MASKED = frozenset({"sentinel", "out of range"})


def sentinel_set(values: tuple[float, ...]) -> frozenset[float]:
    """The sentinels, and what they are after single precision: 999.9 comes back as 999.9000244140625."""
    return frozenset(values) | frozenset(float(np.float32(value)) for value in values)


def clean_y(
    y: object, *, outputs: int, sentinels: frozenset[float], bounds: Bounds | None, way: tuple[float, float]
) -> Y | Refused:
    """y as float, or as ``outputs`` floats with None for what was not read.

    ``way`` is (a, b): a value v becomes a * v + b before it is held against ``bounds``.
    """
    several = isinstance(y, (tuple, list))
    if outputs == 1 and not several:
        return clean_number(y, sentinels=sentinels, bounds=bounds, way=way)
    if outputs == 1 or not isinstance(y, (tuple, list)) or len(y) != outputs:
        return Refused("wrong dimension", "y", f"{len(y) if isinstance(y, (tuple, list)) else 1} for {outputs}")
    values: list[float | None] = []
    first: Refused | None = None
    for value in y:
        cleaned = None if value is None else clean_number(value, sentinels=sentinels, bounds=bounds, way=way)
        if isinstance(cleaned, Refused):
            if cleaned.reason not in MASKED:
                return cleaned
            first, cleaned = first or cleaned, None
        values.append(cleaned)
    if all(value is None for value in values):
        return first or Refused("missing", "y")
    return tuple(values)


def clean_number(
    value: object, *, sentinels: frozenset[float], bounds: Bounds | None, way: tuple[float, float]
) -> float | Refused:
    """One value of y as float, converted and within bounds."""
    if type(value) is not float:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
            return Refused("wrong type", "y", type(value).__name__)
        try:
            value = float(value)
        except OverflowError:
            return Refused("not finite", "y")
    if value - value != 0.0:
        return Refused("not finite", "y", str(value))
    if value in sentinels:
        return Refused("sentinel", "y", f"{value:g}")
    a, b = way
    if a != 1.0 or b != 0.0:
        value = a * value + b
    if bounds is not None and not bounds[0] <= value <= bounds[1]:
        return Refused("out of range", "y", f"{value:g}")
    return value


def clean_x(x: X, *, sentinels: frozenset[float], ranges: Mapping[str, Bounds]) -> X | Refused:
    """x itself where nothing is wrong with it, else a copy with None for what was not read."""
    if not ranges:
        for value in x.values():
            if value is not None and (type(value) is not float or value - value != 0.0 or value in sentinels):
                break
        else:
            return x
    cleaned = dict(x)
    for name, value in x.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
            return Refused("wrong type", f"x.{name}", type(value).__name__)
        try:
            number = float(value)
        except OverflowError:
            return Refused("not finite", f"x.{name}")
        if not math.isfinite(number):
            return Refused("not finite", f"x.{name}", str(value))
        low, high = ranges.get(name, (-math.inf, math.inf))
        cleaned[name] = None if number in sentinels or not low <= number <= high else number
    return cleaned
