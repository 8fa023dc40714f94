"""The topic plan and the preflight."""

from __future__ import annotations

import threading
import time

import pytest

from streamgp.errors import BrokerUnavailableError, SettingsError, TopicMissingError
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import DEAD_LETTER, TOPICS
from streamgp.wire.topics import BROADCAST, INTERNAL, preflight, topic_name, topic_plan


def test_every_topic_of_the_design_is_planned_once() -> None:
    names = [spec.name for spec in topic_plan("net")]
    assert sorted(names) == sorted(f"net.{suffix}" for suffix in (*TOPICS, DEAD_LETTER, *INTERNAL))


def test_broadcast_topics_have_one_partition_and_keyed_ones_spread() -> None:
    sizes = {spec.name.partition(".")[2]: spec.partitions for spec in topic_plan("net", partitions=5)}
    assert {suffix for suffix, size in sizes.items() if size == 1} == BROADCAST | {"globals"}
    assert set(sizes.values()) == {1, 5}
    assert [spec.name for spec in topic_plan("net") if spec.compacted] == [
        "net.globals",
        "net.trust",
        "net.snapshots",
    ]


def test_observations_are_kept_for_ever() -> None:
    kept = {spec.name: spec.retention_ms for spec in topic_plan("net")}
    assert kept["net.observations"] is None
    assert kept["net.queries"] == 7 * 86_400_000


@pytest.mark.parametrize("prefix", ["", "a b", "wetter/köln", ".", "..", "x" * 201])
def test_a_prefix_that_no_broker_takes_is_refused(prefix: str) -> None:
    with pytest.raises(SettingsError, match="prefix"):
        topic_name(prefix, "queries")


def test_the_number_of_partitions_is_checked() -> None:
    with pytest.raises(SettingsError, match="at least 1"):
        topic_plan("net", partitions=0)


def test_preflight_names_all_that_is_missing_and_the_command() -> None:
    """R17: in less than 5 s."""
    log = MemoryLog()
    log.create_topics(topic_plan("net"))
    preflight(log, ["net.queries", "net.scores"])
    begun = time.monotonic()
    with pytest.raises(
        TopicMissingError, match=r"net\.b, net\.c; make them with `streamgp topics create --prefix net`"
    ):
        preflight(log, ["net.c", "net.queries", "net.b"], command="streamgp topics create --prefix net")
    assert time.monotonic() - begun < 5.0


def test_preflight_waits_for_topics_in_the_making() -> None:
    log = MemoryLog()
    timer = threading.Timer(0.3, log.create_topics, (topic_plan("net"),))
    timer.start()
    preflight(log, ["net.queries"])
    timer.join()


def test_preflight_waits_for_a_broker_until_told_to_stop() -> None:
    """An agent started before its broker waits; SIGTERM ends the wait."""

    class Away:
        asked = 0

        def topics(self) -> dict[str, int]:
            self.asked += 1
            raise BrokerUnavailableError("nobody answers")

    log, stop = Away(), threading.Event()
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    begun = time.monotonic()
    preflight(log, ["net.queries"], stop=stop)  # type: ignore[arg-type]  # a log of which only topics() is used
    assert 0.1 < time.monotonic() - begun < 2.0
    assert log.asked == 1
    timer.join()


def test_stations_may_have_topics_of_their_own() -> None:
    plan = topic_plan("net", stations=("Malin Head", "Köln"))
    own = [spec for spec in plan if spec.name.startswith("net.observations.")]
    assert [(spec.name, spec.partitions) for spec in own] == [
        ("net.observations.Malin_20Head", 1),
        ("net.observations.K_c3_b6ln", 1),
    ]
    assert {spec.name for spec in topic_plan("net")} < {spec.name for spec in plan}
