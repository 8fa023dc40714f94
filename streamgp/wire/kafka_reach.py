"""Whether anybody is there: a plain connection tells a broker that is away from one that wants other settings."""

from __future__ import annotations

import socket
from contextlib import suppress

from streamgp.wire.kafka_settings import KafkaSettings


def reachable(settings: KafkaSettings) -> bool:
    """Whether anybody accepts a connection; behind a proxy only a client can tell, and True is the answer."""
    config = settings.of("admin")
    if config.get("proxy_url") or config.get("socks5_proxy"):
        return True
    for server in config["bootstrap_servers"]:
        host, _, port = str(server).rpartition(":")
        with suppress(OSError):
            socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
            return True
    return False


def diagnose(settings: KafkaSettings) -> str:
    """Why nobody answers, as far as a plain connection tells."""
    if reachable(settings):
        return f"{settings.broker} accepts connections but does not answer in time: do TLS and SASL match its own?"
    return f"no broker answers at {settings.broker}"
