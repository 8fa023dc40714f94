"""Snapshots in a topic: each role finds its own, whatever the names of the others."""

from __future__ import annotations

import hashlib
import json

import pytest

from streamgp.wire.clock import SystemClock
from streamgp.wire.log import Outgoing, Subscription, TopicSpec
from streamgp.wire.memory import MemoryLog
from streamgp.wire.snapshot_topic import TopicStore

#: names that another's keys could be made of
ROLES = [
    "agent.S7",
    "agent.S7/0",
    "agent.S7/0/0",
    "agent.S7/1/",
    "agent.S7//0",
    "agent.S7/",
    "agent.S7/head",
    "agent./",
]


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create_topics([TopicSpec("s", compacted=True)])
    return log


def store_of(log: MemoryLog, role: str) -> TopicStore:
    return TopicStore(log, "s", role, write=log.writer().write, clock=SystemClock())


def test_roles_on_one_partition_keep_their_own_whatever_their_names(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamgp.wire.snapshot_topic.PART_BYTES", 3)
    stores = {role: store_of(log, role) for role in ROLES}
    for number in (1, 2, 3):
        for role, store in stores.items():
            store.save(number, f"{role} {number}".encode())
    keys = [m.key for m in log.reader([Subscription("s")]).poll(0.0, 10_000)]
    written = {role: {k for k in keys if k is not None and k.startswith(role)} for role in ROLES}
    assert written["agent.S7"] >= {"agent.S7/0", "agent.S7/1", "agent.S7/0/0"}  # as they have always been
    for role in ROLES:
        assert f"{role}/head" not in keys
        assert store_of(log, role).load() == [(3, f"{role} 3".encode()), (2, f"{role} 2".encode())]


@pytest.mark.parametrize("role", ["agent.A", "agent.S7/0"])
def test_what_earlier_releases_wrote_is_read_and_followed_on(log: MemoryLog, role: str) -> None:
    for slot, number in ((0, 4), (1, 5)):
        data = f"{number}".encode()
        manifest = {"number": number, "parts": 1, "sha256": hashlib.sha256(data).hexdigest()}
        log.writer().write(
            [
                Outgoing("s", f"{role}/{slot}/0", data),
                Outgoing("s", f"{role}/{slot}", json.dumps(manifest).encode()),
            ]
        )
    store = store_of(log, role)
    assert store.load() == [(5, b"5"), (4, b"4")]
    store.save(6, b"6")
    assert store_of(log, role).load() == [(6, b"6"), (5, b"5")]


def test_a_part_of_another_is_no_damaged_snapshot_of_ones_own(log: MemoryLog) -> None:
    """A new station whose old keys are another's parts has no snapshot yet, which is no reason not to start."""
    store_of(log, "agent.S7").save(1, b"x")
    assert store_of(log, "agent.S7/0").load() == []


@pytest.mark.parametrize("parts", [-1, 10**12])
def test_a_manifest_that_names_parts_that_cannot_be_is_damaged_and_the_other_is_used(
    log: MemoryLog, parts: int
) -> None:
    store = store_of(log, "agent.A")
    for number in (1, 2):
        store.save(number, b"x")
    forged = {"number": 9, "parts": parts, "sha256": ""}
    log.writer().write([Outgoing("s", "agent.A/1", json.dumps(forged).encode())])
    assert store_of(log, "agent.A").load() == [(1, b"x"), (0, b"")]
