"""Any setting of kafka-python passes, an unknown one is an error that names it; nothing is connected for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamgp.errors import SettingsError
from streamgp.wire.kafka import KNOWN, KafkaLog


def test_a_typo_is_named_with_what_was_meant() -> None:
    """C19, R11: ``groupid`` for ``group_id`` started at the end of the topic, silently."""
    with pytest.raises(SettingsError, match="unknown setting 'groupid', did you mean 'group_id'"):
        KafkaLog("localhost:9092", {"consumer": {"groupid": "g"}})
    with pytest.raises(SettingsError, match=r"kafka: unknown setting 'clientid'"):
        KafkaLog("localhost:9092", {"clientid": "x"})
    with pytest.raises(SettingsError, match=r"kafka\.producer: unknown setting 'session_timeout_ms'"):
        KafkaLog("localhost:9092", {"producer": {"session_timeout_ms": 1}})


def test_a_common_key_goes_to_every_client_that_knows_it_and_a_table_goes_before() -> None:
    settings = KafkaLog(
        "localhost:9092",
        {
            "security_protocol": "SASL_SSL",
            "session_timeout_ms": 9_000,
            "request_timeout_ms": 20_000,
            "producer": {"request_timeout_ms": 5_000, "compression_type": "gzip"},
        },
    ).settings
    for kind in KNOWN:
        assert settings.of(kind)["security_protocol"] == "SASL_SSL"
    assert settings.of("consumer")["session_timeout_ms"] == 9_000
    assert "session_timeout_ms" not in settings.of("producer")
    assert settings.of("producer")["request_timeout_ms"] == 5_000
    assert settings.of("consumer")["request_timeout_ms"] == 20_000
    assert settings.of("producer")["compression_type"] == "gzip"


def test_the_defaults_lose_nothing() -> None:
    """R05, R07, R11."""
    settings = KafkaLog("localhost:9092").settings
    consumer, producer = settings.of("consumer"), settings.of("producer")
    assert (producer["enable_idempotence"], producer["acks"]) == (True, "all")
    assert (consumer["enable_auto_commit"], consumer["isolation_level"]) == (False, "read_committed")
    assert not consumer["allow_auto_create_topics"]
    assert not producer["allow_auto_create_topics"]
    for kind, known in KNOWN.items():
        assert set(settings.of(kind)) <= set(known)


@pytest.mark.parametrize("client", ["consumer", "producer", "admin"])
def test_every_key_of_every_client_passes_or_says_who_decides(client: Any) -> None:
    for key, default in KNOWN[client].items():
        try:
            KafkaLog("localhost:9092", {client: {key: default}})
        except SettingsError as error:
            assert "cannot be set" in str(error) or key == "auto_offset_reset", key  # noqa: PT017  which keys do it is the point


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        ("enable_auto_commit", True, "offsets are committed when outputs are confirmed"),
        ("max_poll_records", "many", "must be a number, not 'many'"),
        ("max_poll_records", True, "must be a number, not True"),
        ("check_crcs", 1, "must be true or false, not 1"),
        ("ssl_cafile", "/nowhere/ca.pem", "no file '/nowhere/ca.pem'"),
        ("auto_offset_reset", "none", "earliest or latest"),
    ],
)
def test_a_value_that_cannot_be_is_named(key: str, value: object, match: str) -> None:
    with pytest.raises(SettingsError, match=f"{key}.*{match}"):
        KafkaLog("localhost:9092", {"consumer": {key: value}})


def test_values_of_toml_become_those_of_python(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("")
    settings = KafkaLog(
        "a:1, b:2",
        {"ssl_cafile": str(authority), "consumer": {"socket_options": [[6, 1, 1]], "auto_offset_reset": "latest"}},
    ).settings
    consumer = settings.of("consumer")
    assert consumer["bootstrap_servers"] == ["a:1", "b:2"]
    assert consumer["socket_options"] == [(6, 1, 1)]
    assert settings.start == "latest"


@pytest.mark.parametrize("broker", ["", "localhost", "localhost:", ":9092", "localhost:http", "a:1,b", "a:70000"])
def test_an_address_that_is_none_is_refused(broker: str) -> None:
    with pytest.raises(SettingsError, match="HOST:PORT"):
        KafkaLog(broker)


def test_a_table_must_be_one() -> None:
    with pytest.raises(SettingsError, match=r"kafka\.consumer must be a table"):
        KafkaLog("localhost:9092", {"consumer": 3})


@pytest.mark.parametrize("table", [{"security_protocol": "SASL-SSL"}, {"consumer": {"max_poll_interval_ms": -5}}])
def test_a_value_that_kafka_would_not_refuse_is_refused_here(table: dict[str, object]) -> None:
    """C19: a slip in the protocol must not make a connection without encryption."""
    with pytest.raises(SettingsError, match=r"security_protocol must be one of|must not be negative"):
        KafkaLog("127.0.0.1:9092", table)
