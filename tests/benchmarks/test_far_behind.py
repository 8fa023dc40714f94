"""A cloud that starts with a backlog of answers: how fast it gets through, and that nobody is told as missing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from streamgp.roles.cloud import CloudRole
from streamgp.roles.settings import CloudSettings, KeepSettings, NetworkSection, Settings
from streamgp.wire.codec import decode, encode
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Outgoing, Subscription
from streamgp.wire.records import Forecast
from streamgp.wire.topics import topic_plan
from tests.benchmarks.reliable import kept
from tests.flow.test_cloud_behind import AGENTS, DEADLINE_S, Behind, answer_of, answered_by_all, query_of

pytestmark = pytest.mark.bench


@pytest.mark.timeout(900)
def test_ten_thousand_questions_and_their_answers_in_memory(tmp_path: Path) -> None:
    """120,000 answers, read at a pace that passes the deadline six times over."""
    behind, used = Behind(tmp_path, count=10_000, step_s=0.03 * DEADLINE_S), time.process_time()
    behind.until_still()
    cpu_s = time.process_time() - used
    print(f"\nmemory: 10,000 windows of 12 answers in {cpu_s:.1f} s of CPU, {10_000 / cpu_s:,.0f} a second")
    answered_by_all(behind.forecasts(), 10_000)


@pytest.mark.timeout(900)
def test_a_backlog_at_a_broker_that_takes_longer_than_the_deadline(broker: str, prefix: str, tmp_path: Path) -> None:
    """3,000 questions, 36,000 answers on twelve partitions, and a deadline of one second by the real clock."""
    count, log = 3_000, KafkaLog(broker)
    settings = Settings(
        prefix=prefix,
        stations=AGENTS,
        cloud=CloudSettings(deadline_s=1.0, beta=0.0),
        network=NetworkSection(enabled=False),
        keep=KeepSettings(snapshot_every_s=1e6, snapshot_busy_s=1e6),
    )
    log.create_topics(topic_plan(prefix))
    writer = log.writer()
    for i in range(count):
        query = query_of(i)
        writer.write([Outgoing(settings.topic("queries"), query.id, encode(query))])
        answers = [encode(answer_of(i, agent)) for agent in AGENTS]
        writer.write([Outgoing(settings.topic("predictions"), query.id, value) for value in answers])
    writer.flush(120.0)
    one = kept(log, CloudRole(settings), "cloud", settings, str(tmp_path))
    begun = time.perf_counter()
    one.recover()
    while one.role.counts["forecast ok"] + one.role.counts["forecast no_quorum"] < count:
        one.step(0.05)
    one.commit()
    print(f"\nbroker: {count} windows of 12 answers in {time.perf_counter() - begun:.1f} s")
    one.close()
    reader, found = log.reader([Subscription(settings.topic("forecasts"))]), []
    while len(found) < count:
        found += [decode(m.value, Forecast) for m in reader.poll(0.5)]
    answered_by_all(found, count)
    log.close()
