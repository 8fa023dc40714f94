"""Mutated records over every topic (``make fuzz``): no crash, no hang, no number that is not finite, nothing lost.

Agent, cloud, scorer, trainer and trainee read them between valid ones, a watcher those of its topics; journals,
snapshots and signatures are spoilt as well. Every record that a role refuses is in the dead letter, or counted as a
duplicate, late or unasked; the others are used.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
import warnings
from collections import Counter
from contextlib import suppress
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_private_key

from streamgp.errors import CheckpointError
from streamgp.roles.cloud import CloudRole
from streamgp.roles.kept import KeptRole
from streamgp.roles.scorer import ScorerRole
from streamgp.roles.settings import AgentSettings, ModelSettings, RowSettings, Settings
from streamgp.roles.trainer import TrainingServer
from streamgp.roles.training_client import TrainingClient
from streamgp.roles.training_rows import ObservationRows
from streamgp.roles.training_settings import TrainingSettings
from streamgp.roles.watch import Board, _line, _table, _take, _trusts
from streamgp.roles.wiring import agent_role
from streamgp.wire.checkpoint import pack, unpack
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import encode
from streamgp.wire.deadletter import read_dead_letter
from streamgp.wire.journal import Call, Segment, decode_segment, encode_segment
from streamgp.wire.keys import AllowList, make_key
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
from streamgp.wire.signing import Signer, Verifier

NOW_MS = 1_790_000_000_000
HOUR = 3_600_000
SETTINGS = Settings(
    agent=AgentSettings(settle_s=0.0, idle_wait_s=0.0, max_wait_s=0.1),
    model=ModelSettings(warm_up=8, n_neighbors=4),
    features=RowSettings(lags=(1,), averages=(), calendar=()),
)
TRAINING = TrainingSettings(
    n_global=2, n_local=2, rank_global=1, rank_deviation=1, rank_local=1, local_iterations=1, rounds=0, round_s=5.0
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


def bitten(rng: random.Random, data: bytes) -> bytes:
    """Bytes that are no text, with one changed, cut short, or longer."""
    at, how = rng.randrange(len(data)), rng.randrange(3)
    if how == 0:
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    return data[:at] if how == 1 else data + data[:at]


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
    """Every role, fed with what is wrong between what is right."""

    def __init__(self, seed: int, *, each: int) -> None:
        self.rng = random.Random(seed)
        self.each = each
        agent, clock = agent_role(SETTINGS, "A"), ManualClock(NOW_MS)
        rows = ObservationRows("A", ("time",), n_outputs=1, max_rows=20)
        self.trainee = TrainingClient("A", rows, prefix="streamgp", clock=clock)
        self.roles: dict[str, KeptRole] = {
            "agent": agent,
            "cloud": CloudRole(SETTINGS),
            "scorer": ScorerRole(SETTINGS),
            "trainer": TrainingServer(TRAINING, prefix="streamgp", clock=clock),
            "trainee": self.trainee,
        }
        self.reads = {
            "agent": {"observations", "queries", "progress", "forecasts"},
            "cloud": {"queries", "progress", "predictions"},
            "scorer": {"observations", "queries", "forecasts", "station-forecasts"},
            "trainer": {"updates"},
            "trainee": {"observations", "globals"},
        }
        self.board = Board()
        #: the last that roles wrote to the topics that they alone write
        self.written: dict[str, tuple[str, bytes]] = {}
        pem, allowed = make_key("agent.A")
        signer = Signer(load_pem_private_key(pem, None), clock_ns=lambda: NOW_MS * 1_000_000)  # type: ignore[arg-type]  # Ed25519
        self.signed = signer.sign(Outgoing("streamgp.progress", "A", b'{"station":"A"}'))
        self.verifier = Verifier(AllowList.of([allowed]), prefix="streamgp")
        self.next: Counter[str] = Counter()
        self.letters: dict[str, set[tuple[str, int]]] = {name: set() for name in self.roles}
        self.out: Counter[str] = Counter()
        self.sent = 0
        self.now_s = 0.0
        self.slowest_s = 0.0
        for name, role in self.roles.items():
            self.take(name, role.start(0.0))

    def round(self, at: int) -> None:
        """One valid and some mutated records of every topic, in any order."""
        valid = [(suffix, key, encode(record)) for suffix, key, record in samples(self.rng, at)]
        valid += [(suffix, key, data) for suffix, (key, data) in self.written.items()]
        bad = [(suffix, key, mutated(self.rng, data)) for suffix, key, data in valid for _ in range(self.each)]
        batch = [*valid, *bad]
        self.rng.shuffle(batch)
        for suffix, key, data in batch:
            self.feed(suffix, key, data)
        self.sent += len(bad) + self.internal()
        self.now_s += 0.2
        for name, role in self.roles.items():
            role.feed([], self.now_s)
            self.take(name, role.drain(self.now_s))

    def feed(self, suffix: str, key: str, data: bytes) -> None:
        message = Message(f"streamgp.{suffix}", 0, self.next[suffix], key, data, NOW_MS)
        self.next[suffix] += 1
        shown = _take(self.board, message, SETTINGS, None)
        if shown is not None:
            _line(self.board, shown)
            _table(self.board)
        _trusts([message] if suffix == "trust" else [])
        for name, role in self.roles.items():
            if suffix in self.reads[name]:
                begun = time.process_time()
                role.feed([message], self.now_s)
                self.take(name, role.drain(self.now_s))
                self.slowest_s = max(self.slowest_s, time.process_time() - begun)

    def internal(self) -> int:
        """What roles keep for themselves: a journal, a snapshot, a signature; how many were spoilt."""
        segment = Segment(role="agent.A", number=1, places=(("t", 0),), positions=(5,), calls=(Call(0.5),), crc=0)
        with suppress(CheckpointError):
            decode_segment(bitten(self.rng, encode_segment(segment)))
        with suppress(CheckpointError):
            unpack(bitten(self.rng, pack({"n": 1, "rows": [1.0, None, "x"]})))
        header = bitten(self.rng, self.signed.headers[0][1])
        message = Message("streamgp.progress", 0, 0, "A", self.signed.value, NOW_MS, (("signature", header),))
        reason = self.verifier.why_not(message)
        assert reason is not None or header == self.signed.headers[0][1], "a changed signature passed"
        return 3

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
                if suffix in ("updates", "globals", "scores", "trust"):
                    self.written[suffix] = (record.key, record.value or b"")

    def check(self) -> None:
        """Everything that was refused is in the dead letter, and the roles still do their work."""
        for name, role in self.roles.items():
            refused = sum(n for reason, n in role.counts.items() if reason.startswith("refused: "))
            assert refused == self.out[f"{name} dead-letter"], name
            assert len(self.letters[name]) > 0
        assert self.out["agent predictions"] > 0
        assert self.out["cloud forecasts"] > 0
        assert self.out["scorer scores"] > 0
        assert self.out["trainee updates"] > 0
        assert self.out["trainer globals"] > 1


def _refuse(text: str) -> float:
    raise AssertionError(f"{text} was written")


def _finite(text: str) -> float:
    value = float(text)
    assert math.isfinite(value), text
    return value


def fuzz(seed: int, mutants: int, *, each: int = 4) -> Fuzz:
    """Feed so many mutated records, ``each`` to a valid one; raises if anything does not hold."""
    run, at = Fuzz(seed, each=each), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numbers of 1e308 overflow; what comes of it is looked at
        while run.sent < mutants:
            run.round(at)
            at += 1
    run.check()
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chunk", type=int, default=20_000, help="mutants of one run; each run has its own seed")
    parser.add_argument("--each", type=int, default=16, help="mutants of each valid record")
    given = parser.parse_args()
    begun, sent, seed = time.monotonic(), 0, given.seed
    while sent < given.mutants:
        run = fuzz(seed, min(given.chunk, given.mutants - sent), each=given.each)
        sent, seed = sent + run.sent, seed + 1
        told = {"mutants": sent, "seconds": round(time.monotonic() - begun), "slowest_s": round(run.slowest_s, 3)}
        print(told | dict(run.out), flush=True)


if __name__ == "__main__":
    main()
