"""Kernels as text (JSON) and back, to the bit, without pickle and without importing anything."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sk

from streamgp.errors import CheckpointError


def kernel_to_text(kernel: Any) -> str:
    """JSON text of a scikit-learn kernel: its class and the arguments that make it."""
    return json.dumps(_encode(kernel))


def kernel_from_text(text: str) -> Any:
    """The kernel that the text describes.

    Only classes that are loaded already, and that are kernels, are made: a kernel of one's own has to be imported
    before a model that uses it is read.

    Raises
    ------
    CheckpointError
        If the text is damaged, or names an unknown kernel.
    """
    try:
        kernel = _decode(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"kernel: damaged description ({error})") from error
    if not isinstance(kernel, sk.Kernel):
        raise CheckpointError("kernel: the description is of something else")
    return kernel


def _encode(value: Any) -> Any:
    if isinstance(value, sk.Kernel):
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        return {"kernel": name, "arguments": {k: _encode(v) for k, v in value.get_params(deep=False).items()}}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, tuple):
        return {"tuple": [_encode(v) for v in value]}
    if isinstance(value, list):
        return {"list": [_encode(v) for v in value]}
    if isinstance(value, dict):
        return {"dict": {str(k): _encode(v) for k, v in value.items()}}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise CheckpointError(f"kernel: an argument of type {type(value).__name__} cannot be written")


def _decode(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "kernel" in value:
        arguments = {k: _decode(v) for k, v in value["arguments"].items()}
        return _known(value["kernel"])(**arguments)
    ((kind, content),) = value.items()
    if kind == "array":
        return np.array(content)
    if kind == "dict":
        return {k: _decode(v) for k, v in content.items()}
    items = [_decode(v) for v in content]
    return tuple(items) if kind == "tuple" else items


def _known(name: str) -> Any:
    waiting: list[Any] = [sk.Kernel]
    while waiting:
        kind = waiting.pop()
        if f"{kind.__module__}.{kind.__qualname__}" == name:
            return kind
        waiting.extend(kind.__subclasses__())
    raise CheckpointError(f"kernel: {name!r} is not loaded; import it before reading the model")
