"""Settings of the Kafka clients: any of kafka-python's own, checked against what it knows."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, final

from streamgp.errors import SettingsError
from streamgp.wire.log import Start

Kind: TypeAlias = Literal["consumer", "producer", "admin"]
KINDS: tuple[Kind, ...] = ("consumer", "producer", "admin")

#: settings that would break a promise of this package, and who decides instead
_OURS = {
    "enable_auto_commit": "offsets are committed when outputs are confirmed",
    "key_deserializer": "keys are text",
    "value_deserializer": "the codec reads the bytes",
    "key_serializer": "keys are text",
    "value_serializer": "the codec writes the bytes",
    "partitioner": "the partition is that of the key, as every Kafka client computes it",
    "transactional_id": "the role decides it",
    "kafka_client": "it is made here",
}
_CHOICES = {
    "security_protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
}
_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")

#: what differs from kafka-python's defaults: nothing is lost, the broker's return is noticed within seconds
_DEFAULTS: dict[Kind, dict[str, Any]] = {
    "consumer": {
        "client_id": "streamgp",
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
        "isolation_level": "read_committed",
        "reconnect_backoff_max_ms": 2_000,
        "metadata_max_age_ms": 60_000,
        "bootstrap_timeout_ms": 15_000,
    },
    "producer": {
        "client_id": "streamgp",
        "enable_idempotence": True,
        "acks": "all",
        "allow_auto_create_topics": False,
        "max_block_ms": 3_000,
        "transaction_timeout_ms": 10_000,
        "retry_backoff_ms": 20,  # it waits so long within the first transaction and while a writer is made
        "reconnect_backoff_max_ms": 2_000,
        "metadata_max_age_ms": 60_000,
        "bootstrap_timeout_ms": 15_000,
    },
    "admin": {"client_id": "streamgp", "bootstrap_timeout_ms": 15_000},
}


@final
@dataclass(frozen=True)
class KafkaSettings:
    """What each kind of client is made with.

    Parameters
    ----------
    broker
        ``host:port``, several separated by commas.
    consumer, producer, admin
        kafka-python's settings of that client, on top of this package's defaults.
    start
        Where a new group begins, from ``auto_offset_reset``; None leaves it to the reader.

    Examples
    --------
    >>> KafkaSettings("a:9092,b:9092", producer={"linger_ms": 5}).of("producer")["bootstrap_servers"]
    ['a:9092', 'b:9092']
    """

    broker: str
    consumer: Mapping[str, Any] = field(default_factory=dict)
    producer: Mapping[str, Any] = field(default_factory=dict)
    admin: Mapping[str, Any] = field(default_factory=dict)
    start: Start | None = None

    def of(self, kind: Kind) -> dict[str, Any]:
        """All settings of one kind of client."""
        servers = {"bootstrap_servers": [s.strip() for s in self.broker.split(",")]}
        return {**_DEFAULTS[kind], **servers, **getattr(self, kind)}


def kafka_settings(broker: str, table: Mapping[str, Any], known: Mapping[Kind, Mapping[str, Any]]) -> KafkaSettings:
    """Settings from a file's ``[kafka]`` table.

    A plain key goes to every client that knows it, the tables ``consumer``, ``producer`` and ``admin`` to that
    client alone.

    Parameters
    ----------
    known
        Of each kind of client, what kafka-python knows, with its defaults.

    Raises
    ------
    SettingsError
        If a key is unknown to kafka-python or decided by this package, or its value is of the wrong type or names
        a file that is not there.
    """
    check_broker(broker)
    common = {key: value for key, value in table.items() if key not in KINDS}
    for key, value in common.items():
        _check(key, value, "kafka", {**known["admin"], **known["producer"], **known["consumer"]})
    tables: dict[Kind, dict[str, Any]] = {}
    for kind in KINDS:
        own = table.get(kind, {})
        if not isinstance(own, Mapping):
            raise SettingsError(f"kafka.{kind} must be a table, not {own!r}")
        for key, value in own.items():
            _check(key, value, f"kafka.{kind}", known[kind])
        taken = {key: value for key, value in common.items() if key in known[kind]}
        tables[kind] = {key: _as_python(key, value) for key, value in {**taken, **own}.items()}
    start = tables["consumer"].pop("auto_offset_reset", None)
    if start not in (None, "earliest", "latest"):
        raise SettingsError(f"kafka.consumer.auto_offset_reset must be earliest or latest, not {start!r}")
    return KafkaSettings(broker, **tables, start=cast(Start | None, start))


def check_broker(broker: str) -> None:
    """Raise a SettingsError unless it is ``host:port``, or several of them."""
    for server in broker.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise SettingsError(f"broker must be HOST:PORT, not {server.strip()!r}")


def _check(key: str, value: Any, where: str, known: Mapping[str, Any]) -> None:
    if key in _OURS:
        raise SettingsError(f"{where}.{key} cannot be set: {_OURS[key]}")
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        raise SettingsError(f"{where}: unknown setting {key!r}{hint}")
    if key != "acks" and not _fits(value, known[key]):
        wanted = "true or false" if isinstance(known[key], bool) else "a number"
        raise SettingsError(f"{where}.{key} must be {wanted}, not {value!r}")
    if key in _CHOICES and value is not None and value not in _CHOICES[key]:
        raise SettingsError(f"{where}.{key} must be one of {', '.join(_CHOICES[key])}, not {value!r}")
    if key.endswith(("_ms", "_bytes", "_records")) and isinstance(value, int | float) and value < -1:
        raise SettingsError(f"{where}.{key} must not be negative, not {value!r}")
    if key in _FILES and value is not None and not Path(value).is_file():
        raise SettingsError(f"{where}.{key}: there is no file {value!r}")


def _fits(value: Any, default: Any) -> bool:
    """Whether a switch is a switch and a number a number; kafka-python checks the rest itself."""
    if isinstance(default, bool):
        return isinstance(value, bool)
    if isinstance(default, int | float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return True


def _as_python(key: str, value: Any) -> Any:
    """TOML has no tuples; kafka-python wants some."""
    if key == "api_version" and value is not None:
        return tuple(value)
    if key == "socket_options":
        return [tuple(option) for option in value]
    return value
