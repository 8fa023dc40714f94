"""``replay`` against a real broker, as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from producers.datasets import observations
from streamgp.wire.codec import decode
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Subscription
from streamgp.wire.records import Observation
from streamgp.wire.topics import topic_plan

ROOT = Path(__file__).resolve().parents[2]


def _replay(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "producers.replay", *map(str, args), "--json"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def _read(log: KafkaLog, topic: str, count: int) -> list[Observation]:
    reader = log.reader([Subscription(topic)])
    found: list[Observation] = []
    for _ in range(100):
        found += [decode(message.value, Observation) for message in reader.poll(1.0, 10_000)]
        if len(found) >= count:
            break
    reader.close()
    return found


def test_a_named_set_is_acknowledged_whole(broker: str, prefix: str) -> None:
    log = KafkaLog(broker)
    log.create_topics(topic_plan(prefix, partitions=1))
    done = _replay("--dataset", "irish-wind", "--end", "1962", "--broker", broker, "--prefix", prefix)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["sent"], summary["acknowledged"], summary["failed"]) == (4380, 4380, 0)
    assert _read(log, f"{prefix}.observations", 4380) == list(observations("irish-wind", end="1962"))


def test_without_a_broker_all_fail_and_with_one_the_rest_is_sent(broker: str, prefix: str, tmp_path: Path) -> None:
    """C14, R05: nobody listens at the first address."""
    left = tmp_path / "left.jsonl"
    run = ("--dataset", "irish-wind", "--limit", 100, "--prefix", prefix, "--resume", left)
    first = _replay(*run, "--broker", "127.0.0.1:9", "--timeout", 2)
    assert first.returncode == 1
    assert (json.loads(first.stdout)["acknowledged"], json.loads(first.stdout)["failed"]) == (0, 100)
    log = KafkaLog(broker)
    log.create_topics(topic_plan(prefix, partitions=1))
    second = _replay(*run, "--broker", broker)
    assert second.returncode == 0, second.stderr
    assert _read(log, f"{prefix}.observations", 100) == list(observations("irish-wind", limit=100))
    assert not left.exists()
