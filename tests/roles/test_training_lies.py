"""A federation over topics with one lying client of eight: the error of the global layer, and of the forecasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from streamgp.roles.trainer import TrainingServer
from streamgp.roles.training_client import FixedRows, TrainingClient
from streamgp.roles.training_settings import TrainingSettings
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Message, Outgoing
from streamgp.wire.records import GlobalState, Update
from tests.roles.training import answers, taken

LIAR = "c3"
SETTINGS = TrainingSettings(
    low=(-5.0,),
    high=(5.0,),
    n_global=8,
    n_local=5,
    rank_global=1,
    rank_deviation=1,
    rank_local=1,
    rounds=6,
    local_iterations=2,
    round_s=10.0,
    wait_s=60.0,
    rule="trimmed",
    beta=1 / 8,
)
GRID = np.linspace(-5.0, 5.0, 60)[:, None]
Lie = Callable[[Update, list[Update]], Update]


def stretched(update: Update, factor: float) -> Update:
    return msgspec.structs.replace(
        update, arrays={n: tuple(factor * x for x in row) for n, row in update.arrays.items()}
    )


def biased(update: Update, _: list[Update]) -> Update:
    """A little in one direction, always the same."""
    row = update.arrays["mean"]
    return msgspec.structs.replace(update, arrays={**update.arrays, "mean": tuple(x + 0.3 for x in row)})


LIES: dict[str, Lie] = {
    "sign-flipped": lambda u, _: stretched(u, -1.0),
    "sign-flipped every third round": lambda u, _: stretched(u, -1.0) if u.round % 3 == 2 else u,
    "round 0 again and again": lambda u, before: msgspec.structs.replace((before or [u])[0], round=u.round),
    "a little bias": biased,
}


def truth(client: str, X: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(X) + 0.5 * np.sin(0.4 * X + int(client[1:])))


def errors(
    names: list[str], lie: Lie | None = None, *, rule: str = "trimmed", rounds: int = SETTINGS.rounds
) -> tuple[float, float, dict[str, int]]:
    """Root mean square errors of the global layer, of the honest clients' forecasts, and how often who was refused.

    The global layer is compared with the mean of all eight functions, which is all that can be common to them.
    """
    rng, clock = np.random.default_rng(1), ManualClock()
    settings = msgspec.structs.replace(SETTINGS, rule=rule, rounds=rounds, expected=len(names))
    clients = {}
    for name in [f"c{i}" for i in range(8)]:
        X = rng.uniform(-5.0, 5.0, (20, 1))
        Y = truth(name, X) + 0.05 * rng.standard_normal((20, 1))
        if name in names:
            clients[name] = TrainingClient(name, FixedRows(X, Y), prefix="t", clock=clock)
    server = TrainingServer(settings, prefix="t", clock=clock)
    (record,) = server.start(0.0)
    before: list[Update] = []
    refused: Counter[str] = Counter()
    while server.outcome is None:
        sent = answers(clients, record, 0.0)
        for at, out in enumerate(sent):
            if lie is not None and out.key == LIAR:
                before.append(decode(out.value, Update))
                sent[at] = Outgoing(out.topic, out.key, encode(lie(before[-1], before[:-1])))
        (record,) = taken(server, sent, 0.0)
        refused.update(list(decode(record.value, GlobalState).refused))
    common = np.mean([truth(f"c{i}", GRID) for i in range(8)], axis=0)
    off, shared = [], None
    for name, client in clients.items():
        client.feed([Message("t.globals", 0, 0, "default", record.value, 0)], 0.0)
        belief, _ = client.posterior()
        shared = belief.parts(GRID)["global"]
        if name != LIAR:
            off.append(belief.predict(GRID)[0] - truth(name, GRID))
    return float(np.sqrt(np.mean((shared - common) ** 2))), float(np.sqrt(np.mean(np.square(off)))), dict(refused)


HONEST = [f"c{i}" for i in range(8) if f"c{i}" != LIAR]
ALL = [f"c{i}" for i in range(8)]


@pytest.fixture(scope="module")
def without() -> tuple[float, float]:
    return errors(HONEST)[:2]


@pytest.mark.parametrize("lie", LIES)
def test_the_global_layer_and_the_forecasts_are_within_a_tenth(lie: str, without: tuple[float, float]) -> None:
    """C38's kind: of the error without the liar; who is refused is named in the records, and it is the liar alone."""
    shared, forecasts, refused = errors(ALL, LIES[lie])
    assert shared < 1.1 * without[0]
    assert forecasts < 1.1 * without[1]
    assert set(refused) <= {LIAR}
    assert bool(refused) == (lie != "a little bias")


def test_nobody_is_refused_where_nobody_lies() -> None:
    """And then the robust rule gives the numbers of the sum."""
    robust, plain = (errors(ALL, rule=rule, rounds=3) for rule in ("trimmed", "sum"))
    assert robust == plain
    assert not robust[2]
