"""TLS and SASL by settings alone, against a real broker with a certificate made here."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from streamgp.errors import LogError
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Subscription, TopicSpec
from tests.brokers import SOCKETS_ARE_LEFT, OwnBroker
from tests.wire.conformance.common import put, read, rows, write_and_flush

pytestmark = SOCKETS_ARE_LEFT
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def secured(own_broker: OwnBroker, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The address of a broker that wants TLS and a password, and its certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificate can be made")
    folder = tmp_path_factory.mktemp("tls")
    key, certificate, store = folder / "key.pem", folder / "certificate.pem", folder / "server.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command, *names, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    store.write_text(key.read_text() + certificate.read_text())
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    own_broker.extra = {
        "listener.security.protocol.map": "CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.client.ssl.keystore.type": "PEM",
        "listener.name.client.ssl.keystore.location": str(store),
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f'{login} user_alice="{PASSWORD}";',
    }
    return own_broker.start(), certificate


def table(certificate: Path, **more: Any) -> dict[str, Any]:
    """What stands under [kafka] in a settings file."""
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(certificate),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
        **more,
    }


def test_tls_and_a_password_pass_through(secured: tuple[str, Path]) -> None:
    address, certificate = secured
    log = KafkaLog(address, table(certificate))
    log.create_topics([TopicSpec("secret.rows")])
    put(log, rows("secret.rows", 20))
    read(log.reader([Subscription("secret.rows")], group="g"), 20)
    writer = log.writer(transactional_id="id")
    with writer.transaction():
        writer.write(rows("secret.rows", 3))
    log.close()


def test_a_wrong_password_is_told_and_not_tried_for_ever(secured: tuple[str, Path]) -> None:
    """It must not look like a broker that is away."""
    address, certificate = secured
    log = KafkaLog(address, table(certificate, sasl_plain_password="wrong", bootstrap_timeout_ms=2_500))
    for use in (
        log.topics,
        lambda: log.reader([Subscription("secret.rows")]).poll(20.0),
        lambda: write_and_flush(log.writer(), rows("secret.rows", 1)),
    ):
        begun = time.monotonic()
        with pytest.raises(LogError, match="denies access"):
            use()
        assert time.monotonic() - begun < 10.0
    log.close()


def test_talking_plainly_to_a_listener_that_wants_tls_is_explained(secured: tuple[str, Path]) -> None:
    log = KafkaLog(secured[0], {"bootstrap_timeout_ms": 1_000})
    with pytest.raises(LogError, match="do TLS and SASL match"):
        log.topics()
    log.close()


def test_a_broker_with_another_certificate_is_not_trusted(secured: tuple[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other"]
    subprocess.run([*command, "-keyout", str(tmp_path / "k"), "-out", str(other)], check=True, capture_output=True)
    log = KafkaLog(secured[0], table(other, bootstrap_timeout_ms=1_500))
    with pytest.raises(LogError, match=r"(?i)certificate.verify.failed"):
        log.topics()
    log.close()
