"""The battery that every local model passes, in the spirit of river's estimator checks.

Each check takes a function that makes a fresh model, and raises ``AssertionError`` saying what does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.contract import LocalModel, State

Make: TypeAlias = Callable[[], LocalModel]


def check_local_model(make: Make, *, columns: int = 2, rows: int = 120, seed: int = 0, exact: bool = False) -> None:
    """Run every check but the one on memory, which needs a model that bounds it.

    Parameters
    ----------
    make
        Makes a fresh model, the same at every call.
    columns, rows
        Size of the made-up stream.
    exact
        Hold learning in batches to equality to the bit (otherwise to 1e-8).
    """
    Z, y = stream(columns, rows, seed)
    for check in (check_prior, check_purity, check_replay, check_state):
        check(make, Z, y)
    check_batches(make, Z, y, tolerance=0.0 if exact else 1e-8)


def stream(columns: int, rows: int, seed: int) -> tuple[Array, Array]:
    """A made-up series: a smooth function of the rows and some noise, with a row that repeats."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1.0, 1.0, size=(rows, columns))
    Z[rows // 2] = Z[0]
    y = np.sin(2.0 * Z.sum(axis=1)) + 0.1 * rng.normal(size=rows)
    return Z, y


def _same(a: Gaussian, b: Gaussian, what: str, *, tolerance: float = 0.0) -> None:
    for name in ("mean", "variance", "noise_variance"):
        u, v = getattr(a, name), getattr(b, name)
        worst = float(np.max(np.abs(u - v), initial=0.0))
        if not worst <= tolerance:
            raise AssertionError(f"{what}: {name} differs by {worst:g}")


def _believable(belief: Gaussian, shape: tuple[int, ...], what: str) -> None:
    for name in ("mean", "variance", "noise_variance"):
        value = getattr(belief, name)
        if value.shape != shape:
            raise AssertionError(f"{what}: {name} has shape {value.shape}, expected {shape}")
        if not np.isfinite(value).all():
            raise AssertionError(f"{what}: {name} is not finite")
    if not (belief.variance > 0).all() or (belief.noise_variance < 0).any():
        raise AssertionError(f"{what}: a variance is not positive")


def check_prior(make: Make, Z: Array, y: Array) -> None:
    """Before any data there is a belief, wider than after; a single observation and a single row are enough."""
    model = make()
    if model.learned != 0:
        raise AssertionError("a fresh model must have learned nothing")
    before = model.predict(Z[:3])
    _believable(before, (3,), "prior")
    model.learn(Z[:1], y[:1])
    after = model.predict(Z[:1])
    _believable(after, (1,), "after one observation")
    if model.learned != 1:
        raise AssertionError(f"one observation learned, the model counts {model.learned}")
    if not after.variance[0] < before.variance[0]:
        raise AssertionError("an observation must make the belief at its own row narrower")


def check_purity(make: Make, Z: Array, y: Array) -> None:
    """Predicting changes neither the model nor the rows; learning does not change its inputs."""
    asked, silent = make(), make()
    half = len(Z) // 2
    Z0, y0 = Z.copy(), y.copy()
    for model in (asked, silent):
        model.learn(Z[:half], y[:half])
    first = asked.predict(Z)
    _same(first, asked.predict(Z), "asked twice")
    for model in (asked, silent):
        model.learn(Z[half:], y[half:])
    if not (np.array_equal(Z, Z0) and np.array_equal(y, y0)):
        raise AssertionError("an input was changed in place")
    _same(asked.predict(Z), silent.predict(Z), "a model that was asked, and one that was not")


def check_replay(make: Make, Z: Array, y: Array) -> None:
    """The same stream gives the same model, to the bit; asking for one row or for many is the same."""
    one, two = make(), make()
    for model in (one, two):
        model.learn(Z, y)
    _same(one.predict(Z), two.predict(Z), "the same stream twice")
    together = one.predict(Z[:7])
    for i in range(7):
        alone = one.predict(Z[i : i + 1])
        part = Gaussian(together.mean[i : i + 1], together.variance[i : i + 1], together.noise_variance[i : i + 1])
        _same(alone, part, "one row alone", tolerance=1e-10)


def check_batches(make: Make, Z: Array, y: Array, *, tolerance: float = 1e-8) -> None:
    """``learn(a + b)`` is ``learn(a); learn(b)``, in any cutting."""
    whole = make()
    whole.learn(Z, y)
    for size in (1, 7, len(Z) // 2):
        parts = make()
        for start in range(0, len(Z), size):
            parts.learn(Z[start : start + size], y[start : start + size])
        if parts.learned != whole.learned:
            raise AssertionError(f"{whole.learned} learned at once, {parts.learned} in batches of {size}")
        _same(whole.predict(Z), parts.predict(Z), f"batches of {size}", tolerance=tolerance)


def check_state(make: Make, Z: Array, y: Array) -> None:
    """A twin made from the state predicts the same and goes on the same, to the bit; so does a fresh one's."""
    for seen in (0, 1, len(Z) // 2, len(Z) - 5):
        model = make()
        if seen:
            model.learn(Z[:seen], y[:seen])
        state = model.state()
        for path, value in _leaves(state):
            if not isinstance(value, (int, float, str, bool, np.ndarray, np.generic)) and value is not None:
                raise AssertionError(f"state holds a {type(value).__name__} at {path}")
            if isinstance(value, np.ndarray) and value.dtype.hasobject:
                raise AssertionError(f"state holds an array of objects at {path}")
        twin = type(model).from_state(state)
        _same(model.predict(Z), twin.predict(Z), f"a twin after {seen}")
        for each in (model, twin):
            each.learn(Z[seen:], y[seen:])
        _same(model.predict(Z), twin.predict(Z), f"a twin that went on after {seen}")
        if model.learned != twin.learned:
            raise AssertionError(f"a twin counts {twin.learned}, the model {model.learned}")


def _leaves(value: Any, path: str = "state") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise AssertionError(f"{path} has the key {key!r}")
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _leaves(item, f"{path}[{i}]")
    else:
        yield path, value


def state_bytes(state: State) -> int:
    """Size of a snapshot: eight bytes a number, the arrays' own sizes, the letters of strings."""
    total = 0
    for _, value in _leaves(state):
        if isinstance(value, np.ndarray):
            total += value.nbytes
        else:
            total += len(value) if isinstance(value, str) else 8
    return total


def check_bounded_memory(make: Make, *, bound: int, columns: int = 2, seed: int = 0) -> None:
    """Once full, a model that keeps ``bound`` observations holds no more after four times as many.

    Both the snapshot and the live object are measured, so that a model that forgets on paper and keeps every
    sample in a cache is found out.
    """
    model = make()
    Z, y = stream(columns, 8 * bound, seed)
    sizes = []
    for start in range(0, len(Z), bound):
        model.learn(Z[start : start + bound], y[start : start + bound])
        model.predict(Z[:3])
        sizes.append((state_bytes(model.state()), live_bytes(model)))
    for kind, early, late in zip(("state", "object"), sizes[1], sizes[-1], strict=True):
        if late > 1.25 * early + 4096:
            raise AssertionError(f"the {kind} grew from {early} to {late} bytes with {bound} observations to keep")


def live_bytes(value: Any, seen: set[int] | None = None) -> int:
    """Bytes of arrays, strings and numbers reachable from an object (its attributes, slots and containers)."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return value.nbytes if value.base is None else live_bytes(value.base, seen)
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, (int, float, type)) or value is None or callable(value):
        return 8
    if isinstance(value, dict):
        return sum(live_bytes(k, seen) + live_bytes(v, seen) + 64 for k, v in value.items())
    if isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ == "deque":
        return sum(live_bytes(v, seen) + 8 for v in value)
    slots = [s for c in type(value).__mro__ for s in getattr(c, "__slots__", ())]
    parts = list(getattr(value, "__dict__", {}).values())
    parts += [getattr(value, s) for s in slots if hasattr(value, s)]
    return sum(live_bytes(v, seen) for v in parts)
