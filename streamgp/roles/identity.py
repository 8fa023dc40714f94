"""Whether a role signs, with which key, and whom it believes."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from streamgp.roles.settings import Settings
from streamgp.roles.stores import folder_name
from streamgp.wire.clock import Clock
from streamgp.wire.gate import Gate, OpenGate
from streamgp.wire.keys import read_private
from streamgp.wire.signing import SigningGate

#: the role of whoever asks from outside
ASKER = "asker"


def signs(settings: Settings) -> bool:
    """Whether records are signed and verified."""
    if settings.signing.enabled is not None:
        return settings.signing.enabled
    return settings.broker is not None and not is_loopback(settings.broker)


def is_loopback(broker: str) -> bool:
    """Whether all of these addresses are on this machine.

    Examples
    --------
    >>> is_loopback("127.0.0.1:9092,localhost:9093"), is_loopback("[::1]:9092"), is_loopback("kafka:9092")
    (True, True, False)
    """
    hosts = [server.strip().rpartition(":")[0].strip("[]") for server in broker.split(",")]
    return all(_is_loopback(host) for host in hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def key_path(folder: Path, role: str) -> Path:
    """The file of a role's private key."""
    return folder / f"{folder_name(role)}.pem"


def make_gate(settings: Settings, role: str, clock: Clock) -> Gate:
    """What lets records in to a role and signs those that go out.

    Raises
    ------
    SettingsError
        If records are signed and the role has no key, or one that the list does not allow any more or never did.
    """
    if not signs(settings):
        return OpenGate()
    folder = Path(settings.signing.keys)
    own = key_path(folder, role)
    return SigningGate(
        role,
        read_private(own),
        folder,
        prefix=settings.prefix,
        clock=clock,
        max_delay_s=settings.signing.max_delay_s,
        own=own,
    )
