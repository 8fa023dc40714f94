"""What the two roles of a training remember, in the plain values that a snapshot can hold."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from streamgp.fusion.federation import RoundResult
from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.shared_step import SharedState
from streamgp.roles.training_store import Saved


def shared_out(state: SharedState) -> dict[str, Any]:
    """All of a shared state."""
    return {
        "block": dict(state.block),
        "mean": state.mean,
        "precision": state.precision,
        "first": dict(state.first),
        "second": dict(state.second),
        "steps": state.steps,
    }


def shared_in(fields: Mapping[str, Any]) -> SharedState:
    """What :func:`shared_out` wrote."""
    return SharedState(**{name: fields[name] for name in ("block", "mean", "precision", "first", "second", "steps")})


def shapes_of(state: SharedState) -> dict[str, tuple[int, ...]]:
    """The sizes that the settings decide."""
    return {**{name: a.shape for name, a in state.block.items()}, "mean": state.mean.shape}


def result_out(result: RoundResult | None) -> list[Any] | None:
    """All of a round's result but the state, which is the server's own."""
    return None if result is None else [result.status, list(result.used), list(result.silent), dict(result.refused)]


def result_in(fields: list[Any] | None, state: SharedState) -> RoundResult | None:
    """What :func:`result_out` wrote."""
    if fields is None:
        return None
    status, used, silent, refused = fields
    return RoundResult(state, status, tuple(used), tuple(silent), dict(refused))


def saved_out(saved: Saved | None) -> list[Any] | None:
    """All of what a client has saved."""
    return None if saved is None else [saved.run, saved.round, dict(saved.own), saved.update, saved.noised]


def saved_in(fields: list[Any] | None) -> Saved | None:
    """What :func:`saved_out` wrote."""
    return None if fields is None else Saved(*fields)


def noise_of(secret: bytes, summary: Mapping[str, Array], *, run: str, round_: int) -> np.random.Generator:
    """The noise of one answer: drawn from a secret, the round and the answer itself.

    The very same answer, computed again after a crash, gets the very same noise, so that the two together tell no
    more than one; any other answer gets noise that is independent of it.
    """
    digest = hashlib.sha256(b"streamgp noise 1\0" + secret + f"{run}\0{round_}\0".encode())
    for name in sorted(summary):
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(summary[name], dtype="<f8").tobytes())
    return np.random.default_rng(int.from_bytes(digest.digest(), "big"))
