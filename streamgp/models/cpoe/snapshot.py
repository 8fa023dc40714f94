"""A fitted model as numbers, strings and arrays, and back to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamgp.errors import CheckpointError, NotPositiveDefiniteError
from streamgp.gp.beliefs import Belief
from streamgp.gp.compiled import CompiledKernel
from streamgp.gp.gaussian import Array
from streamgp.gp.kernel_text import kernel_from_text, kernel_to_text
from streamgp.gp.kernels import compile_kernel
from streamgp.models.contract import State
from streamgp.models.cpoe.engine import Engine
from streamgp.models.cpoe.experts_data import Experts, Model, Past
from streamgp.models.cpoe.follow import Follower
from streamgp.models.cpoe.graph import Clique, parts_of
from streamgp.models.cpoe.hub import Change
from streamgp.models.cpoe.learner import Learner
from streamgp.models.cpoe.options import Options
from streamgp.models.cpoe.posterior import Posterior
from streamgp.models.cpoe.stream import Stream
from streamgp.models.cpoe.training import Adam, Hyper

VERSION = 2


def _join(parts: list[Array]) -> dict[str, Any]:
    return {"sizes": [len(p) for p in parts], "values": np.concatenate(parts)}


def _cut(joined: dict[str, Any]) -> list[Array]:
    ends = np.cumsum(joined["sizes"])
    values = np.asarray(joined["values"], dtype=np.float64)
    return [np.array(p) for p in np.split(values, ends[:-1])]


def fresh_state(options: Options) -> State:
    """Of an estimator that has learned nothing."""
    return {"version": VERSION, "arguments": _arguments(options), "learned": 0}


def _arguments(options: Options) -> State:
    """The estimator's parameters as numbers, strings and arrays."""
    arguments = {name: getattr(options, name) for name in Options.__dataclass_fields__}
    arguments["kernel"] = None if options.kernel is None else kernel_to_text(options.kernel)
    arguments["prior"] = None if options.prior is None else np.asarray(options.log_normal_table(), dtype=np.float64)
    seed = options.random_state
    arguments["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    return arguments


def engine_state(engine: Engine) -> State:
    """Everything that goes on: settings, hyperparameters, rows, graph, and the beliefs that are kept up to date."""
    learner = engine.learner
    if learner is None:
        return fresh_state(engine.options)
    data = learner.data
    follower = engine.follower
    adam = follower.adam
    return {
        "version": VERSION,
        "arguments": _arguments(engine.options),
        "d": engine.d,
        "q": engine.q,
        "iterations": engine.n_iterations,
        "kernel": kernel_to_text(engine.hyper.kernel.source),
        "theta": engine.hyper.kernel.moved,
        "noise": learner.model.noise,
        "jitter": learner.model.jitter,
        "noise_variance": engine.hyper.noise_variance,
        "X": _join(data.X),
        "y": _join(data.y),
        "A": None if data.exact else _join(data.A),
        "past": None if data.past is None else [data.past.Lam, data.past.eta, data.past.log],
        "rows": [list(map(int, r)) for r in learner.rows],
        "pi": [list(map(int, p)) for p in learner.pi],
        "scale": learner.scale,
        "capacity": learner.capacity,
        "learned": learner.n_learned,
        "centres": np.array(learner.centres).reshape(len(learner.centres), engine.d),
        "forgotten": learner.forgotten,
        "closed": follower.closed,
        "next_adoption": follower.next_adoption,
        "adam": None if adam is None else [adam.t, adam.m, adam.v, adam.steps],
        "batch": engine.posterior is not None and learner.stream is None,
        "waiting": learner.waiting,
        "climbed": [
            engine.climbed.kernel.moved,
            engine.climbed.noise_variance,
            engine.spread,
            learner.model.noise if engine.before is None else engine.before.noise,
        ],
        "stream": None if learner.stream is None else _stream_state(learner.stream),
    }


def shape_state(flat_y: bool, names: Array | None) -> State:
    """What the estimator knows of its input: whether y had one axis, and the columns' names."""
    return {"flat_y": bool(flat_y), "names": None if names is None else [str(name) for name in names]}


def shape_from_state(state: Mapping[str, Any], d: int) -> tuple[bool, Array | None]:
    """The same back.

    Raises
    ------
    CheckpointError
        If it is missing or of another kind.
    """
    try:
        flat_y, names = state["flat_y"], state["names"]
    except KeyError as error:
        raise CheckpointError(f"damaged state: {error!r}") from error
    if not isinstance(flat_y, (bool, np.bool_)):
        raise CheckpointError(f"damaged state: flat_y is {flat_y!r}")
    if names is None:
        return bool(flat_y), None
    if len(names) != d or not all(isinstance(name, str) for name in names):
        raise CheckpointError(f"damaged state: {names!r} are no names of {d} columns")
    return bool(flat_y), np.array(list(names), dtype=object)


def _stream_state(stream: Stream) -> State:
    now = stream.hub.current()
    return {
        "cliques": [[list(c.separator), list(c.residual), c.parent, list(c.children)] for c in stream.cliques],
        "evidence": stream.log_evidence,
        "seen": stream.rows_seen,
        "stale": stream.stale,
        "A": now.matrix.copy(),
        "alpha": now.alpha.copy(),
        "K": stream.hub.K[:, : stream.hub.n].copy(),
        "changes": _changes_state(stream.hub.changes),
        "active": [
            [c, a.belief.matrix.copy(), a.belief.alpha.copy(), a.version, a.first, _changes_state(a.changes)]
            for c, a in stream.active.items()
        ],
    }


def _changes_state(changes: list[Change]) -> list[Any]:
    return [[c.w, c.r, c.d] for c in changes]


def _changes(state: list[Any]) -> list[Change]:
    return [Change(np.array(w), np.array(r), float(d)) for w, r, d in state]


def engine_from_state(state: Mapping[str, Any]) -> tuple[Engine | None, dict[str, Any]]:
    """The engine (None where nothing was learned), and the estimator's arguments.

    Raises
    ------
    CheckpointError
        If the state is no mapping, of another version, or incomplete.
    """
    if not isinstance(state, Mapping):
        raise CheckpointError(f"damaged state: a {type(state).__name__}, not a mapping")
    if state.get("version") != VERSION:
        raise CheckpointError(f"state of version {state.get('version')!r}; this release reads {VERSION}")
    try:
        return _engine(dict(state))
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, NotPositiveDefiniteError) as error:
        raise CheckpointError(f"damaged state: {error!r}") from error


def _engine(state: State) -> tuple[Engine | None, dict[str, Any]]:
    arguments = dict(state["arguments"])
    if arguments["kernel"] is not None:
        arguments["kernel"] = kernel_from_text(arguments["kernel"])
    options = Options(**arguments)
    options.check()
    if state["learned"] == 0:
        return None, arguments
    engine = Engine(options, int(state["d"]), int(state["q"]))
    engine.n_iterations = int(state["iterations"])
    source = compile_kernel(kernel_from_text(state["kernel"]))
    kernel = _moved(source, state["theta"])
    engine.hyper = Hyper(kernel, float(state["noise_variance"]), options.line)
    X, y = _cut(state["X"]), _cut(state["y"])
    exact = state["A"] is None
    past = None
    if state["past"] is not None:
        Lam, eta, log = state["past"]
        past = Past(np.array(Lam), np.array(eta), float(log))
    data = Experts(X, y, list(X) if exact else _cut(state["A"]), exact, past)
    model = Model(kernel, float(state["noise"]), options.line, float(state["jitter"]))
    learner = Learner(
        options,
        model,
        data,
        [list(r) for r in state["rows"]],
        [list(p) for p in state["pi"]],
        np.array(state["scale"]),
        int(state["capacity"]),
        int(state["learned"]),
        list(np.array(state["centres"])),
        forgotten=int(state["forgotten"]),
        waiting=bool(state["waiting"]),
    )
    engine.learner = learner
    adam = None
    if state["adam"] is not None:
        t, m, v, steps = state["adam"]
        adam = Adam(np.array(t), np.array(m), np.array(v), int(steps))
    engine.follower = Follower(options, engine.hyper, adam, int(state["next_adoption"]), int(state["closed"]))
    if state["stream"] is not None:
        learner.stream = _stream(state["stream"], learner)
    theta, noise, factor, whole_noise = state["climbed"]
    engine.climbed = Hyper(_moved(source, theta), float(noise), options.line)
    engine.spread = float(factor)
    if engine.spread != 1.0:
        engine.before = Model(engine.climbed.kernel, float(whole_noise), options.line, model.jitter)
    if state["batch"]:
        _restore_batch(engine, state, model, data)
    return engine, arguments


def _restore_batch(engine: Engine, state: State, model: Model, data: Experts) -> None:
    """The posterior of a batch on the way on which it was made, so that it is the same to the bit."""
    parts = parts_of([list(p) for p in state["pi"]])
    engine.posterior = Posterior(engine.before or model, data, *parts)
    if engine.before is not None:
        engine.posterior.spread(model, engine.spread)


def _moved(source: CompiledKernel, theta: Any) -> CompiledKernel:
    """The kernel as it was compiled, or moved to ``theta``: the exponential of a logarithm is not the number itself."""
    return source if theta is None else source.with_theta(np.asarray(theta, dtype=np.float64))


def _stream(state: State, learner: Learner) -> Stream:
    cliques = [Clique(tuple(s), tuple(r), int(p), list(c)) for s, r, p, c in state["cliques"]]
    stream = learner.restream(cliques, steady=False)
    stream.log_evidence = float(state["evidence"])
    stream.rows_seen = int(state["seen"])
    stream.stale = bool(state["stale"])
    n = len(state["A"])
    stream.hub.belief.matrix[:n, :n] = state["A"]
    stream.hub.belief.alpha[:n] = state["alpha"]
    stream.hub.K[:, :n] = state["K"]  # grown row by row: a product of matrices rounds otherwise
    stream.hub.changes = _changes(state["changes"])
    for c, A, alpha, version, first, changes in state["active"]:
        stream.restore(int(c), Belief(np.array(A), np.array(alpha)), int(version), int(first), _changes(changes))
    return stream
