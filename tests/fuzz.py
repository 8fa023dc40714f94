"""Mutated records over every topic (``make fuzz``): no crash, no hang, no number that is not finite, nothing lost.

Every record that is refused is in the dead letter, or counted as a duplicate, late or unasked; the others are used.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections import Counter
from typing import Any

from streamgp.roles.cloud import CloudRole
from streamgp.roles.kept import KeptRole
from streamgp.roles.scorer import ScorerRole
from streamgp.roles.settings import AgentSettings, ModelSettings, RowSettings, Settings
from streamgp.roles.wiring import agent_role
from streamgp.wire.codec import encode
from streamgp.wire.deadletter import read_dead_letter
from streamgp.wire.log import Message, Outgoing
from streamgp.wire.records import (
    Forecast,
    Observation,
    Prediction,
    Progress,
    Query,
    Record,
    Scale,
    StationForecast,
)

NOW_MS = 1_790_000_000_000
HOUR = 3_600_000
SETTINGS = Settings(
    agent=AgentSettings(settle_s=0.0, idle_wait_s=0.0, max_wait_s=0.1),
    model=ModelSettings(warm_up=8, n_neighbors=4),
    features=RowSettings(lags=(1,), averages=(), calendar=()),
)
#: numbers that have broken things before
NUMBERS = (0, -0.0, 1, -1, 1e308, -1e308, 5e-324, 1e-300, 1e154, 2**53, 2**63, -(2**63), 2**64, 10**400)
WORDS = ("", "A", "B", "\x00", "é" * 40, "🌧", "NaN", "../../x", "{}", "A:0:1", "null")


def samples(rng: random.Random, at: int) -> list[tuple[str, str, Record]]:
    """A valid record of every topic: suffix, key, record."""
    t, y = at * HOUR, math.sin(at) + rng.random()
    other = rng.choice(["A", "B"])
    query = Query(
        id=f"{other}:{t}:1", station=other, time_ms=t, target_ms=t + HOUR, points=((y,),), scale=Scale(0.0, 1.0)
    )
    forecast: dict[str, Any] = {"query_id": query.id, "station": other, "time_ms": t, "target_ms": t + HOUR}
    three: dict[str, Any] = {"mean": (y,), "variance": (1.0,), "noise_variance": (0.1,)}
    kept: dict[str, Any] = {"kept": (2,), "trimmed": (), "missing": (), "status": "ok"}
    local: dict[str, Any] = {"local_mean": (y,), "local_variance": (1.0,), "local_noise_variance": (0.1,)}
    return [
        ("observations", "A", Observation(station="A", time_ms=t, x={"rain": y}, y=y)),
        ("queries", query.id, query),
        ("progress", other, Progress(station=other, time_ms=t, queries=(query.id,))),
        ("predictions", query.id, Prediction(query_id=query.id, agent=other, time_ms=t, learned=at, **three)),
        ("forecasts", query.id, Forecast(**forecast, **three, **kept)),
        ("station-forecasts", other, StationForecast(**forecast, **three, **kept, source=("local",), **local)),
    ]


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The record with something wrong in it: a byte, a cut, or a value of its JSON."""
    how = rng.randrange(6)
    if how == 0:
        at = rng.randrange(len(data))
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if how == 1:
        return data[: rng.randrange(len(data))]
    if how == 2:
        return rng.choice([b"", b"null", b"[]", b"0", b"\x80\x04K\x01.", b"\xff" * 9, b"[" * 5_000, b'{"v":1}'])
    if how == 3:
        return data.replace(b":1,", rng.choice([b":NaN,", b":1e400,", b":-1e999,", b":Infinity,"]), 1)
    record = json.loads(data)
    _spoil(rng, record)
    return json.dumps(record).encode()


def _spoil(rng: random.Random, node: Any) -> None:
    """Change one value somewhere below."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    if not keys:
        return
    key = rng.choice(keys)
    if isinstance(node[key], dict | list) and rng.random() < 0.7:
        _spoil(rng, node[key])
    elif rng.random() < 0.15 and isinstance(node, dict):
        del node[key]
    else:
        lists = ([], [[]], [None], [1e308] * 3, [0.0] * 2_000)
        node[key] = rng.choice([rng.choice(NUMBERS), rng.choice(WORDS), None, True, {}, *lists])


class Fuzz:
    """Agent, cloud and scorer, fed with what is wrong between what is right."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        agent = agent_role(SETTINGS, "A")
        self.roles: dict[str, KeptRole] = {"agent": agent, "cloud": CloudRole(SETTINGS), "scorer": ScorerRole(SETTINGS)}
        self.reads = {
            "agent": {"observations", "queries", "progress", "forecasts"},
            "cloud": {"queries", "progress", "predictions"},
            "scorer": {"observations", "queries", "forecasts", "station-forecasts"},
        }
        self.next: Counter[str] = Counter()
        self.letters: dict[str, set[tuple[str, int]]] = {name: set() for name in self.roles}
        self.out: Counter[str] = Counter()
        self.sent = 0
        self.now_s = 0.0
        self.slowest_s = 0.0
        for role in self.roles.values():
            role.start(0.0)

    def round(self, at: int) -> None:
        """One valid and one mutated record of every topic, in any order."""
        batch = []
        for suffix, key, record in samples(self.rng, at):
            data = encode(record)
            batch += [(suffix, key, data), (suffix, key, mutated(self.rng, data))]
        self.rng.shuffle(batch)
        for suffix, key, data in batch:
            self.feed(suffix, key, data)
        self.sent += len(batch) // 2
        self.now_s += 0.2
        for name, role in self.roles.items():
            role.feed([], self.now_s)
            self.take(name, role.drain(self.now_s))

    def feed(self, suffix: str, key: str, data: bytes) -> None:
        message = Message(f"streamgp.{suffix}", 0, self.next[suffix], key, data, NOW_MS)
        self.next[suffix] += 1
        for name, role in self.roles.items():
            if suffix in self.reads[name]:
                begun = time.process_time()
                role.feed([message], self.now_s)
                self.take(name, role.drain(self.now_s))
                self.slowest_s = max(self.slowest_s, time.process_time() - begun)

    def take(self, name: str, out: list[Outgoing]) -> None:
        """What a role writes: strict JSON of finite numbers, or a dead letter that says where it came from."""
        for record in out:
            suffix = record.topic.partition(".")[2]
            self.out[f"{name} {suffix}"] += 1
            if suffix == "dead-letter":
                letter = read_dead_letter(Message(record.topic, 0, 0, record.key, record.value, 0, record.headers))
                assert letter.reason
                self.letters[name].add((letter.topic, letter.offset))
            else:
                json.loads(record.value or b"", parse_constant=_refuse, parse_float=_finite)

    def check(self) -> None:
        """Everything that was refused is in the dead letter, and the roles still do their work."""
        for name, role in self.roles.items():
            refused = sum(n for reason, n in role.counts.items() if reason.startswith("refused: "))
            assert refused == self.out[f"{name} dead-letter"], name
            assert len(self.letters[name]) > 0
        assert self.out["agent predictions"] > 0
        assert self.out["cloud forecasts"] > 0
        assert self.out["scorer scores"] > 0


def _refuse(text: str) -> float:
    raise AssertionError(f"{text} was written")


def _finite(text: str) -> float:
    value = float(text)
    assert math.isfinite(value), text
    return value


def fuzz(seed: int, mutants: int) -> Fuzz:
    """Feed so many mutated records; raises if anything does not hold."""
    run, at = Fuzz(seed), 0
    while run.sent < mutants:
        run.round(at)
        at += 1
    run.check()
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=20_000, help="mutants of one run; each run has its own seed")
    given = parser.parse_args()
    begun, sent, seed = time.monotonic(), 0, given.seed
    while sent < given.mutants:
        run = fuzz(seed, min(given.each, given.mutants - sent))
        sent, seed = sent + run.sent, seed + 1
        told = {"mutants": sent, "seconds": round(time.monotonic() - begun), "slowest_s": round(run.slowest_s, 3)}
        print(told | dict(run.out), flush=True)


if __name__ == "__main__":
    main()
